"""The async generator that a handler returned, on its way to be a source of results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from rxwow.errors import ForeignLoopError, HandlerExit

__all__ = ["HandlerGenerator", "is_foreign_loop"]

logger = logging.getLogger("rxwow.execution")


def is_foreign_loop(error: RuntimeError) -> bool:
    """Whether asyncio complains that something belongs to another event loop."""
    return "different loop" in str(error) or "different event loop" in str(error)


class HandlerGenerator(AsyncIterator[Any]):
    """Gives the items of an async iterator, and closes it before its end is told.

    So the next message of the key starts after the code that follows the last `yield` has run. All of it is called in
    one task of the worker's loop.
    """

    def __init__(self, iterator: AsyncIterator[Any], cleanups: set[asyncio.Task[Any]]) -> None:
        self._iterator = iterator
        self._cleanups = cleanups
        self._closed = False

    async def __anext__(self) -> Any:
        try:
            return await anext(self._iterator)
        except BaseException as error:
            await self.aclose()
            if isinstance(error, asyncio.CancelledError):
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
            if isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, SystemExit)):
                # It would be taken for the end of the task, which asyncio lets end the loop too.
                raise HandlerExit(error) from error
            if isinstance(error, RuntimeError) and is_foreign_loop(error):
                raise ForeignLoopError(self._iterator) from error
            raise

    async def aclose(self) -> None:
        """Close the iterator, once; the end of the worker must not cut that off."""
        close = getattr(self._iterator, "aclose", None)
        if self._closed or close is None:
            return
        self._closed = True
        task = asyncio.current_task()
        if task is not None:
            self._cleanups.add(task)
        try:
            await close()
        except BaseException:
            # An exit too: the handler has come to its end already, and can't have another.
            logger.exception("closing %r, which a handler returned, raised", self._iterator)
        finally:
            if task is not None:
                self._cleanups.discard(task)
