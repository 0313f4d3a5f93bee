"""iterate and stream: a Flowable as an async iterator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final, Generic, Self, TypeVar

from rxwow.errors import RxwowError, UsageError
from rxwow.platform import Platform, current_platform
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import running_loop
from rxwow.streams.protocols import BatchSubscriber, Subscription

__all__ = ["PREFETCH", "iterate", "stream"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")

PREFETCH: Final = 64
"""How many items an iterator asks for at first, and so how many may wait in it."""

REPLENISH: Final = PREFETCH * 3 // 4
"""After how many items taken it asks for as many again: often enough that the source needn't stop."""


def iterate(flowable: Flowable[T]) -> AsyncIterator[T]:
    """Make an async iterator over the items.

    It subscribes at the first `__anext__`, on the event loop that runs there, and asks for 64 items ahead. Items that
    are there already are handed out without waiting for the loop, which gets its turn now and then all the same. The
    source is cancelled when the iterator is closed or collected; where that has to be certain, use `stream`.

    Args:
        flowable: where the items come from.

    Returns:
        An async iterator with `aclose()`. What `on_error` brought is raised after the items before it. A second task
        that waits for an item of the same iterator gets a `UsageError`.

    >>> async def total():
    ...     return sum([number async for number in iterate(Flowable.from_iterable(range(100)))])
    >>> asyncio.run(total())
    4950
    """
    return _Iterator(flowable)


def stream(flowable: Flowable[T]) -> AbstractAsyncContextManager[AsyncIterator[T]]:
    """Make an async iterator over the items whose source is cancelled when the block is left, however it is left.

    Args:
        flowable: where the items come from.

    Returns:
        A context manager for one `async with`; it gives the iterator of `iterate`.

    >>> async def first():
    ...     async with stream(Flowable.from_iterable(range(100))) as numbers:
    ...         async for number in numbers:
    ...             return number
    >>> asyncio.run(first())
    0
    """
    return aclosing(_Iterator(flowable))


class _Iterator(AsyncIterator[T]):
    """What the consumer holds. The source holds the buffer alone, so that this can be collected and cancel it."""

    __slots__ = ("__weakref__", "_buffer", "_flowable", "_ready", "_taken", "_waiting")

    def __init__(self, flowable: Flowable[T]) -> None:
        self._flowable = flowable
        self._buffer: _Buffer[T] | None = None
        self._ready: deque[T] = deque()
        self._taken = 0
        self._waiting = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._waiting:
            raise UsageError(
                "a second task waits for an item of the same iterator; give each task an iterator of its own, or let "
                "one task hand the items out"
            )
        buffer = self._subscribe() if self._buffer is None else self._buffer
        if not self._ready or self._taken == REPLENISH:
            self._waiting = True
            try:
                await self._refill(buffer)
            finally:
                self._waiting = False
        self._taken += 1
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Cancel the source; what waits in `__anext__`, and what comes after, gets `StopAsyncIteration`."""
        self._ready.clear()
        if self._buffer is None:
            self._buffer = _Buffer(current_platform(), asyncio.get_running_loop())
        self._buffer.cancel()

    def __del__(self) -> None:
        if self._buffer is not None:
            self._buffer.cancel_later()

    def _subscribe(self) -> _Buffer[T]:
        buffer: _Buffer[T] = _Buffer(current_platform(), asyncio.get_running_loop())
        self._flowable.subscribe(buffer)
        self._buffer = buffer
        return buffer

    async def _refill(self, buffer: _Buffer[T]) -> None:
        """Return with at least one item in `_ready`; what is cancelled here has taken none."""
        if self._taken == REPLENISH:
            self._taken = 0
            buffer.request(REPLENISH)
            # An iterator that always has items would keep the loop from everything else.
            await asyncio.sleep(0)
        while not self._ready:
            self._ready = buffer.take()
            if not self._ready:
                await buffer.wait()


class _Buffer(BatchSubscriber[T], Generic[T]):
    """What the source holds: the items that the iterator has not taken yet.

    `_lock` guards all fields but `_loop` and `_platform`. The loop is called once each time that the iterator waits,
    and not for each item.
    """

    __slots__ = ("_closed", "_ended", "_error", "_items", "_lock", "_loop", "_platform", "_subscription", "_waiter")

    def __init__(self, platform: Platform, loop: asyncio.AbstractEventLoop) -> None:
        self._platform = platform
        self._loop = loop
        self._lock = platform.lock()
        self._items: deque[T] = deque()
        self._subscription: Subscription | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._ended = False
        self._closed = False

    # The source's side.

    def on_subscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscription = subscription
        subscription.request(PREFETCH)

    def on_next(self, value: T) -> None:
        self.on_next_batch((value,))

    def on_next_batch(self, items: Sequence[T]) -> None:
        with self._lock:
            if self._closed:
                return
            self._items.extend(items)
            waiter, self._waiter = self._waiter, None
        self._wake(waiter)

    def on_error(self, error: Exception) -> None:
        self._end(error)

    def on_completed(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        with self._lock:
            self._ended = True
            self._error = error
            waiter, self._waiter = self._waiter, None
        self._wake(waiter)

    def _wake(self, waiter: asyncio.Future[None] | None) -> None:
        if waiter is None:
            return
        if running_loop() is self._loop:
            _resolve(waiter)
            return
        try:
            self._loop.call_soon_threadsafe(_resolve, waiter)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            logger.warning("the event loop of an async iterator was closed while it waited; its source is cancelled")
            self.cancel()

    # The iterator's side.

    def request(self, n: int) -> None:
        if self._subscription is not None:
            self._subscription.request(n)

    def take(self) -> deque[T]:
        """Return all items that are there; raise what comes after the last."""
        with self._lock:
            if self._items or not (self._closed or self._ended):
                items, self._items = self._items, deque()
                return items
            error, self._error = self._error, None
        if isinstance(error, StopAsyncIteration | StopIteration):
            # Raised as it is, it would look like the end of the items.
            raise RxwowError(f"the stream failed with {type(error).__name__}") from error
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def wait(self) -> None:
        """Wait until `take` has something to say."""
        if running_loop() is not self._loop:
            raise UsageError("an async iterator stays on the event loop on which its first item was awaited")
        with self._lock:
            if self._items or self._closed or self._ended:
                return
            waiter = self._waiter = self._loop.create_future()
        await waiter

    def cancel(self) -> None:
        with self._lock:
            self._closed = True
            self._error = None
            self._items.clear()
            subscription = self._subscription
            waiter, self._waiter = self._waiter, None
        if subscription is not None:
            subscription.cancel()
        self._wake(waiter)

    def cancel_later(self) -> None:
        """Cancel from a finalizer, on another stack: this one may hold a lock of the very source."""
        if self._ended or self._closed:
            return
        with contextlib.suppress(RuntimeError):
            if self._loop.is_running():
                self._loop.call_soon_threadsafe(self.cancel)
                return
        # At the end of the interpreter no thread can be started, and nothing needs to be cancelled.
        with contextlib.suppress(RuntimeError):
            self._platform.thread(self.cancel, "rxwow-cancel").start()


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
