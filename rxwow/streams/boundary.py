"""observe_on and limit_rate: a bounded queue between what a source sends and what its subscriber takes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, TypeVar

from reactivex import Observable, abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import is_contained
from rxwow.streams.description import describe
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.relay import Relay
from rxwow.streams.scheduling import check_scheduler, refusal

__all__ = ["limit_rate", "observe_on"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")

MOST_ITEMS_AN_ACTION: Final = 64
"""Items that are emitted in one action of the scheduler, so that its other work has its turn."""


def observe_on(scheduler: abc.SchedulerBase, *, prefetch: int = 256) -> Callable[[Observable[T]], Flowable[T]]:
    """Emit on a scheduler, and hold at most `prefetch` items that wait for it.

    The source is asked for `prefetch` items at the subscriber's first request, and for three quarters of that each time
    as many were taken; RxPY's operator of the same name takes whatever the source has and queues it without bound. All
    signals but `on_subscribe` come on the scheduler, one at a time, even if it has many threads. An action of the
    scheduler emits up to 64 items, and there is one only while there is something to emit.

    More is asked for on the scheduler. A source that emits on the asking thread, such as `from_iterable`, therefore
    works there, too, from the second time on; to keep it apart use its `blocking=True` or `subscribe_on`.

    Args:
        scheduler: any scheduler of RxPY; it has to live until the stream has ended, as an action that a scheduler
            abandons when it is disposed never comes. RxPY's `AsyncIOScheduler` may be used by the thread of its loop
            alone: take `AsyncIOThreadSafeScheduler` where the source emits on another.
        prefetch: how many items may be held, at least 1.

    Returns:
        An operator from an Observable to a Flowable with the same items and the same end, which comes after the items
        that are held. A cancel lets go of them on the cancelling thread. A scheduler that refuses an action ends the
        stream with an `RxwowError`, on the thread that was refused. A plain Observable is given demand by
        `from_observable`.

    Raises:
        InvalidArgumentError: `scheduler` is none, or `prefetch` is below 1.

    >>> from reactivex.scheduler import NewThreadScheduler
    >>> Flowable.from_iterable(range(1000)).pipe(observe_on(NewThreadScheduler())).run()
    999
    """
    check_scheduler(scheduler)
    _check_count("prefetch", prefetch)
    return _prefetching(lambda subscriber, platform: _Boundary(subscriber, platform, prefetch, scheduler))


def limit_rate(n: int) -> Callable[[Observable[T]], Flowable[T]]:
    """Ask the source for at most `n` items at a time, however many are requested.

    The source is asked for `n` at the subscriber's first request, and for three quarters of that each time as many were
    taken. What is not requested yet waits, so that `n` items may be held.

    Args:
        n: how many items, at least 1.

    Returns:
        An operator from an Observable to a Flowable with the same items and the same end. An item is emitted on the
        thread that sends it if it was requested already, else on the thread that requests it. A plain Observable is
        given demand by `from_observable`.

    Raises:
        InvalidArgumentError: `n` is below 1.

    >>> Flowable.from_iterable(range(1000)).pipe(limit_rate(10)).run()
    999
    """
    _check_count("n", n)
    return _prefetching(lambda subscriber, platform: _Prefetching(subscriber, platform, n))


def _check_count(argument: str, value: object) -> None:
    if not is_valid_request(value):
        raise InvalidArgumentError(argument, value, "a whole number of at least 1")


def _prefetching(
    make: Callable[[Subscriber[T], Platform], _Prefetching[T]],
) -> Callable[[Observable[T]], Flowable[T]]:
    def operator(source: Observable[T]) -> Flowable[T]:
        flowable = Flowable.from_observable(source)

        def publish(subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
            relay = make(subscriber, current_platform())
            relay.start()
            relay.connect(flowable, scheduler)
            return relay

        return Flowable(publish)

    return operator


class _Prefetching(Relay[T]):
    """Asks for `prefetch` items at first, and for three quarters of that whenever as many were taken.

    `_lock` guards `_opened` too, which is whether the subscriber has requested; `_untaken`, how many items are to be
    taken before the next are asked for, is the drainer's alone.
    """

    __slots__ = ("_opened", "_prefetch", "_replenish", "_untaken")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, prefetch: int) -> None:
        super().__init__(subscriber, platform)
        self._prefetch = prefetch
        self._replenish = prefetch - prefetch // 4
        self._opened = False
        self._untaken = self._replenish

    def request(self, n: int) -> None:
        super().request(n)
        # It only ever becomes true.
        if self._opened or not is_valid_request(n):
            return
        with self._lock:
            upstream = None if self._opened else self._upstream
            self._opened = True
        if upstream is not None:
            upstream.request(self._prefetch)

    def upstream_subscribed(self, upstream: Subscription) -> None:
        super().upstream_subscribed(upstream)
        with self._lock:
            asks = self._opened and self._upstream is upstream
        if asks:
            upstream.request(self._prefetch)

    def _emit(self, limit: int) -> int:
        emitted = super()._emit(min(limit, self._untaken))
        self._untaken -= emitted
        if self._untaken == 0:
            self._untaken = self._replenish
            with self._lock:
                upstream = self._upstream
            if upstream is not None:
                upstream.request(self._replenish)
        return emitted


class _Action:
    """One action of the scheduler; called by it."""

    __slots__ = ("_boundary", "_scheduled_inside", "came_inside")

    def __init__(self, boundary: _Boundary[Any], *, inside: bool) -> None:
        self._boundary = boundary
        self._scheduled_inside = get_ident() if inside else None
        self.came_inside = False

    def __call__(self, _: abc.SchedulerBase, __: object = None) -> None:
        if self._scheduled_inside == get_ident():
            self.came_inside = True
        else:
            self._boundary.act()

    def scheduled(self) -> None:
        """Say that the call of `schedule` has returned."""
        self._scheduled_inside = None


class _Boundary(_Prefetching[T]):
    """Drains in actions of its scheduler.

    `_lock` guards `_pending` too: whether the next drainer is an action that has not begun. Until it begins, a cancel
    may take the role from it. `_budget`, the items that may still be emitted in this action, is the drainer's alone.
    """

    __slots__ = ("_budget", "_pending", "_scheduler")

    def __init__(
        self, subscriber: Subscriber[T], platform: Platform, prefetch: int, scheduler: abc.SchedulerBase
    ) -> None:
        super().__init__(subscriber, platform, prefetch)
        self._scheduler = scheduler
        self._pending = False
        self._budget = 0

    def act(self) -> None:
        """Drain, on the scheduler."""
        if self._begin():
            while self._drain_batch() and self._hand_over(inside=True):
                pass

    def _begin(self) -> bool:
        with self._lock:
            begins, self._pending = self._pending, False
            return begins

    def _become_drainer(self) -> bool:
        if self._pending and self._ended:
            self._pending = False
            return True
        return super()._become_drainer()

    def _begin_drain(self) -> None:
        self._hand_over(inside=False)

    def _hand_over(self, *, inside: bool) -> bool:
        """Pass the role of the drainer on to an action; return whether it came back at once, from inside another one.

        A scheduler that calls an action inside `schedule` would fill the stack, action in action.
        """
        with self._lock:
            ended = self._ended
            self._pending = not ended and self._has_work()
            if not ended and not self._pending:
                self._draining = False
                return False
        if ended:
            # There is nothing to emit any more, only to let go of.
            self._drain()
            return False
        action = _Action(self, inside=inside)
        try:
            self._scheduler.schedule(action)
        except BaseException as error:
            begins = self._begin()
            if not is_contained(error):
                if begins:
                    self._abandon()
                raise
            self._refused(error, begins=begins)
            return False
        action.scheduled()
        return action.came_inside and self._begin()

    def _refused(self, error: BaseException, *, begins: bool) -> None:
        """End because an action can't be scheduled, or because what the scheduler ran at once has raised.

        In the first case the calling thread begins to drain in place of the action, as there is no other.
        """
        if self._ended:
            logger.warning("%s raised as a stream on it has ended", describe(self._scheduler), exc_info=error)
        self.fail(refusal("observe_on", self._scheduler, error), at_once=True)
        if begins:
            self._drain()

    def _drain_batch(self) -> bool:
        """Emit as much as one action may; return whether the role of the drainer is to be passed on."""
        self._budget = MOST_ITEMS_AN_ACTION
        try:
            while self._drain_once():
                if self._budget == 0 and not self._ended:
                    return True
        except BaseException:
            self._abandon()
            raise
        return False

    def _emit(self, limit: int) -> int:
        emitted = super()._emit(min(limit, self._budget))
        self._budget -= emitted
        return emitted
