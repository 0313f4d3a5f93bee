"""Errors that can't be printed, policies that raise what they were given, and keys that run code as they die."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import HandlerExit, InvalidKeyError, RxwowError


def same(number: int) -> int:
    return number


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class UnprintableExit(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [Unprintable, UnprintableExit])
def test_an_error_that_cannot_be_printed_is_a_failure_of_its_message_alone(error: type[BaseException]) -> None:
    def handler(number: int) -> int:
        if number == 3:
            raise error
        return number

    def key(number: int) -> int:
        if number == 5:
            raise Unprintable
        return number

    with KeyedExecutor(workers=1) as executor:
        dispatch = keyed_dispatch(key, handler, executor=executor, on_failure=SKIP)
        results = Flowable.from_iterable(range(8)).pipe(dispatch).to_list().run()
    assert results == [0, 1, 2, 4, 6, 7]


def test_its_wrapped_form_names_its_type() -> None:
    assert "UnprintableExit" in str(HandlerExit(UnprintableExit()))
    assert "Unprintable" in str(InvalidKeyError(1, Unprintable()))


def test_a_policy_that_raises_the_error_it_was_given_makes_no_circle() -> None:
    def handler(number: int) -> int:
        raise ValueError(number)

    def policy(_: int, error: Exception) -> Any:
        raise error

    with KeyedExecutor(workers=1) as executor:
        dispatch = keyed_dispatch(same, handler, executor=executor, on_failure=policy)
        with pytest.raises(ValueError, match="0") as caught:
            Flowable.from_iterable([0]).pipe(dispatch).run()
    assert caught.value.__context__ is not caught.value


@pytest.mark.parametrize("error", [StopAsyncIteration, StopIteration])
def test_an_error_that_looks_like_the_end_of_an_iteration_is_an_error(error: type[Exception]) -> None:
    async def main() -> list[int]:
        async def handler(number: int) -> int:
            if number == 3:
                await asyncio.sleep(0)
                raise error
            return number

        async with KeyedExecutor.on_running_loop() as executor:
            dispatch = keyed_dispatch(lambda _: "k", handler, executor=executor)
            return [number async for number in Flowable.from_iterable(range(9)).pipe(dispatch)]

    with pytest.raises((RxwowError, RuntimeError), match=error.__name__):
        asyncio.run(main())


# Without a GIL, what dies by another thread is finalized by the thread that made it, in the middle of whatever that is
# doing, as the garbage collector does everywhere: it may hold the lock that is asked for. So only with a GIL:
if getattr(sys, "_is_gil_enabled", lambda: True)():

    def test_a_key_may_ask_for_statistics_as_it_dies() -> None:
        with KeyedExecutor(workers=1) as executor:

            class Key:
                def __init__(self, number: int) -> None:
                    self.number = number

                def __hash__(self) -> int:
                    return hash(self.number)

                def __eq__(self, other: object) -> bool:
                    return isinstance(other, Key) and other.number == self.number

                def __del__(self) -> None:
                    executor.statistics()

            dispatch = keyed_dispatch(Key, same, executor=executor)
            assert len(Flowable.from_iterable(range(300)).pipe(dispatch).to_list().run()) == 300
