"""Turns: at most `throughput` messages of one key, then the others of the worker; any number on a flat stack."""

from __future__ import annotations

import sys
from itertools import groupby
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxwow import Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.streams.probe import Probe


def first(message: tuple[Any, int]) -> Any:
    return message[0]


def same(number: int) -> int:
    return number


def handled_after_gate(messages: list[tuple[Any, int]], throughput: int, window: int) -> list[Any]:
    """Return the order in which one worker handles messages that are all in their mailboxes before it begins."""
    gate = Gate()
    handled: list[Any] = []

    def handler(message: tuple[Any, int]) -> None:
        if message[0] == "gate":
            gate("gate")
        else:
            handled.append(message)

    with KeyedExecutor(workers=1, max_in_flight=window, throughput=throughput) as executor:
        probe = Probe(demand=UNBOUNDED)
        source = Flowable.from_iterable([("gate", 0), *messages])
        source.pipe(keyed_dispatch(first, handler, executor=executor)).subscribe(probe)
        gate.wait_for_arrivals(1)
        # Subscribing has put all of the first window into mailboxes, behind the one that holds the only worker.
        gate.let_go()
        probe.wait_for_end()
    return handled


@pytest.mark.parametrize("throughput", [1, 2, 16, 100])
def test_a_hot_key_goes_behind_the_others_after_throughput_messages(throughput: int) -> None:
    # F28: 500 of a hot key before one of another; both are in the window.
    messages = [*(("hot", number) for number in range(500)), ("cold", 500)]
    handled = handled_after_gate(messages, throughput, window=1000)
    assert handled.index(("cold", 500)) == throughput
    assert [message for message in handled if message[0] == "hot"] == messages[:500]


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    throughput=st.integers(1, 20),
)
def test_the_keys_of_a_worker_take_turns(sizes: list[int], throughput: int) -> None:
    messages = [(key, number) for key, size in enumerate(sizes) for number in range(size)]
    handled = handled_after_gate(messages, throughput, window=len(messages) + 1)
    expected: list[Any] = []
    left = {key: [message for message in messages if message[0] == key] for key in range(len(sizes))}
    while left:
        for key, queued in list(left.items()):
            expected += queued[:throughput]
            del queued[:throughput]
            if not queued:
                del left[key]
    assert handled == expected


@given(throughput=st.integers(1, 5))
@settings(max_examples=10)
def test_a_turn_never_goes_on_beyond_throughput_while_others_wait(throughput: int) -> None:
    messages = [(number % 2, number) for number in range(60)]
    handled = handled_after_gate(messages, throughput, window=61)
    runs = [len(list(run_)) for _, run_ in groupby(handled, key=first)]
    assert max(runs[:-1]) <= throughput


def depth() -> int:
    frame: FrameType | None = sys._getframe()
    count = 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_a_million_messages_leave_the_stack_flat() -> None:
    # F94: request, emission and turns call each other a million times, and never deeper.
    deepest = 0

    def handler(number: int) -> None:
        nonlocal deepest
        if number % 10_000 == 0:
            deepest = max(deepest, depth())

    with KeyedExecutor(workers=1) as executor:
        dispatch = keyed_dispatch(lambda number: number % 3, handler, executor=executor)
        Flowable.from_iterable(range(1_000_000)).pipe(dispatch).run()
    assert 0 < deepest < 40


def test_asking_for_one_more_in_each_on_next_leaves_the_stack_flat() -> None:
    # F93
    deepest = 0

    def take(number: int) -> None:
        nonlocal deepest
        if number % 100 == 0:
            deepest = max(deepest, depth())
        probe.request(1)

    with KeyedExecutor(workers=1) as executor:
        probe = Probe(demand=1, on_item=take)
        dispatch = keyed_dispatch(lambda number: number % 3, same, executor=executor)
        Flowable.from_iterable(range(50_000)).pipe(dispatch).subscribe(probe)
        probe.wait_for_end()
    assert len(probe.items) == 50_000
    assert 0 < deepest < 40


def test_a_key_that_waits_for_a_retry_holds_up_no_other_of_its_worker() -> None:
    # F80: the blast radius of a failure is its key.
    def scenario(platform: ControlledPlatform) -> None:
        failed = False
        ends: dict[Any, float] = {}

        def handler(message: tuple[str, int]) -> None:
            nonlocal failed
            if message == ("a", 0) and not failed:
                failed = True
                raise ValueError("at first")
            ends[message] = platform.monotonic()

        with KeyedExecutor(workers=1) as executor:
            messages = [("a", 0), ("a", 1), *(("b", number) for number in range(100))]
            dispatch = keyed_dispatch(first, handler, executor=executor, on_failure=lambda *_: Retry(10.0))
            Flowable.from_iterable(messages).pipe(dispatch).run()
        assert max(end for (key, _), end in ends.items() if key == "b") < 10.0
        assert 10.0 <= ends["a", 0] <= ends["a", 1]

    run(scenario, seed=5)


def test_a_slow_handler_s_result_is_emitted_before_the_next_of_its_turn_runs() -> None:
    gate = Gate()
    with KeyedExecutor(workers=1) as executor:
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(range(5)).pipe(keyed_dispatch(lambda _: "one", gate, executor=executor)).subscribe(probe)
        for number in range(5):
            gate.wait_for_arrivals(number + 1)
            gate.let_go(number)
            if number == 0:
                # Nothing is known of the handler yet, so it is taken for slow.
                probe.wait_for_items(1)
        probe.wait_for_end()
