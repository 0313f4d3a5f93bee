"""from_observable: a plain Observable, which can't be asked, given demand."""

from __future__ import annotations

import logging
from collections import deque
from threading import get_ident
from typing import Any, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler, NewThreadScheduler

from rxwow.errors import InvalidArgumentError, MissingBackpressureError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import Emitter, is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import is_about_to_wait, may_wait
from rxwow.streams.overflow import OverflowStrategy, OverflowStrategyName, overflow_strategy
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.waiting import wait_for

__all__ = ["ObservableSubscription", "from_observable"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")


def from_observable(
    observable: Observable[T], *, on_overflow: OverflowStrategy | OverflowStrategyName = "block", capacity: int = 256
) -> Flowable[T]:
    """Give a plain Observable demand: what it sends beyond the demand waits in a queue.

    The observable is subscribed together with the Flowable, on the same thread and with the subscribe-time scheduler.
    An item is emitted on the thread that sends it if it was asked for already, else on the thread that asks for it.
    Sources that break RxPY's contract, and send from several threads at once or from inside `on_next`, are put in
    order.

    `"block"` slows the source by holding up its thread. Whoever asks for more must be on another thread then: a cold
    observable sends on the thread that subscribes, which therefore comes back when all but `capacity` items have been
    asked for. A worker, a thread that runs an event loop (unless it waits in `run()`) and a thread on which the item
    was sent from inside `on_next` are never held up: there `"block"` means `"buffer"`.

    Args:
        observable: the source; a Flowable is returned as it is, since it has demand already.
        on_overflow: what to do with an item that doesn't fit: `"block"`, `"buffer"`, `"drop_latest"`, `"drop_oldest"`
            or `"error"`; see `OverflowStrategy`. Dropped items are counted in the `dropped` of the subscription, and
            the first is logged.
        capacity: how many items may wait beyond the demand, at least 1; `"error"` keeps none and doesn't use it.

    Returns:
        A Flowable that ends as the observable ends, after the items that waited; or with `MissingBackpressureError`,
        likewise after them.

    Raises:
        InvalidArgumentError: for an unknown strategy, a capacity below 1, or something that is no Observable.

    >>> import reactivex
    >>> from_observable(reactivex.of(1, 2, 3)).run()
    3
    """
    strategy = overflow_strategy(on_overflow)
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise InvalidArgumentError("capacity", capacity, "a whole number of at least 1")
    if isinstance(observable, Flowable):
        return observable
    if not isinstance(observable, Observable):
        raise InvalidArgumentError("observable", observable, "an Observable")

    def publish(subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
        subscription = ObservableSubscription(subscriber, current_platform(), strategy, capacity)
        subscription.start()
        subscription.connect(observable, scheduler)
        return subscription

    return Flowable(publish)


class _CancelledInsideError(Exception):
    """Leaves a source that sends from inside its `subscribe`: it has no subscription yet that could be disposed."""


class ObservableSubscription(Emitter[T]):
    """What a subscriber of `from_observable` gets in `on_subscribe`.

    `_lock` guards `_items`, `_allowance` and `dropped` too, and the clearing of `_room`. `_allowance` is what was
    requested less what was accepted, so at least `-capacity`; `_requested` would not do, as it knows only afterwards
    what a drainer emits. `_connecting` and `_delivering` are compared with the identifier of the thread that looks, and
    only that thread sets them to it.
    """

    __slots__ = (
        "_allowance",
        "_capacity",
        "_connecting",
        "_delivering",
        "_items",
        "_platform",
        "_room",
        "_strategy",
        "_upstream",
        "dropped",
    )

    def __init__(
        self, subscriber: Subscriber[T], platform: Platform, strategy: OverflowStrategy, capacity: int
    ) -> None:
        super().__init__(subscriber, platform)
        self._platform = platform
        self._strategy = strategy
        self._capacity = 0 if strategy is OverflowStrategy.ERROR else capacity
        self._items: deque[T] = deque()
        self._allowance = 0
        self._room = platform.event()
        self._upstream = SingleAssignmentDisposable()
        self._connecting: int | None = None
        self._delivering: int | None = None
        self.dropped = 0
        """How many items were dropped so far."""

    def request(self, n: int) -> None:
        if is_valid_request(n):
            with self._lock:
                self._allowance += n
                self._room.set()
        super().request(n)

    def connect(self, observable: Observable[T], scheduler: abc.SchedulerBase | None) -> None:
        """Subscribe to the observable."""
        trampoline = CurrentThreadScheduler.singleton()
        if scheduler is None and is_about_to_wait() and not trampoline.schedule_required():
            # This thread's trampoline stands still while the sink waits; RxPY's run() has a new thread for all.
            scheduler = NewThreadScheduler()

        def subscribe(_: Any = None, __: Any = None) -> None:
            if self._ended:
                return
            self._connecting = get_ident()
            try:
                self._upstream.disposable = observable.subscribe(
                    self._accept, self._upstream_failed, self._upstream_completed, scheduler=scheduler
                )
            finally:
                self._connecting = None

        try:
            # Inside a trampoline RxPY's own sources send after their `subscribe` has returned, so they can be disposed.
            if trampoline.schedule_required():
                trampoline.schedule(subscribe)
            else:
                subscribe()
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self._upstream_failed(as_error(error))

    # What the observable says, on its threads.

    def _accept(self, item: T) -> None:
        while not self._admit(item):
            wait_for(self._room, self._platform)
        if self._connecting == get_ident() and self._upstream.is_disposed:
            raise _CancelledInsideError

    def _admit(self, item: T) -> bool:
        """Keep `item`, drop it or fail; return False if there is to be room first."""
        drops = overflows = drains = False
        with self._lock:
            if self._ended or self._has_end():
                return True
            if self._allowance > -self._capacity:
                self._allowance -= 1
                self._items.append(item)
                drains = self._become_drainer()
            elif self._strategy is OverflowStrategy.DROP_OLDEST:
                # What was accepted beyond the demand stands at the end: before it may be what was asked for and is
                # about to be emitted.
                oldest = self._items[-self._capacity]
                del self._items[-self._capacity]
                self._items.append(item)
                item, drops = oldest, True
            elif self._strategy is OverflowStrategy.DROP_LATEST:
                drops = True
            elif self._strategy is OverflowStrategy.BLOCK and may_wait() and self._delivering != get_ident():
                self._room.clear()
                return False
            else:
                overflows = True
            self.dropped += drops
            first = self.dropped == 1
        if drains:
            self._begin_drain()
        elif drops:
            self._drop(item, first=first)
        elif overflows:
            self._give_up(self._overflow_error())
        return True

    def _drop(self, item: T, *, first: bool) -> None:
        """Let go of an item for which there is no room; `first` if it is the first."""
        if first:
            logger.warning(
                "an Observable sends more than is asked for; items are dropped (on_overflow=%r)", str(self._strategy)
            )

    def _give_up(self, error: Exception) -> None:
        self._upstream_failed(error)
        self._dispose_upstream()

    def _overflow_error(self) -> Exception:
        return MissingBackpressureError(self._capacity, self._remedy())

    def _remedy(self) -> str:
        remedy = (
            "make the source a Flowable, which sends what it is asked for (Flowable.from_iterable, "
            "Flowable.from_async_iterable), or use on_overflow='drop_latest' or 'drop_oldest'"
        )
        if self._strategy is OverflowStrategy.ERROR:
            return f"{remedy}, or on_overflow='block' or 'buffer' to keep some"
        remedy = f"{remedy}, or a bigger capacity"
        if self._strategy is OverflowStrategy.BLOCK:
            return (
                "on_overflow='block' can't hold up the thread it came on, which is a worker, runs an event loop or is "
                f"emitting already; send from another thread, {remedy}"
            )
        return f"{remedy}, or on_overflow='block' to hold up the thread that sends"

    def _upstream_failed(self, error: Exception) -> None:
        self.fail(as_error(error))
        self._room.set()

    def _upstream_completed(self) -> None:
        self.complete()
        self._room.set()

    # What the emitter asks.

    def _has_items(self) -> bool:
        return bool(self._items)

    def _emit(self, limit: int) -> int:
        with self._lock:
            items = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
        if not items:
            return 0
        self._delivering = get_ident()
        try:
            return self._deliver(items)
        finally:
            self._delivering = None

    def _stop(self) -> None:
        self._room.set()
        self._dispose_upstream()

    def _release(self) -> None:
        with self._lock:
            self._items.clear()
        self._dispose_upstream()

    def _dispose_upstream(self) -> None:
        try:
            self._upstream.dispose()
        except Exception:
            logger.exception("disposing the subscription to an Observable raised")
