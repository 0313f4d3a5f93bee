"""The user's handler as the dispatch calls it: between the order checker's two looks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import GeneratorType
from typing import Any, Final, TypeGuard, TypeVar

from reactivex import Observable, operators

from rxwow.cli.order import Message, OrderChecker

__all__ = ["checked_handler"]

R = TypeVar("R")

MOST_TYPES: Final = 100


def checked_handler(
    handler: Callable[[Any], Any], checker: OrderChecker, transform: Callable[[Any], R]
) -> Callable[[Message[Any]], Any]:
    """Wrap a handler of records into one of messages that tells the checker when each starts and finishes.

    The checker is told of the end before the dispatch can know of it, and so before it may start the next message.

    Args:
        handler: a plain function, or one that returns an awaitable, a future or an Observable.
        checker: is told of each message.
        transform: makes what is emitted of each result; when it raises, that is the message's failure.
    """

    async def wait_for(result: Awaitable[Any] | Future[Any], message: Message[Any]) -> R:
        try:
            emitted = transform(await (asyncio.wrap_future(result) if isinstance(result, Future) else result))
        except BaseException:
            checker.finish(message, succeeded=False)
            raise
        checker.finish(message, succeeded=True)
        return emitted

    def watch(result: Observable[Any], message: Message[Any]) -> Observable[R]:
        return result.pipe(
            operators.map(transform),
            operators.do_action(
                on_error=lambda _: checker.finish(message, succeeded=False),
                on_completed=lambda: checker.finish(message, succeeded=True),
            ),
        )

    # The types of results that are nothing to wait for: to find that out takes a microsecond, which a handler may not.
    plain: set[type[Any]] = set()

    def handle(message: Message[Any]) -> Any:
        checker.start(message)
        try:
            result = handler(message.value)
            kind: Any = result.__class__
            if kind not in plain:
                # RxPY's Observable can be awaited too, but then gives its last item only.
                if _is_observable(result):
                    return watch(result, message)
                if _is_waited_for(result):
                    return wait_for(result, message)
                # Whether a generator can be awaited is a matter of its code and not of its type; and a program may make
                # types without end.
                if kind is not GeneratorType and len(plain) < MOST_TYPES:
                    plain.add(kind)
            emitted = transform(result)
        except BaseException:
            checker.finish(message, succeeded=False)
            raise
        checker.finish(message, succeeded=True)
        return emitted

    return handle


def _is_observable(result: Any) -> TypeGuard[Observable[Any]]:
    return isinstance(result, Observable)


def _is_waited_for(result: Any) -> TypeGuard[Awaitable[Any] | Future[Any]]:
    return isinstance(result, Future) or inspect.isawaitable(result)
