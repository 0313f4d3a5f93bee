"""The calls of one map_async: a task for each item that has come, a few at a time."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from rxwow.errors import HandlerExit, RxwowError, UsageError
from rxwow.platform import Platform
from rxwow.streams.description import describe
from rxwow.streams.guard import running_loop
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

__all__ = ["Calls"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")
R = TypeVar("R")


class Calls(BatchSubscriber[T], AsyncIterable[R], Generic[T, R]):
    """Takes the items of the source and is iterated for the results.

    `_lock` guards `_arrived`, `_subscription`, `_offer`, `_loop`, `_told`, `_cancelled`, `_ended` and `_error`. The
    rest belongs to the loop: `_running` are the calls that have not finished, and `_due` those whose results come next,
    in that order.
    """

    def __init__(
        self,
        func: Callable[[T], Awaitable[R]],
        max_concurrency: int,
        ordered: bool,
        subscriber: Subscriber[R],
        platform: Platform,
    ) -> None:
        self._func = func
        self._max_concurrency = max_concurrency
        self._ordered = ordered
        self._offer: Callable[[], asyncio.AbstractEventLoop | None] | None = getattr(subscriber, "event_loop", None)
        self._context = copy_context()
        self._lock = platform.lock()
        self._arrived: deque[T] = deque()
        self._subscription: Subscription | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = False
        self._cancelled = False
        self._ended = False
        self._error: Exception | None = None
        self._running: set[asyncio.Task[R]] = set()
        self._due: deque[asyncio.Task[R]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"map_async({describe(self._func)})"

    # The source's side, on any thread.

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        with self._lock:
            offer = self._offer
        return None if offer is None else offer()

    def on_subscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscription = subscription
            cancelled = self._cancelled
            begun = self._loop is not None
        if cancelled:
            subscription.cancel()
        elif begun:
            subscription.request(self._max_concurrency)

    def on_next(self, value: T) -> None:
        self.on_next_batch((value,))

    def on_next_batch(self, items: Sequence[T]) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._arrived.extend(items)
        self._tell()

    def on_error(self, error: Exception) -> None:
        self._end(error)

    def on_completed(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        with self._lock:
            self._ended = True
            self._error = error
        self._tell()

    def _tell(self) -> None:
        """Have the loop look at what has come."""
        with self._lock:
            loop = self._loop
            if loop is None or self._told or self._cancelled:
                return
            self._told = True
        try:
            if running_loop() is loop:
                loop.call_soon(self._look)
            else:
                loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            if not loop.is_closed():
                raise
            # The emitter says so to its subscriber, as soon as that asks.
            self.cancel_source()

    def cancel_source(self) -> None:
        """Ask for nothing more and forget what was not begun; idempotent, from any thread."""
        with self._lock:
            self._cancelled = True
            self._arrived.clear()
            subscription, self._subscription = self._subscription, None
            # It is a method of the subscriber, which is to be forgotten (§3.13).
            self._offer = None
        if subscription is not None:
            subscription.cancel()

    # The loop's side.

    async def __aiter__(self) -> AsyncIterator[R]:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._loop = loop
            subscription = self._subscription
        try:
            if subscription is not None:
                subscription.request(self._max_concurrency)
            self._look()
            while (call := await self._next_call(loop)) is not None:
                yield self._result(call)
        finally:
            self.cancel_source()
            await self._end_calls(loop)

    def request(self, n: int) -> None:
        """Ask for more, as results were delivered."""
        with self._lock:
            subscription = self._subscription
        if subscription is not None:
            subscription.request(n)

    def _look(self) -> None:
        """Begin a call for each item that has arrived."""
        with self._lock:
            self._told = False
            arrived, self._arrived = self._arrived, deque()
        for item in arrived:
            self._begin(item)
        self._wake()

    def _begin(self, item: T) -> None:
        call = asyncio.get_running_loop().create_task(
            self._call(item), name="rxwow-map-async", context=self._context.copy()
        )
        self._running.add(call)
        if self._ordered:
            self._due.append(call)
        call.add_done_callback(self._call_ended)

    async def _call(self, item: T) -> R:
        awaitable = self._func(item)
        if not inspect.isawaitable(awaitable):
            raise UsageError(
                f"{describe(self._func)} returned {describe(awaitable)}, which can't be awaited; give map_async an "
                "async function, or use map"
            )
        return await awaitable

    def _call_ended(self, call: asyncio.Task[R]) -> None:
        self._running.discard(call)
        if not self._ordered:
            self._due.append(call)
        if call.cancelled() or call.exception() is not None:
            self._stop_after(call)
        self._wake()

    def _stop_after(self, failed: asyncio.Task[R]) -> None:
        """Cancel what would come after a call that has failed."""
        self.cancel_source()
        after = self._running
        if self._ordered:
            # It is not there if the results were given up.
            after = set(self._due)
            for call in self._due:
                after.discard(call)
                if call is failed:
                    break
        _cancel(after)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _next_call(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[R] | None:
        """Return the next call, finished; None at the end of the source."""
        while True:
            if self._due and self._due[0].done():
                return self._due.popleft()
            if not self._due and not self._running and self._is_over():
                return None
            self._waiter = loop.create_future()
            await self._waiter

    def _is_over(self) -> bool:
        with self._lock:
            over = self._ended and not self._arrived
            error, self._error = (self._error, None) if over else (None, self._error)
        if error is not None:
            raise error
        return over

    def _result(self, call: asyncio.Task[R]) -> R:
        try:
            return call.result()
        except asyncio.CancelledError as error:
            raise HandlerExit(error, "function of map_async") from error
        except StopAsyncIteration as error:
            # Raised as it is, it would not get out of a generator.
            raise RxwowError(f"{describe(self._func)} failed with StopAsyncIteration") from error

    async def _end_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        unfinished = list(self._running)
        # The garbage collector ends a generator of a closed loop; nothing can be cancelled or awaited there any more.
        if unfinished and running_loop() is loop:
            _cancel(unfinished)
            await asyncio.wait(unfinished)
            self._log_failures(unfinished)
        # Not before: those that end append themselves, with what they hold.
        self._due.clear()

    def _log_failures(self, cancelled: Iterable[asyncio.Task[R]]) -> None:
        for call in cancelled:
            if not call.cancelled() and (error := call.exception()) is not None:
                logger.error("%s failed after it was cancelled", describe(self._func), exc_info=error)


def _cancel(calls: Iterable[asyncio.Task[Any]]) -> None:
    for call in calls:
        # Once: a second time would break into what a call does when it is cancelled.
        if not call.cancelling():
            call.cancel()
