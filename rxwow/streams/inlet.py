"""Inlet: the source that is pushed, and says when it is full."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from threading import get_ident
from typing import Generic, TypeVar

from reactivex import abc

from rxwow.errors import BlockingCallError, InvalidArgumentError, RxwowError, UsageError
from rxwow.platform import Platform, current_platform
from rxwow.streams.constants import throw
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import check_may_wait, running_loop
from rxwow.streams.inline import InlineEmitter
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.putters import Putter, TaskPutter, ThreadPutter
from rxwow.streams.waiting import wait_for

__all__ = ["Inlet", "InletClosedError"]

T = TypeVar("T")


class InletClosedError(RxwowError):
    """An item was put into an inlet whose stream is over."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the item was not taken: {reason}")


class Inlet(Flowable[T]):
    """A Flowable for what comes by callback: items are pushed in, and wait until they are asked for.

    `offer` never waits, `await put` waits without holding a thread, and `put_wait` holds the calling thread; any thread
    may call them. Items may be pushed before the subscriber comes. One that is asked for already is emitted on the
    thread that pushes it, before the call returns, unless another thread is emitting; what waits is emitted on the
    thread that asks.

    There is one subscriber in all: the second gets `on_error(UsageError)`. The stream is over with `complete`, with
    `fail`, or when the subscriber cancels. What is already in the inlet is emitted before the end.

    Its lock guards everything that it and its emitter hold. It is made here and not when the inlet is subscribed, since
    items may come before.

    Args:
        capacity: how many items may wait, at least 1.

    Raises:
        InvalidArgumentError: `capacity` is no whole number of at least 1.

    >>> inlet = Inlet(capacity=2)
    >>> [inlet.offer(item) for item in "abc"]
    [True, True, False]
    >>> inlet.complete()
    >>> inlet.subscribe(print) and None
    a
    b
    """

    def __init__(self, capacity: int = 256) -> None:
        if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
            raise InvalidArgumentError("capacity", capacity, "a whole number of at least 1")
        super().__init__(self._serve)
        self._capacity = capacity
        self._platform = current_platform()
        # RxPY's Observable has a `lock` of its own, for other things.
        self._guard = self._platform.lock()
        self._items: deque[T] = deque()
        self._putters: deque[Putter] = deque()
        self._emitter: _InletEmitter[T] | None = None
        self._over: str | None = None
        self._error: Exception | None = None

    def offer(self, item: T) -> bool:
        """Push an item if there is room.

        Returns:
            False if the item was not taken: `capacity` items wait, or others wait to be put first, or the stream is
            over, as `ended` tells.
        """
        with self._guard:
            if self._over is not None or not self._has_room():
                return False
            drains = self._take(item)
        self._drain(drains)
        return True

    async def put(self, item: T) -> None:
        """Push an item when there is room; those who wait get their turn in the order in which they came.

        The loop that runs here may be any, and another for each call. A call that is cancelled while it waits has not
        put its item.

        Raises:
            InletClosedError: the stream is over, or was before there was room.
        """
        with self._guard:
            self._check_open()
            putter = None if self._has_room() else TaskPutter(asyncio.get_running_loop())
            drains = self._take(item) if putter is None else self._join(putter)
        self._drain(drains)
        if putter is None:
            return
        try:
            await putter.future
        except GeneratorExit:
            # Thrown in by the collector, perhaps, which may have come while this very thread holds the lock.
            putter.gone = True
            with contextlib.suppress(RuntimeError):
                self._platform.thread(self.tell_next, "rxwow-inlet").start()
            raise
        except BaseException:
            self._give_up(putter)
            raise
        self._put(putter, item)

    def put_wait(self, item: T) -> None:
        """Push an item when there is room, and hold the calling thread until then; in turn with those who `put`.

        Raises:
            InletClosedError: the stream is over, or was before there was room.
            BlockingCallError: the calling thread is a worker, runs an event loop, or is emitting an item of this inlet.
        """
        self._check_may_wait()
        with self._guard:
            self._check_open()
            putter = None if self._has_room() else ThreadPutter(self._platform)
            drains = self._take(item) if putter is None else self._join(putter)
        self._drain(drains)
        if putter is None:
            return
        try:
            wait_for(putter.event, self._platform)
        except BaseException:
            self._give_up(putter)
            raise
        self._put(putter, item)

    def complete(self) -> None:
        """End the stream after the items that wait; nothing happens if it is over already."""
        emitter = self._close("complete() was called before; make a new Inlet for more items", None)
        if emitter is not None:
            emitter.complete()

    def fail(self, error: Exception) -> None:
        """End the stream with `error`, after the items that wait; nothing happens if it is over already.

        Raises:
            InvalidArgumentError: `error` is no Exception.
        """
        if not isinstance(error, Exception):
            raise InvalidArgumentError("error", error, "an Exception")
        emitter = self._close("fail() was called before; make a new Inlet for more items", error)
        if emitter is not None:
            emitter.fail(error)

    @property
    def ended(self) -> bool:
        """Whether the stream is over, so that no item will be taken any more."""
        return self._over is not None

    # Putting. What waits for room is told of it one at a time, and puts its item itself: so one that is cancelled
    # meanwhile has not put, and no later one overtakes it.

    def _check_open(self) -> None:
        if self._over is not None:
            raise InletClosedError(self._over)

    def _check_may_wait(self) -> None:
        instead = "use 'await inlet.put(item)' in a coroutine, or offer(item), which doesn't wait"
        check_may_wait("put_wait()", instead)
        if running_loop() is not None:
            raise BlockingCallError("put_wait()", "the event loop of this thread", instead)
        emitter = self._emitter
        if emitter is not None and emitter.delivering == get_ident():
            raise BlockingCallError("put_wait()", "the thread that empties the inlet", instead)

    def _has_room(self) -> bool:
        return self._first_putter() is None and len(self._items) < self._capacity

    def _first_putter(self) -> Putter | None:
        while self._putters and self._putters[0].gone:
            self._putters.popleft()
        return self._putters[0] if self._putters else None

    def _take(self, item: T) -> bool:
        """Keep an item; return whether to drain. Called with the lock."""
        self._items.append(item)
        return self._emitter is not None and self._emitter._become_drainer()

    def _join(self, putter: Putter) -> bool:
        self._putters.append(putter)
        return False

    def _drain(self, drains: bool) -> None:
        if drains and self._emitter is not None:
            self._emitter._begin_drain()

    def _put(self, putter: Putter, item: T) -> None:
        """Put the item of one that was told that it is its turn, or that the stream is over."""
        with self._guard:
            self._check_open()
            self._putters.remove(putter)
            drains = self._take(item)
        self.tell_next()
        self._drain(drains)

    def _give_up(self, putter: Putter) -> None:
        with self._guard:
            if putter in self._putters:
                self._putters.remove(putter)
        self.tell_next()

    def tell_next(self) -> None:
        """Tell the first of those who wait, if there is room."""
        while True:
            with self._guard:
                putter = self._first_putter()
                if putter is None or putter.told or len(self._items) >= self._capacity:
                    return
                putter.told = True
            if putter.wake():
                return
            with self._guard:
                if putter in self._putters:
                    self._putters.remove(putter)

    def _close(self, reason: str, error: Exception | None) -> _InletEmitter[T] | None:
        with self._guard:
            if self._over is not None:
                return None
            self._over = reason
            self._error = error
            putters, self._putters = self._putters, deque()
        for putter in putters:
            putter.wake()
        return self._emitter

    # Subscribing.

    def _serve(self, subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
        emitter = _InletEmitter(subscriber, current_platform(), self)
        with self._guard:
            taken = self._emitter is not None
            if not taken:
                self._emitter = emitter
            over, error = self._over, self._error
            self._error = None
        if taken:
            refusal: Flowable[T] = throw(
                UsageError("an Inlet has one subscriber, and had it; make an Inlet for each, or share its items")
            )
            return refusal._publish(subscriber, scheduler)
        if error is not None:
            emitter.fail(error)
        elif over is not None:
            emitter.complete()
        emitter.start()
        return emitter

    def cancelled(self) -> None:
        """Called by the emitter when the stream ends before its items do."""
        self._close("the subscriber has cancelled; stop, or make a new Inlet and subscribe to that", None)


class _InletEmitter(InlineEmitter[T], Generic[T]):
    """Emits what waits in its inlet, whose lock it uses as its own."""

    __slots__ = ("_inlet", "delivering")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, inlet: Inlet[T]) -> None:
        super().__init__(subscriber, platform)
        self._lock = inlet._guard
        self._inlet = inlet
        self.delivering: int | None = None
        """The drainer's thread while it delivers: compared with the thread that looks, and only that sets it to it."""

    def _has_items(self) -> bool:
        return bool(self._inlet._items)

    def _emit(self, limit: int) -> int:
        waiting = self._inlet._items
        with self._lock:
            items = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        if not items:
            return 0
        self._inlet.tell_next()
        self.delivering = get_ident()
        try:
            return self._deliver(items)
        finally:
            self.delivering = None

    def _stop(self) -> None:
        self._inlet.cancelled()

    def _release(self) -> None:
        with self._lock:
            self._inlet._items.clear()
