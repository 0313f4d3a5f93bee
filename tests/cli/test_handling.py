"""A handler of any kind is watched from its start to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest
import reactivex

from rxwow.cli.handling import CheckedHandler
from rxwow.cli.order import KeyHistory, Message, OrderChecker

Counts = tuple[int, int, int, int]


def counts(checker: OrderChecker) -> Counts:
    return checker.started, checker.finished, checker.succeeded, checker.violations


def wrapped(handler: Callable[[Any], Any]) -> tuple[OrderChecker, Callable[[Message[Any]], Any]]:
    checker = OrderChecker()
    return checker, CheckedHandler(handler, checker, lambda result: f"<{result}>")


MESSAGE_VALUE = 21


def message() -> Message[int]:
    return Message(MESSAGE_VALUE, 1, KeyHistory("a"))


def fail(_value: object) -> None:
    raise ValueError("no")


def test_a_plain_handler_is_done_when_it_returns() -> None:
    checker, handler = wrapped(lambda value: value * 2)
    assert handler(message()) == "<42>"
    assert counts(checker) == (1, 1, 1, 0)


def test_a_plain_handler_that_raises_is_done_too() -> None:
    checker, handler = wrapped(fail)
    with pytest.raises(ValueError, match="no"):
        handler(message())
    assert counts(checker) == (1, 1, 0, 0)


def test_a_result_that_is_refused_is_the_failure_of_its_message() -> None:
    checker = OrderChecker()
    handler = CheckedHandler(lambda value: value, checker, fail)
    with pytest.raises(ValueError, match="no"):
        handler(message())
    assert counts(checker) == (1, 1, 0, 0)


async def double_later(value: int) -> int:
    await asyncio.sleep(0)
    return value * 2


class Doubler:
    async def __call__(self, value: int) -> int:
        return await double_later(value)


def pass_on(value: int) -> Awaitable[int]:
    return double_later(value)


@pytest.mark.parametrize("handler", [double_later, Doubler(), pass_on])
def test_an_async_handler_is_done_when_it_was_awaited(handler: Callable[[int], Awaitable[int]]) -> None:
    checker, checked = wrapped(handler)
    waiting = checked(message())
    assert counts(checker) == (1, 0, 0, 0)
    assert asyncio.run(waiting) == "<42>"
    assert counts(checker) == (1, 1, 1, 0)


def test_an_async_handler_that_raises_is_done_too() -> None:
    async def fail_later(value: object) -> None:
        fail(value)

    checker, handler = wrapped(fail_later)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(handler(message()))
    assert counts(checker) == (1, 1, 0, 0)


def test_a_future_is_waited_for() -> None:
    future: Future[int] = Future()
    checker, handler = wrapped(lambda _: future)
    waiting = handler(message())
    assert counts(checker) == (1, 0, 0, 0)
    future.set_result(42)
    assert asyncio.run(waiting) == "<42>"
    assert counts(checker) == (1, 1, 1, 0)


def test_an_observable_is_done_before_its_completion_is_told() -> None:
    checker, handler = wrapped(lambda value: reactivex.of(value, value * 2))
    emitted: list[str] = []
    at_completion: list[Counts] = []
    handler(message()).subscribe(emitted.append, on_completed=lambda: at_completion.append(counts(checker)))
    assert emitted == ["<21>", "<42>"]
    assert at_completion == [(1, 1, 1, 0)]


def test_an_observable_that_fails_is_done_before_its_error_is_told() -> None:
    checker, handler = wrapped(lambda _: reactivex.throw(ValueError("no")))
    at_error: list[Counts] = []
    handler(message()).subscribe(on_error=lambda _: at_error.append(counts(checker)))
    assert at_error == [(1, 1, 0, 0)]
