"""to_publisher: a Flowable as a publisher for another Reactive Streams library."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from reactivex import Observable

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import is_contained
from rxwow.streams.flowable import Flowable
from rxwow.streams.foreign import ForeignPublisher, ForeignSubscriber
from rxwow.streams.guard import is_about_to_wait, running_loop
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

__all__ = ["to_publisher"]

logger = logging.getLogger("rxwow.streams")


def to_publisher(source: Observable[Any]) -> ForeignPublisher:
    """Make a publisher for another Reactive Streams library.

    A foreign subscriber that subscribes on a thread that runs an event loop gets its signals on that loop, as libraries
    of asyncio need it; another gets them on the thread on which the source emits. It may call `request` and `cancel`
    from any thread.

    Args:
        source: what to publish; a plain Observable is given demand by `from_observable` first.

    Returns:
        An object with `subscribe(subscriber)`, which calls the subscriber's `on_subscribe(subscription)`,
        `on_next(value)`, `on_error(exception)` and `on_complete()`. `is_complete` is never True: the end is a signal of
        its own.

    Raises:
        InvalidArgumentError: `source` is no Observable.

    >>> class Printer:
    ...     def on_subscribe(self, subscription):
    ...         subscription.request(2)
    ...     def on_next(self, value, is_complete=False):
    ...         print(value)
    ...     def on_error(self, exception):
    ...         print(exception)
    ...     def on_complete(self):
    ...         print("complete")
    >>> to_publisher(Flowable.from_iterable("abc")).subscribe(Printer())
    a
    b
    """
    if not isinstance(source, Observable):
        raise InvalidArgumentError("source", source, "an Observable")
    return _FlowablePublisher(Flowable.from_observable(source))


class _FlowablePublisher:
    __slots__ = ("_flowable",)

    def __init__(self, flowable: Flowable[Any]) -> None:
        self._flowable = flowable

    def subscribe(self, subscriber: ForeignSubscriber) -> None:
        for method in ("on_subscribe", "on_next", "on_error", "on_complete"):
            if not callable(getattr(subscriber, method, None)):
                raise InvalidArgumentError("subscriber", subscriber, f"a subscriber, with a method {method}")
        loop = None if is_about_to_wait() else running_loop()
        if loop is None:
            self._flowable.subscribe(_Bridge(subscriber))
        else:
            self._flowable.subscribe(_LoopBridge(subscriber, loop, current_platform()))


class _Bridge(Subscriber[Any]):
    """A foreign subscriber, called on the thread on which the source emits."""

    __slots__ = ("_subscriber",)

    def __init__(self, subscriber: ForeignSubscriber) -> None:
        self._subscriber = subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscriber.on_subscribe(subscription)

    def on_next(self, value: Any) -> None:
        self._subscriber.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._subscriber.on_error(error)

    def on_completed(self) -> None:
        self._subscriber.on_complete()


class _LoopBridge(BatchSubscriber[Any], Subscription):
    """A foreign subscriber, called on its event loop alone; to it this is the subscription.

    `_lock` guards `_items`, `_end`, `_called` and `_cancelled`. No more wait than were requested.
    """

    def __init__(self, subscriber: ForeignSubscriber, loop: asyncio.AbstractEventLoop, platform: Platform) -> None:
        self._subscriber: ForeignSubscriber | None = subscriber
        self._loop = loop
        self._lock = platform.lock()
        self._subscription: Subscription | None = None
        self._items: deque[Any] = deque()
        self._end: Callable[[ForeignSubscriber], object] | None = None
        self._called = False
        self._cancelled = False

    # The foreign side.

    def request(self, n: int) -> None:
        if self._subscription is not None:
            self._subscription.request(n)

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            self._items.clear()
            self._end = self._subscriber = None
        if self._subscription is not None:
            self._subscription.cancel()

    # The source's side.

    def event_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        if self._subscriber is not None:
            # On the thread that subscribes, which is the loop's.
            self._subscriber.on_subscribe(self)

    def on_next(self, value: Any) -> None:
        self.on_next_batch((value,))

    def on_next_batch(self, items: Sequence[Any]) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._items.extend(items)
        self._call()

    def on_error(self, error: Exception) -> None:
        self._end_with(lambda subscriber: subscriber.on_error(error))

    def on_completed(self) -> None:
        self._end_with(lambda subscriber: subscriber.on_complete())

    def _end_with(self, end: Callable[[ForeignSubscriber], object]) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._end = end
        self._call()

    def _call(self) -> None:
        with self._lock:
            if self._called:
                return
            self._called = True
        try:
            if running_loop() is self._loop:
                self._loop.call_soon(self._signal)
            else:
                self._loop.call_soon_threadsafe(self._signal)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            logger.warning("the event loop of a foreign subscriber was closed before the end; its source is cancelled")
            self.cancel()

    # The loop's side.

    def _signal(self) -> None:
        with self._lock:
            self._called = False
            items, self._items = self._items, deque()
            end = self._end
        try:
            for item in items:
                subscriber = self._subscriber
                if subscriber is None:
                    return
                subscriber.on_next(item)
            subscriber = self._subscriber
            if end is not None and subscriber is not None:
                self._subscriber = None
                end(subscriber)
        except BaseException as error:
            if not is_contained(error):
                raise
            logger.error("a foreign subscriber raised; its subscription is cancelled", exc_info=error)
            self.cancel()
