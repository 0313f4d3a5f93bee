"""Where a call may wait, and what a subscription may know of the thread that makes it.

A worker that waits for its own work hangs for ever, so worker threads are registered here and every call that waits
asks first. The other way round, a sink that is about to block its thread says so while it subscribes: a source must not
choose that thread's event loop, which will not turn, and may block that thread, which has nothing better to do.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from reactivex import abc

from rxwow.errors import BlockingCallError

__all__ = [
    "about_to_wait",
    "allow_waiting",
    "check_may_wait",
    "emitting_scheduler",
    "emitting_with",
    "forbid_waiting",
    "is_about_to_wait",
    "may_wait",
    "running_loop",
]

# Reentrant: the collector may come while it is held, find a forgotten executor, and give its thread back.
_lock = threading.RLock()
_forbidden: dict[int, list[str]] = {}
"""Thread identifiers and what those threads are; guarded by `_lock`, as a lookup may meet a resize.

A list, since a thread may be forbidden for more than one reason: two executors may work on its event loop.
"""


class _Scope(threading.local):
    """What holds on one thread while a call on it lasts; tasks made meanwhile would inherit a context variable."""

    waiting: bool = False
    scheduler: abc.SchedulerBase | None = None


_scope = _Scope()


def forbid_waiting(ident: int, where: str) -> None:
    """Make calls that wait fail on a thread, until `allow_waiting`.

    Args:
        ident: the thread's `ident`.
        where: what the thread is, for the error: "worker 2 of executor 'rxwow'".
    """
    with _lock:
        _forbidden.setdefault(ident, []).append(where)


def allow_waiting(ident: int) -> None:
    """Undo `forbid_waiting`; a thread that ends must be taken back, as the system reuses its identifier."""
    with _lock:
        reasons = _forbidden.get(ident, [])
        if len(reasons) > 1:
            reasons.pop()
        else:
            _forbidden.pop(ident, None)


def check_may_wait(call: str, instead: str) -> None:
    """Refuse a call that waits on a thread that must not.

    Args:
        call: the call that was made: "run()".
        instead: what to do: "return the Flowable from the handler".

    Raises:
        BlockingCallError: the calling thread was registered with `forbid_waiting`.

    >>> check_may_wait("run()", "subscribe") is None
    True
    """
    where = _forbidden_here()
    if where is not None:
        raise BlockingCallError(call, where, instead)


def may_wait() -> bool:
    """Whether the calling thread may be held up: no worker, and no event loop that something else waits for."""
    return _forbidden_here() is None and (_scope.waiting or running_loop() is None)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs on the calling thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@contextmanager
def about_to_wait() -> Generator[None]:
    """Say that the calling thread subscribes now and then waits for the end, so its own event loop stands still."""
    # Nor may a source put its emission off to this thread's trampoline: it would come after the wait.
    outer = _scope.waiting, _scope.scheduler
    _scope.waiting, _scope.scheduler = True, None
    try:
        yield
    finally:
        _scope.waiting, _scope.scheduler = outer


def is_about_to_wait() -> bool:
    """Whether the calling thread is inside `about_to_wait`."""
    return _scope.waiting


@contextmanager
def emitting_with(scheduler: abc.SchedulerBase) -> Generator[None]:
    """Make sources that would emit on the calling thread, while they are subscribed, emit through `scheduler`."""
    outer, _scope.scheduler = _scope.scheduler, scheduler
    try:
        yield
    finally:
        _scope.scheduler = outer


def emitting_scheduler() -> abc.SchedulerBase | None:
    """Return the scheduler of the enclosing `emitting_with`."""
    return _scope.scheduler


def _forbidden_here() -> str | None:
    with _lock:
        reasons = _forbidden.get(threading.get_ident())
        return reasons[-1] if reasons else None


def _forget_threads() -> None:
    """In a forked child none of the registered threads lives, and another may have held the lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()
    _forbidden.clear()
    _scope.waiting, _scope.scheduler = False, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
