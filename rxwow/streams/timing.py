"""timeout: a source that doesn't deliver what it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, overload

from reactivex import Observable, abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.switching import SwitchingEmitter, Upstream
from rxwow.streams.timers import check_scheduler, check_seconds, clock_of

__all__ = ["timeout"]

T = TypeVar("T")

_CLOSE_ENOUGH: Final = 1e-6
"""Seconds; schedulers count in microseconds, and a timer for less would come at once, again and again."""


@overload
def timeout(
    seconds: float, *, other: None = None, scheduler: abc.SchedulerBase | None = None
) -> Callable[[Observable[T]], Flowable[T]]: ...


@overload
def timeout(
    seconds: float, *, other: Observable[T], scheduler: abc.SchedulerBase | None = None
) -> Callable[[Observable[T]], Flowable[T]]: ...


def timeout(
    seconds: float, *, other: Observable[T] | None = None, scheduler: abc.SchedulerBase | None = None
) -> Callable[[Observable[T]], Flowable[T]]:
    """Fail, or go on with another source, when an item that was asked for doesn't come in time.

    The clock runs only while an item is owed and the subscriber is not busy with another, so a slow subscriber never
    times out its source. It begins anew with each item. The end of the source stops it; what the source sends after a
    timeout is not emitted. There is one timer at a time, and not one for each item.

    Args:
        seconds: how long the source may take for an item, more than 0.
        other: the source to go on with, which is asked for what is still owed and has no time limit; without it the
            stream fails.
        scheduler: where the timer runs; by default the subscribe-time scheduler, or RxPY's `TimeoutScheduler` if there
            is none or it is one that waits on the calling thread.

    Returns:
        An operator from an Observable to a Flowable; a plain Observable is given demand by `from_observable` first.
        Items are emitted on the thread on which the source emits them; the timeout comes on a thread of `scheduler`, as
        `on_error(TimeoutError)`, or there `other` is subscribed.

    Raises:
        InvalidArgumentError: `seconds` is not a number above 0, `other` is no Observable, or `scheduler` no scheduler.

    >>> Flowable.never().pipe(timeout(0.01, other=Flowable.from_iterable(["other"]))).run()
    'other'
    """
    check_seconds("seconds", seconds)
    if seconds == 0:
        raise InvalidArgumentError("seconds", seconds, "a number of seconds above 0")
    if other is not None and not isinstance(other, Observable):
        raise InvalidArgumentError("other", other, "an Observable or None")
    check_scheduler(scheduler)
    fallback = None if other is None else Flowable.from_observable(other)

    def timed(source: Observable[T]) -> Flowable[T]:
        flowable = Flowable.from_observable(source)

        def publish(subscriber: Subscriber[T], subscribed: abc.SchedulerBase | None) -> Subscription:
            emitter = _TimeoutEmitter(subscriber, current_platform(), subscribed, scheduler, seconds, fallback)
            emitter.start()
            emitter._subscribe_to(flowable)
            return emitter

        return Flowable(publish)

    return timed


class _TimeoutEmitter(SwitchingEmitter[T]):
    """Looks, when its timer fires, how long the source has been silent, and sets the timer for the rest.

    `_lock` guards `_since`, `_delivering` and `_watching` too. `_since` is when the clock began to run; None while it
    stands. A timer that was set stays so when the clock is stopped or begins anew; it looks when it fires.
    """

    __slots__ = ("_clock", "_delivering", "_other", "_seconds", "_since", "_watching")

    def __init__(
        self,
        subscriber: Subscriber[T],
        platform: Platform,
        scheduler: abc.SchedulerBase | None,
        timers: abc.SchedulerBase | None,
        seconds: float,
        other: Flowable[T] | None,
    ) -> None:
        super().__init__(subscriber, platform, scheduler, timers)
        self._clock = clock_of(self._timers, platform)
        self._seconds = seconds
        self._other = other
        self._since: float | None = None
        self._delivering = False
        self._watching = True

    def _asked(self) -> None:
        self._start_clock()

    def _subscribed(self, upstream: Upstream[T], subscription: Subscription) -> None:
        # What was asked for before there was a source is asked of it now.
        self._start_clock()
        super()._subscribed(upstream, subscription)

    def _emit(self, limit: int) -> int:
        with self._lock:
            if not self._items:
                return 0
            self._delivering = True
            self._since = None
        try:
            return super()._emit(limit)
        finally:
            with self._lock:
                self._delivering = False
            self._start_clock()

    def _may_run(self) -> bool:
        """Whether the clock stands and should run; called under the lock."""
        busy = self._delivering or self._ended or self._upstream is None
        return self._since is None and self._watching and self._owed > 0 and not busy

    def _start_clock(self) -> None:
        with self._lock:
            if not self._may_run():
                return
        now = self._clock()
        with self._lock:
            if not self._may_run():
                return
            self._since = now
            if self._timer is not None:
                return
            timer = self._new_timer()
        self._set_timer(timer, self._seconds, self._look)

    def _look(self) -> None:
        """Decide, now that the timer has fired."""
        now = self._clock()
        with self._lock:
            upstream = self._upstream
            if self._since is None or self._items or self._ended or upstream is None:
                # The clock stands, or is about to; whoever starts it sets a timer.
                self._timer = self._since = None
                return
            left = self._since + self._seconds - now
            times_out = left <= _CLOSE_ENOUGH
            if times_out:
                self._watching = False
                self._upstream = None
            timer = self._new_timer()
        if times_out:
            self._time_out(upstream)
        else:
            self._set_timer(timer, left, self._look)

    def _time_out(self, upstream: Upstream[T]) -> None:
        if upstream.subscription is not None:
            upstream.subscription.cancel()
        if self._other is None:
            self.fail(TimeoutError(f"the source delivered no item within {self._seconds:g} s of being asked for it"))
        else:
            self._subscribe_to(self._other)
