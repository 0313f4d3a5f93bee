"""blocking: the mark of a handler that holds up its thread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from rxwow.errors import InvalidArgumentError
from rxwow.execution.options import check_callable, is_async

__all__ = ["blocking", "is_blocking"]

P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "__rxwow_blocking__"


def blocking(handler: Callable[P, R]) -> Callable[P, R]:
    """Mark a plain function that waits and holds up its thread meanwhile: a database driver, a file, `time.sleep`.

    As the handler of a dispatch it runs on a thread of its executor's elastic pool, in a copy of the message's context,
    while its mailbox waits without a worker: other keys go on, and messages of its own key come one at a time and in
    order as ever. The pool has at most ten threads for each CPU, made when they are needed and kept for 60 s without
    work; 100,000 messages may wait for one, more fail with `BlockingPoolFullError`. Called by anybody else, it is what
    it was.

    Args:
        handler: a plain function or method.

    Returns:
        The function, marked.

    Raises:
        InvalidArgumentError: it is an `async def` or an async generator, which has an event loop to wait on, or can't
            be called.

    >>> @blocking
    ... def store(payment):
    ...     return f"{payment} is in the books"
    >>> from rxwow import Flowable, keyed_dispatch
    >>> Flowable.from_iterable([7]).pipe(keyed_dispatch(str, store)).run()
    '7 is in the books'
    """
    check_callable("handler", handler)
    if is_async(handler) or inspect.isasyncgenfunction(handler):
        raise InvalidArgumentError(
            "handler", handler, "a plain function; an async def waits on its worker's loop and must not block it"
        )

    @functools.wraps(handler)
    def marked(*args: P.args, **kwargs: P.kwargs) -> R:
        return handler(*args, **kwargs)

    setattr(marked, _MARK, True)
    return marked


def is_blocking(handler: Any) -> bool:
    """Whether `handler`, or what it is a partial of, was marked.

    >>> is_blocking(blocking(print)), is_blocking(functools.partial(blocking(print), 1)), is_blocking(print)
    (True, True, False)
    """
    while isinstance(handler, functools.partial):
        handler = handler.func
    # An object that can be called may have its `__call__` marked.
    return bool(getattr(handler, _MARK, False) or getattr(type(handler).__call__, _MARK, False))
