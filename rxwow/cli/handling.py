"""The user's handler as the dispatch calls it: between the order checker's two looks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import GeneratorType
from typing import Any, Final, Generic, TypeGuard, TypeVar

from reactivex import Observable, operators

from rxwow.cli.order import Message, OrderChecker

__all__ = ["CheckedHandler"]

R = TypeVar("R")

MOST_TYPES: Final = 100


class CheckedHandler(Generic[R]):
    """A handler of messages made of one of records, that tells the checker when each starts and finishes.

    The checker is told of the end before the dispatch can know of it, and so before it may start the next message.
    """

    def __init__(self, handler: Callable[[Any], Any], checker: OrderChecker, transform: Callable[[Any], R]) -> None:
        """Wrap a handler.

        Args:
            handler: a plain function, or one that returns an awaitable, a future or an Observable.
            checker: is told of each message.
            transform: makes what is emitted of each result; when it raises, that is the message's failure.
        """
        self._handler = handler
        self._checker = checker
        self._transform = transform
        # The types of results that are nothing to wait for: to find that out takes a microsecond, and a handler may
        # take less.
        self._plain: set[Any] = set()

    def __call__(self, message: Message[Any]) -> Any:
        """Handle a message: return what is emitted for it, or what it waits for."""
        self._checker.start(message)
        try:
            result = self._handler(message.value)
            kind: Any = result.__class__
            if kind not in self._plain:
                # RxPY's Observable can be awaited too, but then gives its last item only.
                if _is_observable(result):
                    return self._watch(result, message)
                if _is_waited_for(result):
                    return self._wait_for(result, message)
                # Whether a generator can be awaited is a matter of its code and not of its type; and a program may make
                # types without end.
                if kind is not GeneratorType and len(self._plain) < MOST_TYPES:
                    self._plain.add(kind)
            emitted = self._transform(result)
        except BaseException:
            self._checker.finish(message, succeeded=False)
            raise
        self._checker.finish(message, succeeded=True)
        return emitted

    async def _wait_for(self, result: Awaitable[Any] | Future[Any], message: Message[Any]) -> R:
        try:
            awaitable = asyncio.wrap_future(result) if isinstance(result, Future) else result
            emitted = self._transform(await awaitable)
        except BaseException:
            self._checker.finish(message, succeeded=False)
            raise
        self._checker.finish(message, succeeded=True)
        return emitted

    def _watch(self, result: Observable[Any], message: Message[Any]) -> Observable[R]:
        return result.pipe(
            operators.map(self._transform),
            operators.do_action(
                on_error=lambda _: self._checker.finish(message, succeeded=False),
                on_completed=lambda: self._checker.finish(message, succeeded=True),
            ),
        )


def _is_observable(result: Any) -> TypeGuard[Observable[Any]]:
    return isinstance(result, Observable)


def _is_waited_for(result: Any) -> TypeGuard[Awaitable[Any] | Future[Any]]:
    return isinstance(result, Future) or inspect.isawaitable(result)
