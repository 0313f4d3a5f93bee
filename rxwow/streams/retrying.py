"""retry: a source that fails is subscribed again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from reactivex import Observable, abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.switching import SwitchingEmitter, Upstream
from rxwow.streams.timers import check_scheduler, check_seconds

__all__ = ["retry"]

T = TypeVar("T")


def retry(
    attempts: int | None = None,
    *,
    delay: float = 0.0,
    factor: float = 2.0,
    longest: float = 60.0,
    scheduler: abc.SchedulerBase | None = None,
) -> Callable[[Observable[T]], Flowable[T]]:
    """Subscribe to the source again when it fails.

    What was requested and has not come is asked of the fresh subscription; what was emitted stays emitted, so a source
    that begins from the start repeats its items. The delays grow from one failure to the next, and are short again
    after a subscription that has brought an item. The number of attempts is for the whole stream; items don't add to
    it.

    Args:
        attempts: how often the source is subscribed at most, the first time included; None for no limit. Then the
            stream fails with the last error.
        delay: seconds before the second attempt; 0 subscribes again at once, on the thread on which the source failed.
        factor: what each delay is multiplied by for the next.
        longest: seconds; no delay is longer.
        scheduler: where delays are waited for, and then the source is subscribed; by default the subscribe-time
            scheduler, or RxPY's `TimeoutScheduler` if there is none or it is one that waits on the calling thread.

    Returns:
        An operator from an Observable to a Flowable; a plain Observable is given demand by `from_observable` first.
        Items are emitted on the thread on which the source emits them.

    Raises:
        InvalidArgumentError: an argument has a value that isn't allowed.

    >>> tries = iter([ValueError("no"), ValueError("no"), None])
    >>> def numbers():
    ...     yield 1
    ...     if (error := next(tries)) is not None:
    ...         raise error
    >>> Flowable.from_iterable(numbers).pipe(retry(3)).subscribe(print) and None
    1
    1
    1
    """
    if attempts is not None and (not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1):
        raise InvalidArgumentError("attempts", attempts, "a whole number of at least 1, or None")
    check_seconds("delay", delay)
    check_seconds("longest", longest)
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 1 <= factor < math.inf:
        raise InvalidArgumentError("factor", factor, "a number of at least 1")
    check_scheduler(scheduler)
    delays = _Delays(delay, factor, longest)

    def retried(source: Observable[T]) -> Flowable[T]:
        flowable = Flowable.from_observable(source)

        def publish(subscriber: Subscriber[T], subscribed: abc.SchedulerBase | None) -> Subscription:
            emitter = _RetryEmitter(subscriber, current_platform(), subscribed, scheduler, flowable, attempts, delays)
            emitter.start()
            emitter.subscribe()
            return emitter

        return Flowable(publish)

    return retried


@dataclass(frozen=True, slots=True)
class _Delays:
    """How long to wait before a source is subscribed again."""

    delay: float
    factor: float
    longest: float

    def after(self, failures: int) -> float:
        """Return the seconds after so many failures in a row."""
        if self.delay == 0:
            # However large the other factor: it is too large to compute one day.
            return 0.0
        try:
            delay = self.delay * self.factor ** (failures - 1)
        except OverflowError:
            return self.longest
        return min(self.longest, delay)


class _RetryEmitter(SwitchingEmitter[T]):
    """Subscribes in a loop, so that a source that fails while it is being subscribed does not nest the next in itself.

    `_lock` guards `_due` and `_subscribing` too. `_left` and `_failures` belong to whoever brings the end of an
    attempt, which comes before the next begins.
    """

    __slots__ = ("_delays", "_due", "_failures", "_left", "_source", "_subscribing")

    def __init__(
        self,
        subscriber: Subscriber[T],
        platform: Platform,
        scheduler: abc.SchedulerBase | None,
        timers: abc.SchedulerBase | None,
        source: Flowable[T],
        attempts: int | None,
        delays: _Delays,
    ) -> None:
        super().__init__(subscriber, platform, scheduler, timers)
        self._source = source
        self._left = attempts
        self._delays = delays
        self._failures = 0
        self._due = False
        self._subscribing = False

    def subscribe(self) -> None:
        """Subscribe to the source, or leave that to the loop that is subscribing already."""
        with self._lock:
            self._due = True
            if self._subscribing:
                return
            self._subscribing = True
        while self._takes_due():
            self._subscribe_to(self._source)

    def _takes_due(self) -> bool:
        with self._lock:
            due = self._subscribing = self._due
            self._due = False
            return due

    def _upstream_failed(self, upstream: Upstream[T], error: Exception) -> None:
        if not self._leave(upstream):
            return
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.fail(error)
                return
        self._failures = 1 if upstream.received else self._failures + 1
        delay = self._delays.after(self._failures)
        if delay == 0:
            self.subscribe()
            return
        with self._lock:
            if self._ended:
                return
            timer = self._new_timer()
        self._set_timer(timer, delay, self.subscribe)
