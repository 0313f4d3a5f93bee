"""Which exceptions of user code end their stream alone, and which go on up the stack."""

from __future__ import annotations

import asyncio
import threading

from rxwow.errors import RxwowError

__all__ = ["as_error", "is_contained"]


def is_contained(error: BaseException) -> bool:
    """Whether `error` is the failure of the user code that raised it, and no more.

    `SystemExit` and `KeyboardInterrupt` on the main thread come from a signal or mean the process, so they go on. On
    another thread they would end that thread, a worker perhaps, and the process would live on without it.

    >>> is_contained(ValueError()), is_contained(KeyboardInterrupt())
    (True, False)
    """
    if isinstance(error, Exception | asyncio.CancelledError | GeneratorExit):
        return True
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return threading.current_thread() is not threading.main_thread()
    return False


def as_error(error: object) -> Exception:
    """Return what `on_error` gets for what a source raised or gave as its error: it takes no other than an `Exception`.

    >>> as_error(SystemExit(3))
    RxwowError('the source failed with SystemExit(3)')
    """
    if isinstance(error, Exception):
        return error
    wrapped = RxwowError(f"the source failed with {error!r}")
    if isinstance(error, BaseException):
        wrapped.__cause__ = error
    return wrapped
