"""Relay: what comes from a source, and goes on within the subscriber's demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from reactivex import abc

from rxwow.platform import Platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import Emitter
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

__all__ = ["Intake", "Relay", "offered_loop"]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class _Station(Protocol[T_contra]):
    """What an `Intake` brings its signals to."""

    def upstream_subscribed(self, upstream: Subscription) -> None: ...

    def accept_batch(self, items: Sequence[T_contra]) -> None: ...

    def upstream_ended(self, error: Exception | None) -> None: ...

    def event_loop(self) -> asyncio.AbstractEventLoop | None: ...


class Intake(BatchSubscriber[T], Generic[T]):
    """The subscriber of the source, seen from the source."""

    __slots__ = ("_station",)

    def __init__(self, station: _Station[T]) -> None:
        self._station = station

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Offer what the subscriber at the other side offers."""
        return self._station.event_loop()

    def on_subscribe(self, subscription: Subscription) -> None:
        self._station.upstream_subscribed(subscription)

    def on_next(self, value: T) -> None:
        self._station.accept_batch((value,))

    def on_next_batch(self, items: Sequence[T]) -> None:
        self._station.accept_batch(items)

    def on_error(self, error: Exception) -> None:
        self._station.upstream_ended(error)

    def on_completed(self) -> None:
        self._station.upstream_ended(None)


class Relay(Emitter[T]):
    """Emits what a source sends; a subclass says what is asked of the source, and when.

    `_lock` guards `_items` and `_upstream` too.
    """

    __slots__ = ("_items", "_upstream")

    def __init__(self, subscriber: Subscriber[T], platform: Platform) -> None:
        super().__init__(subscriber, platform)
        self._items: deque[T] = deque()
        self._upstream: Subscription | None = None

    def connect(self, source: Flowable[T], scheduler: abc.SchedulerBase | None) -> None:
        """Subscribe to the source, unless the subscriber has cancelled already."""
        if self._ended or self._at_once:
            return
        try:
            source.subscribe(Intake(self), scheduler=scheduler)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self.fail(as_error(error))

    # What the source says, on its threads.

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that the subscriber offers to sources."""
        return offered_loop(self._subscriber)

    def upstream_subscribed(self, upstream: Subscription) -> None:
        """Keep the subscription to the source, or cancel it if it comes too late."""
        with self._lock:
            cancels = self._ended or self._at_once or self._upstream is not None
            if not cancels:
                self._upstream = upstream
        if cancels:
            upstream.cancel()

    def accept_batch(self, items: Sequence[T]) -> None:
        """Take items, and emit those that are asked for."""
        with self._lock:
            if self._ended or self._at_once:
                return
            self._items.extend(items)
            if not self._become_drainer():
                return
        self._begin_drain()

    def upstream_ended(self, error: Exception | None) -> None:
        """End as the source does, after the items that are left."""
        with self._lock:
            self._upstream = None
        if error is None:
            self.complete()
        else:
            self.fail(error)

    # What the emitter asks.

    def _has_items(self) -> bool:
        return bool(self._items)

    def _has_work(self) -> bool:
        """Whether there is something to emit, or to let go of; called with the lock held."""
        if self._ended or self._at_once:
            return True
        return self._requested > 0 if self._items else self._has_end()

    def _become_drainer(self) -> bool:
        # A thread that asks must not become the drainer for nothing: what comes meanwhile would be emitted on it.
        if not self._draining and not self._has_work():
            return False
        return super()._become_drainer()

    def _take(self, limit: int) -> list[T]:
        """Remove at most `limit` items; the list is empty if a cancel came before."""
        with self._lock:
            if limit < len(self._items):
                return [self._items.popleft() for _ in range(limit)]
            items = list(self._items)
            self._items.clear()
        return items

    def _emit(self, limit: int) -> int:
        items = self._take(limit)
        return self._deliver(items) if items else 0

    def _stop(self) -> None:
        self._let_go()

    def _release(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            # Not cleared here: an item that goes may run code of its own.
            _, self._items = self._items, deque()
            upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.cancel()


def offered_loop(subscriber: Subscriber[Any]) -> asyncio.AbstractEventLoop | None:
    """Return the event loop that a subscriber offers to sources; None if it offers none."""
    offer: Any = getattr(subscriber, "event_loop", None)
    return None if offer is None else offer()
