"""An event loop under control: asyncio's own, but for how it sleeps, how it is woken and what time it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from rxwow.testing.baton import Baton
from rxwow.testing.clock import nanoseconds
from rxwow.testing.leftovers import close_tasks
from rxwow.testing.schedule import Resource
from rxwow.testing.strand import Strand

__all__ = ["ControlledEventLoop"]

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class _Park(Resource):
    """Where a loop's thread sleeps: takes the place of the loop's selector and of its self-pipe."""

    def __init__(self, baton: Baton, number: int) -> None:
        super().__init__("loop", number)
        self._baton = baton
        self._sleeper: Strand | None = None
        self._is_woken = False

    def select(self, timeout: float | None) -> list[Any]:
        """Sleep until the loop is woken or a time has passed; there are no files, so none is ever ready."""
        if timeout is not None and timeout <= 0:
            self._baton.before("polls", self)
        else:
            self._baton.approach("parks in", self)
            if self._is_woken:
                self._baton.note("finds woken", self)
            else:
                self._sleeper = self._baton.holder()
                due = None if timeout is None else self._baton.clock.nanoseconds + nanoseconds(timeout)
                self._baton.block("parks in", self, due)
                self._sleeper = None
        self._is_woken = False
        return []

    def wake(self) -> None:
        """Let the sleeping thread go on, or the next sleep end at once."""
        self._baton.before("wakes", self)
        self._is_woken = True
        if self._sleeper is not None:
            self._baton.roster.wake([self._sleeper])
        self._baton.give_way()


class ControlledEventLoop(asyncio.BaseEventLoop):
    """An event loop on virtual time, without any file descriptor: timers, tasks and calls from other threads, no I/O.

    An exception that asyncio would only log (a callback's, or that of a task that nobody awaits) ends the run, unless
    the code under test has set an exception handler.

    Args:
        baton: the run's baton.
        number: the loop's number within the run.
        executor: makes the executor of `run_in_executor(None, ...)`.
    """

    def __init__(self, baton: Baton, number: int, executor: Callable[[], Executor]) -> None:
        super().__init__()
        self._baton = baton
        self._selector = _Park(baton, number)
        self._clock_resolution = 1e-9
        self._make_executor = executor
        self._executor: Executor | None = None
        self._calls: set[asyncio.Future[Any]] = set()

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._baton.clock.seconds

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*_Arguments], _Result],
        *args: *_Arguments,
    ) -> asyncio.Future[_Result]:
        """Call a function on a thread of the executor; on a controlled one, if none is given."""
        if executor is None:
            if self._executor is None:
                self._executor = self._make_executor()
            call = super().run_in_executor(self._executor, func, *args)
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            return call
        return super().run_in_executor(executor, func, *args)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Take no more calls for the default executor, and wait for those taken."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        if self._calls:
            await asyncio.wait(self._calls, timeout=timeout)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Let an unhandled exception end the run."""
        if self._baton.halting:
            return
        if self.get_exception_handler() is not None:
            super().call_exception_handler(context)
            return
        error = context.get("exception")
        self._baton.report(error if isinstance(error, BaseException) else RuntimeError(context.get("message")))

    def abandon(self) -> None:
        """Close the loop after the run, with all that was left undone in it."""
        if not self.is_running():
            # Also of a loop that the scenario has closed: what was never begun there would warn when it is collected.
            close_tasks(self)
            self.close()

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._selector.wake()
