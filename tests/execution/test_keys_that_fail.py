"""A message without a usable key is a failed message, and the messages around it have their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import InvalidKeyError, RxwowError
from tests.execution.collecting import PATIENCE, Collector, results_of


class Unequal:
    """Equal to nothing: the comparison with another of the same hash raises."""

    def __init__(self, raised: type[BaseException] = ArithmeticError) -> None:
        self._raised = raised

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        raise self._raised("no equality")


class Unhashable:
    def __init__(self, raised: type[BaseException]) -> None:
        self._raised = raised

    def __hash__(self) -> int:
        raise self._raised("no hash")


def raises(raised: type[BaseException]) -> Any:
    raise raised("no key")


BAD_KEYS: dict[str, Callable[[], Any]] = {
    "unhashable": list[int],
    "hash raises": lambda: Unhashable(OSError),
    "key function raises": lambda: raises(LookupError),
    "key function is cancelled": lambda: raises(asyncio.CancelledError),
    "hash is cancelled": lambda: Unhashable(asyncio.CancelledError),
    "key function recurses": lambda: raises(RecursionError),
}


def no_key_at_all(_: int) -> Any:
    return []


def key_of(bad: Callable[[], Any]) -> Callable[[int], Any]:
    return lambda message: bad() if message % 5 == 3 else message % 3


@pytest.mark.parametrize("kind", BAD_KEYS)
def test_a_message_without_a_key_is_skipped_and_the_others_come_in_order(kind: str) -> None:
    failed: list[tuple[int, Exception]] = []

    def policy(message: int, error: Exception) -> Any:
        failed.append((message, error))
        return SKIP

    with KeyedExecutor(2) as executor:
        operator = keyed_dispatch(
            key_of(BAD_KEYS[kind]), lambda message: message, executor=executor, on_failure=policy, max_in_flight=7
        )
        results = results_of(Flowable.from_iterable(range(60)).pipe(operator))
    assert sorted(results) == [message for message in range(60) if message % 5 != 3]
    for remainder in range(3):
        own = [message for message in results if message % 3 == remainder]
        assert own == sorted(own)
    assert sorted(message for message, _ in failed) == list(range(3, 60, 5))
    assert {type(error) for _, error in failed} == {InvalidKeyError}


@pytest.mark.parametrize("kind", BAD_KEYS)
def test_a_message_without_a_key_ends_the_stream_by_default(kind: str) -> None:
    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(key_of(BAD_KEYS[kind]), str, executor=executor, on_failure=FAIL)
        with pytest.raises(InvalidKeyError, match="no key for the message 3") as caught:
            Flowable.from_iterable(range(10)).pipe(operator).run()
        assert caught.value.item == 3


def test_a_retry_does_not_give_a_message_a_key() -> None:
    attempts: list[int] = []

    def policy(message: int, error: Exception) -> Any:
        attempts.append(message)
        return Retry(0) if len(attempts) < 3 else SKIP

    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(no_key_at_all, str, executor=executor, on_failure=policy)
        assert results_of(Flowable.from_iterable([1]).pipe(operator)) == []
    assert attempts == [1, 1, 1]


@pytest.mark.parametrize("raised", [ArithmeticError, asyncio.CancelledError, RecursionError])
def test_an_equality_that_raises_is_the_failure_of_the_message_that_was_compared(raised: type[BaseException]) -> None:
    failed: list[int] = []
    keys = [Unequal(raised) for _ in range(4)]

    def policy(message: int, error: Exception) -> Any:
        assert isinstance(error, InvalidKeyError)
        failed.append(message)
        return SKIP

    # The first key must be there when those of the next messages are compared with it.
    gate: Future[str] = Future()
    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(keys.__getitem__, lambda _: gate, executor=executor, on_failure=policy)
        collector = Collector(10)
        Flowable.from_iterable(range(4)).pipe(operator).subscribe(collector)
        gate.set_result("done")
        assert collector.ended.wait(PATIENCE)
    assert collector.taken == ["done"]
    assert failed == [1, 2, 3]


@dataclass(unsafe_hash=True)
class Account:
    """A key that changes, which no key may."""

    number: int
    balance: int = field(default=0)


def test_a_key_that_changes_while_its_messages_are_handled_ends_the_stream_and_not_the_worker() -> None:
    def change(account: Account) -> None:
        account.balance += 1

    with KeyedExecutor(1) as executor:
        collector = Collector(100)
        operator = keyed_dispatch(lambda account: account, change, executor=executor)
        Flowable.from_iterable([Account(number) for number in range(3)]).pipe(operator).subscribe(collector)
        assert collector.ended.wait(PATIENCE)
        assert isinstance(collector.error, RxwowError)
        assert "changed" in str(collector.error)
        assert results_of(Flowable.from_iterable([1]).pipe(keyed_dispatch(hash, str, executor=executor))) == ["1"]
