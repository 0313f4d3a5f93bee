"""on_backpressure_*: take all that a source sends, and say what becomes of the items that nobody has asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxwow.errors import InvalidArgumentError, MissingBackpressureError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.observables import ObservableSubscription
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.streams.relay import Intake, offered_loop

__all__ = ["on_backpressure_buffer", "on_backpressure_drop", "on_backpressure_error", "on_backpressure_latest"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")

BufferOverflowName = Literal["error", "drop_oldest", "drop_latest"]

_BUFFER_STRATEGIES: Final[dict[object, OverflowStrategy]] = {
    "error": OverflowStrategy.BUFFER,
    "drop_oldest": OverflowStrategy.DROP_OLDEST,
    "drop_latest": OverflowStrategy.DROP_LATEST,
}


def on_backpressure_buffer(
    capacity: int = 256, *, on_overflow: BufferOverflowName = "error"
) -> Callable[[Observable[T]], Flowable[T]]:
    """Take all that the source sends, and keep what was not asked for yet in a bounded buffer.

    The source is asked for everything at the subscriber's first request; a plain Observable is subscribed together with
    the Flowable, and sends from then on. Its thread is never held up.

    Args:
        capacity: how many items may wait beyond the demand, at least 1; `UNBOUNDED` keeps all, if memory allows.
        on_overflow: what to do with one more: `"error"` ends the stream with `MissingBackpressureError` after the items
            that wait; `"drop_oldest"` and `"drop_latest"` drop an item, log the first, and count them in the `dropped`
            of the subscription.

    Returns:
        An operator from an Observable to a Flowable that ends as the source ends, after the items that wait. An item is
        emitted on the thread that sends it if it was asked for already, else on the thread that asks for it.

    Raises:
        InvalidArgumentError: `capacity` is below 1, or there is no such way to overflow.

    >>> Flowable.from_iterable(range(1000)).pipe(on_backpressure_buffer(10)).run()
    999
    """
    if not is_valid_request(capacity):
        raise InvalidArgumentError("capacity", capacity, "a whole number of at least 1")
    strategy = _BUFFER_STRATEGIES.get(on_overflow) if isinstance(on_overflow, str) else None
    if strategy is None:
        allowed = ", ".join(repr(name) for name in _BUFFER_STRATEGIES)
        raise InvalidArgumentError("on_overflow", on_overflow, f"one of {allowed}")
    call = f"on_backpressure_buffer({capacity}, on_overflow={on_overflow!r})"
    remedy = f"ask for more, or use a bigger capacity in {call}, or on_overflow='drop_oldest' or 'drop_latest'"
    return _relieving(_Relief(call, strategy, capacity, remedy))


def on_backpressure_drop(on_dropped: Callable[[T], object] | None = None) -> Callable[[Observable[T]], Flowable[T]]:
    """Take all that the source sends, and drop what was not asked for.

    The source is asked for everything at the subscriber's first request; a plain Observable is subscribed together with
    the Flowable, and what it sends before the first request is dropped.

    Args:
        on_dropped: called with each dropped item, on the thread that sends it; if it raises, that is the `on_error`.
            Without it the first dropped item is logged. The `dropped` of the subscription counts them.

    Returns:
        An operator from an Observable to a Flowable that ends as the source ends. An item is emitted on the thread that
        sends it, or on one that is emitting already.

    Raises:
        InvalidArgumentError: `on_dropped` can't be called.

    >>> dropped = []
    >>> Flowable.from_iterable(range(3)).pipe(on_backpressure_drop(dropped.append)).run()
    2
    >>> dropped
    []
    """
    if on_dropped is not None and not callable(on_dropped):
        raise InvalidArgumentError("on_dropped", on_dropped, "a function of the dropped item, or None")
    return _relieving(_Relief("on_backpressure_drop()", OverflowStrategy.DROP_LATEST, 0, on_dropped=on_dropped))


def on_backpressure_latest() -> Callable[[Observable[T]], Flowable[T]]:
    """Take all that the source sends, and of what was not asked for keep the latest item alone.

    The source is asked for everything at the subscriber's first request; a plain Observable is subscribed together with
    the Flowable. The first item that is dropped is logged, and the `dropped` of the subscription counts them.

    Returns:
        An operator from an Observable to a Flowable that ends as the source ends, after the item that waits. An item is
        emitted on the thread that sends it if it was asked for already, else on the thread that asks for it.

    >>> Flowable.from_iterable(range(1000)).pipe(on_backpressure_latest()).run()
    999
    """
    return _relieving(_Relief("on_backpressure_latest()", OverflowStrategy.DROP_OLDEST, 1))


def on_backpressure_error() -> Callable[[Observable[T]], Flowable[T]]:
    """Take all that the source sends, and fail at the first item that was not asked for.

    The source is asked for everything at the subscriber's first request; a plain Observable is subscribed together with
    the Flowable.

    Returns:
        An operator from an Observable to a Flowable that ends as the source ends, or with `MissingBackpressureError`
        after the items that were asked for. An item is emitted on the thread that sends it, or on one that is emitting
        already.

    >>> Flowable.from_iterable(range(1000)).pipe(on_backpressure_error()).run()
    999
    """
    call = "on_backpressure_error()"
    remedy = (
        f"ask for more before it is sent, or replace {call} by on_backpressure_buffer(), on_backpressure_latest() or "
        "on_backpressure_drop()"
    )
    return _relieving(_Relief(call, OverflowStrategy.ERROR, 0, remedy))


@dataclass(frozen=True, slots=True)
class _Relief:
    """What an operator does with the items that nobody asked for; `call` and `remedy` are for logs and errors."""

    call: str
    strategy: OverflowStrategy
    capacity: int
    remedy: str = ""
    on_dropped: Callable[[Any], object] | None = None


def _relieving(relief: _Relief) -> Callable[[Observable[T]], Flowable[T]]:
    def operator(source: Observable[T]) -> Flowable[T]:
        if not isinstance(source, Observable):
            raise InvalidArgumentError("source", source, "an Observable")

        def publish(subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
            subscription: _RelievedSubscription[T] = _RelievedSubscription(subscriber, current_platform(), relief)
            subscription.start()
            if isinstance(source, Flowable):
                subscription.connect_flowable(source, scheduler)
            else:
                subscription.connect(source, scheduler)
            return subscription

        return Flowable(publish)

    return operator


class _RelievedSubscription(ObservableSubscription[T]):
    """What a subscriber gets in `on_subscribe`.

    `_lock` guards `_opened`, whether anything was requested, and `_source`, the subscription to a Flowable, too.
    """

    __slots__ = ("_opened", "_relief", "_source")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, relief: _Relief) -> None:
        super().__init__(subscriber, platform, relief.strategy, relief.capacity)
        self._relief = relief
        self._opened = False
        self._source: Subscription | None = None

    def request(self, n: int) -> None:
        super().request(n)
        # It only ever becomes true.
        if self._opened or not is_valid_request(n):
            return
        with self._lock:
            source, self._source = self._source, None
            self._opened = True
        if source is not None:
            source.request(UNBOUNDED)

    def connect_flowable(self, source: Flowable[T], scheduler: abc.SchedulerBase | None) -> None:
        """Subscribe to a source that has demand, without asking it for anything yet."""
        if self._ended:
            return
        try:
            source.subscribe(Intake(self), scheduler=scheduler)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self._upstream_failed(as_error(error))

    # What a Flowable says.

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that the subscriber offers to sources."""
        return offered_loop(self._subscriber)

    def upstream_subscribed(self, upstream: Subscription) -> None:
        """Keep the subscription to the source until the first request, or ask now if that has been."""
        self._upstream.disposable = Disposable(upstream.cancel)
        with self._lock:
            opened = self._opened
            if not (opened or self._ended):
                self._source = upstream
        if opened:
            upstream.request(UNBOUNDED)

    def accept_batch(self, items: Sequence[T]) -> None:
        """Take items: at once if all were asked for, else each with what its predecessor's `on_next` has asked for."""
        with self._lock:
            if self._ended or self._has_end():
                return
            fits = self._allowance >= len(items)
            if fits:
                self._allowance -= len(items)
                self._items.extend(items)
            drains = fits and self._become_drainer()
        if drains:
            self._begin_drain()
        elif not fits:
            for item in items:
                self._admit(item)

    def upstream_ended(self, error: Exception | None) -> None:
        """End as the source does, after the items that wait."""
        if error is None:
            self._upstream_completed()
        else:
            self._upstream_failed(error)

    # What becomes of an item.

    def _overflow_error(self) -> Exception:
        return MissingBackpressureError(self._capacity, self._relief.remedy)

    def _drop(self, item: T, *, first: bool) -> None:
        on_dropped = self._relief.on_dropped
        if on_dropped is None:
            if first:
                logger.warning("%s: the source sends more than is asked for; items are dropped", self._relief.call)
            return
        try:
            on_dropped(item)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self._give_up(as_error(error))

    def _release(self) -> None:
        with self._lock:
            self._source = None
        super()._release()
