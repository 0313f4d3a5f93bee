"""The order checker: it says yes to what is right, and no to each way of being wrong."""

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.cli.order import KeyHistory, Message, OrderChecker

Step = Callable[[OrderChecker, list[Message[str]]], None]


def messages_of(key: object, count: int) -> list[Message[str]]:
    history = KeyHistory(key)
    return [Message("value", line, history) for line in range(1, count + 1)]


def handle(checker: OrderChecker, *messages: Message[str]) -> None:
    for message in messages:
        checker.start(message)
        checker.finish(message, succeeded=True)


def test_messages_in_their_order_are_right() -> None:
    checker = OrderChecker()
    handle(checker, *messages_of("a", 3))
    assert (checker.started, checker.finished, checker.succeeded, checker.violations) == (3, 3, 3, 0)
    assert checker.verdict() == "yes, checked for each of 3 messages"


def test_a_failure_is_an_end_as_well() -> None:
    checker = OrderChecker()
    first, second = messages_of("a", 2)
    checker.start(first)
    checker.finish(first, succeeded=False)
    handle(checker, second)
    assert (checker.finished, checker.succeeded, checker.violations) == (2, 1, 0)


def test_keys_may_be_mixed_and_run_at_once() -> None:
    checker = OrderChecker()
    a, b = messages_of("a", 1), messages_of("b", 1)
    checker.start(a[0])
    checker.start(b[0])
    checker.finish(a[0], succeeded=True)
    checker.finish(b[0], succeeded=True)
    assert checker.violations == 0


def swapped(checker: OrderChecker, messages: list[Message[str]]) -> None:
    handle(checker, messages[1], messages[0], messages[2])


def skipped(checker: OrderChecker, messages: list[Message[str]]) -> None:
    handle(checker, messages[0], messages[2])


def repeated(checker: OrderChecker, messages: list[Message[str]]) -> None:
    handle(checker, messages[0], messages[0], messages[2])


def overlapping(checker: OrderChecker, messages: list[Message[str]]) -> None:
    checker.start(messages[0])
    handle(checker, messages[1])
    checker.finish(messages[0], succeeded=True)


@pytest.mark.parametrize(
    ("break_order", "first"),
    [
        (swapped, "number 2 of key 'a' (line 2) came when number 1 was due"),
        (skipped, "number 3 of key 'a' (line 3) came when number 2 was due"),
        (repeated, "number 1 of key 'a' (line 1) came when number 2 was due"),
        (overlapping, "number 2 of key 'a' (line 2) was started before the one ahead of it had finished"),
    ],
)
def test_a_broken_order_is_seen(break_order: Step, first: str) -> None:
    checker = OrderChecker()
    break_order(checker, messages_of("a", 3))
    assert checker.violations >= 1
    assert checker.first_violation == first
    assert checker.verdict().startswith("NO, ")
    assert checker.verdict().endswith(first)


@given(st.permutations([0, 1, 2, 3, 4]))
def test_any_order_but_the_right_one_is_seen(order: list[int]) -> None:
    checker = OrderChecker()
    messages = messages_of("a", 5)
    handle(checker, *(messages[index] for index in order))
    assert (checker.violations == 0) == (order == sorted(order))


def test_two_threads_at_one_key_are_seen() -> None:
    checker = OrderChecker()
    messages = messages_of("a", 2)
    both_run = threading.Barrier(2)

    def run(message: Message[str]) -> None:
        checker.start(message)
        both_run.wait()
        checker.finish(message, succeeded=True)

    threads = [threading.Thread(target=run, args=(message,)) for message in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert checker.violations >= 1
