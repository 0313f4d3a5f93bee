"""The emitter of an operator that goes from one source to another and takes the demand along."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TypeVar

from reactivex import abc
from reactivex.disposable import SingleAssignmentDisposable

from rxwow.platform import Platform
from rxwow.streams.async_iterables import _THREADED
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import Emitter, is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import is_about_to_wait, running_loop
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription
from rxwow.streams.timers import scheduler_of_timers

__all__ = ["SwitchingEmitter", "Upstream"]

T = TypeVar("T")


class SwitchingEmitter(Emitter[T]):
    """Emits what its source sends, one source at a time; a subclass says when it goes on to another.

    `_lock` guards `_items`, `_owed`, `_upstream`, `_timer` and the fields of the upstreams. `_owed` is what was
    requested less what was accepted: what the next source is to be asked for.

    Args:
        subscriber: who gets the items.
        platform: the platform of the subscription.
        scheduler: the subscribe-time scheduler, which each source gets.
        timers: the scheduler for timers that the user has chosen, if any.
    """

    __slots__ = ("_context", "_items", "_loop", "_owed", "_scheduler", "_timer", "_timers", "_upstream")

    def __init__(
        self,
        subscriber: Subscriber[T],
        platform: Platform,
        scheduler: abc.SchedulerBase | None,
        timers: abc.SchedulerBase | None,
    ) -> None:
        super().__init__(subscriber, platform)
        self._scheduler = scheduler
        self._timers = scheduler_of_timers(timers, scheduler)
        self._timer: SingleAssignmentDisposable | None = None
        self._items: deque[T] = deque()
        self._owed = 0
        self._upstream: Upstream[T] | None = None
        # A source that is subscribed by a timer is to find what the first one has found.
        self._context = copy_context()
        elsewhere = is_about_to_wait() or isinstance(scheduler, _THREADED)
        self._loop = None if elsewhere else running_loop()

    # The subscriber's side.

    def request(self, n: int) -> None:
        # First, since a source may emit before its own `request` returns.
        super().request(n)
        if not is_valid_request(n):
            return
        with self._lock:
            if self._ended:
                return
            self._owed = min(self._owed + n, UNBOUNDED)
            subscription = None if self._upstream is None else self._upstream.subscription
        self._asked()
        if subscription is not None:
            subscription.request(n)

    # What a subclass does.

    def _asked(self) -> None:
        """Called on the asking thread, before the source is asked."""

    def _upstream_failed(self, upstream: Upstream[T], error: Exception) -> None:
        """Called with the `on_error` of a source."""
        if self._leave(upstream):
            self.fail(error)

    def _subscribe_to(self, source: Flowable[T]) -> None:
        """Make `source` the one that is listened to, and ask it for what is owed."""
        upstream: Upstream[T] = Upstream(self) if self._on_batch is None else _BatchUpstream(self)
        with self._lock:
            if self._ended:
                return
            self._upstream = upstream
        try:
            source.subscribe(upstream, scheduler=self._scheduler)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self._upstream_failed(upstream, as_error(error))

    def _leave(self, upstream: Upstream[T]) -> bool:
        """Listen to `upstream` no more; return whether it was listened to."""
        with self._lock:
            if self._upstream is not upstream:
                return False
            self._upstream = None
            return True

    def _new_timer(self) -> SingleAssignmentDisposable:
        """Return the timer that is set next, which the end of the stream disposes; called under the lock."""
        self._timer = SingleAssignmentDisposable()
        return self._timer

    def _set_timer(self, timer: SingleAssignmentDisposable, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` after some time, in the context of the subscription."""

        def fire(_: abc.SchedulerBase, __: object = None) -> None:
            self._context.copy().run(action)

        try:
            timer.disposable = self._timers.schedule_relative(seconds, fire)
        except BaseException as error:
            if not is_contained(error):
                raise
            self.fail(as_error(error), at_once=True)

    # The sources' side.

    def _subscribed(self, upstream: Upstream[T], subscription: Subscription) -> None:
        with self._lock:
            upstream.subscription = subscription
            listens = self._upstream is upstream and not self._ended
            owed = self._owed
        if not listens:
            subscription.cancel()
        elif owed > 0:
            subscription.request(owed)

    def _accept(self, upstream: Upstream[T], items: Sequence[T]) -> None:
        with self._lock:
            if self._upstream is not upstream or self._ended:
                return
            upstream.received = True
            if self._owed != UNBOUNDED:
                self._owed -= len(items)
            self._items.extend(items)
            if not self._become_drainer():
                return
        self._begin_drain()

    def _upstream_completed(self, upstream: Upstream[T]) -> None:
        if self._leave(upstream):
            self.complete()

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that a source finds where it is not subscribed on one."""
        if self._loop is not None:
            return self._loop
        offer: Callable[[], asyncio.AbstractEventLoop | None] | None = getattr(self._subscriber, "event_loop", None)
        return None if offer is None else offer()

    # What the emitter asks.

    def _has_items(self) -> bool:
        return bool(self._items)

    def _emit(self, limit: int) -> int:
        with self._lock:
            items = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
        return self._deliver(items) if items else 0

    def _stop(self) -> None:
        with self._lock:
            upstream, self._upstream = self._upstream, None
            timer, self._timer = self._timer, None
            subscription = None if upstream is None else upstream.subscription
        if timer is not None:
            timer.dispose()
        if subscription is not None:
            subscription.cancel()

    def _release(self) -> None:
        with self._lock:
            self._items.clear()
        # A source or a timer may have been set up while the stream was being stopped.
        self._stop()


class Upstream(Subscriber[T]):
    """A subscription to one source; the emitter's lock guards its fields.

    Attributes:
        subscription: the way to the source, once it was given.
        received: whether an item has come.
    """

    __slots__ = ("_emitter", "received", "subscription")

    def __init__(self, emitter: SwitchingEmitter[T]) -> None:
        self._emitter = emitter
        self.subscription: Subscription | None = None
        self.received = False

    def on_subscribe(self, subscription: Subscription) -> None:
        self._emitter._subscribed(self, subscription)

    def on_next(self, value: T) -> None:
        self._emitter._accept(self, (value,))

    def on_error(self, error: Exception) -> None:
        self._emitter._upstream_failed(self, error)

    def on_completed(self) -> None:
        self._emitter._upstream_completed(self)

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        return self._emitter.event_loop()


class _BatchUpstream(Upstream[T], BatchSubscriber[T]):
    """For a subscriber that takes batches: for another, the source keeps what would come after a cancel."""

    __slots__ = ()

    def on_next_batch(self, items: Sequence[T]) -> None:
        self._emitter._accept(self, items)
