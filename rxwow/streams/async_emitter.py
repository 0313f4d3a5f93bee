"""The emitter of an async iterable: it lives on one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextvars import copy_context
from typing import Any, Final, TypeAlias, TypeVar, cast

from rxwow.errors import RxwowError
from rxwow.platform import Platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.description import describe
from rxwow.streams.emitter import Emitter
from rxwow.streams.guard import running_loop
from rxwow.streams.protocols import Subscriber

__all__ = ["AsyncIterableEmitter", "AsyncIterableOrFactory"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")

AsyncIterableOrFactory: TypeAlias = AsyncIterable[T] | Callable[[], AsyncIterable[T]]

MOST_ITEMS_A_TURN: Final = 64
"""Items that an iterator which never waits may give before the loop has its turn."""

_running: set[asyncio.Task[None]] = set()
"""Owns the tasks until they end, as event loops don't. Adding to a set is one step with and without a GIL."""


class AsyncIterableEmitter(Emitter[T]):
    """Drains in callbacks of its loop, and awaits the iterator in a task of it; the two never run inside each other.

    So what is declared here needs no lock, but for `_lost`, which `_lock` guards: whoever sets it takes over the role
    of the drainer from a loop that is closed and will not run a callback any more.
    """

    __slots__ = (
        "_closes",
        "_context",
        "_factory",
        "_items",
        "_iterator",
        "_loop",
        "_lost",
        "_parked",
        "_pulling",
        "_task",
    )

    def __init__(
        self,
        subscriber: Subscriber[T],
        platform: Platform,
        factory: AsyncIterableOrFactory[T],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(subscriber, platform)
        self._factory = factory
        self._loop = loop
        # Without it, the signals would be given in the context of whoever happened to ask.
        self._context = copy_context()
        self._items: deque[T] = deque()
        self._iterator: AsyncIterator[T] | None = None
        self._closes = False
        self._task: asyncio.Task[None] | None = None
        self._pulling = False
        self._parked: asyncio.Future[None] | None = None
        self._lost = False

    # From any thread.

    def request(self, n: int) -> None:
        super().request(n)
        self._look_after_loop()

    def cancel(self) -> None:
        super().cancel()
        self._look_after_loop()

    def _begin_drain(self) -> None:
        if self._lost:
            self._drain()
            return
        try:
            if running_loop() is self._loop:
                self._loop.call_soon(self._drain, context=self._context)
            else:
                self._loop.call_soon_threadsafe(self._drain, context=self._context)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            self._look_after_loop()

    def _look_after_loop(self) -> None:
        """End here if the loop was closed: it may have taken a drain with it that was due."""
        if self._finished or not self._loop.is_closed():
            return
        with self._lock:
            if self._lost:
                return
            self._lost = True
            self._draining = True
            loses = not self._ended and not self._has_end()
            if loses:
                self._error = RxwowError(
                    f"the event loop that ran {describe(self._factory)} was closed before the end; keep the loop open "
                    "until the stream has ended, or cancel the subscription first"
                )
        if loses:
            logger.warning("the event loop that ran %s was closed before the end", describe(self._factory))
        self._drain()

    # On the loop's thread, or, when it is closed, on that of whoever noticed.

    def _has_items(self) -> bool:
        return bool(self._items)

    def _emit(self, limit: int) -> int:
        items = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
        return self._deliver(items) if items else 0

    def _is_asked(self) -> bool:
        # Exact, because no drain is in the middle of its work here.
        with self._lock:
            return self._requested > len(self._items)

    def _drained(self) -> None:
        if self._finished or self._has_end() or not self._is_asked():
            return
        if self._task is None:
            self._pulling = True
            self._task = self._loop.create_task(self._pump(), name="rxwow-source", context=self._context.copy())
            _running.add(self._task)
            self._task.add_done_callback(self._pump_ended)
        elif self._parked is not None and not self._parked.done():
            self._parked.set_result(None)

    def _release(self) -> None:
        self._items.clear()
        task = self._task
        if task is None:
            self._loop_unused()
        elif self._lost:
            _running.discard(task)
        elif self._pulling:
            task.cancel()

    def _pump_ended(self, task: asyncio.Task[None]) -> None:
        _running.discard(task)
        self._loop_unused()

    def _loop_unused(self) -> None:
        """Called when nothing of this emitter is left on the loop."""

    # The task.

    async def _pump(self) -> None:
        try:
            await self._pull()
        except BaseException as error:
            if running_loop() is not self._loop:
                # The garbage collector ends a task of a closed loop; nothing can be awaited any more.
                raise
            self._pulling = False
            self._pull_failed(error)
            if not is_contained(error):
                raise
        else:
            self._pulling = False
            self.complete()
        await self._close()

    async def _pull(self) -> None:
        iterator = self._open()
        unbroken = 0
        while not self._ended and not self._at_once:
            if not self._is_asked():
                self._parked = self._loop.create_future()
                await self._parked
                continue
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            self._items.append(item)
            self.wake()
            unbroken += 1
            if unbroken == MOST_ITEMS_A_TURN:
                unbroken = 0
                await asyncio.sleep(0)

    def _open(self) -> AsyncIterator[T]:
        factory: Any = self._factory
        iterable = cast(AsyncIterable[T], factory if isinstance(factory, AsyncIterable) else factory())
        iterator = self._iterator = aiter(iterable)
        self._closes = iterable is not factory or iterator is not iterable or isinstance(iterable, AsyncGenerator)
        return iterator

    def _pull_failed(self, error: BaseException) -> None:
        if not isinstance(error, asyncio.CancelledError):
            if not self.fail(as_error(error)):
                # Nobody can be told by on_error any more.
                logger.error("%s raised after it was cancelled", describe(self._factory), exc_info=error)
        elif self._ended:
            # It was our own, and closing may have to wait.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        else:
            self.fail(
                RxwowError(
                    f"the task that ran {describe(self._factory)} was cancelled before the end, as happens when its "
                    "event loop is shut down"
                )
            )

    async def _close(self) -> None:
        aclose: Any = getattr(self._iterator, "aclose", None)
        if aclose is None or not self._closes:
            return
        try:
            await aclose()
        except BaseException as error:
            if running_loop() is not self._loop or not is_contained(error):
                raise
            if not isinstance(error, asyncio.CancelledError):
                logger.exception("closing %s raised", describe(self._factory))
