"""What is left when a run ends early: coroutines that nobody will await, tasks that nobody will finish.

None of it is a fault of the code under test, so none of it may warn, now or when it is collected in some later test.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import warnings
from collections.abc import Generator

__all__ = ["close_coroutines", "close_tasks", "silence"]


@contextlib.contextmanager
def silence() -> Generator[None, None, None]:
    """Let no coroutine complain, in this context, that it was never awaited."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"coroutine .* was never awaited", RuntimeWarning)
        yield


def close_coroutines(error: BaseException | None) -> None:
    """Close the coroutines that have not begun and are held by the traceback of an error, or by one that led to it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        traceback = error.__traceback__
        while traceback is not None:
            for value in traceback.tb_frame.f_locals.values():
                if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
                    value.close()
            traceback = traceback.tb_next
        error = error.__cause__ or error.__context__


def close_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Close the coroutines of all tasks of a loop that doesn't run."""
    for task in asyncio.all_tasks(loop):
        # Whatever it answers to being closed, it answers after the run.
        with contextlib.suppress(BaseException):
            task.get_coro().close()
