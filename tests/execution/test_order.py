"""Messages of one key go one at a time in the order received; those of different keys side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex.subject import Subject

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import KINDS, Gate, OrderWatch
from tests.streams.probe import Probe


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def key_of(message: tuple[Any, int]) -> Any:
    return message[0]


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS], ids="+".join)
@settings(max_examples=25)
@given(
    keys=st.lists(st.integers(0, 5), max_size=120),
    workers=st.integers(1, 4),
    window=st.integers(1, 40),
    throughput=st.integers(1, 5),
)
def test_one_key_goes_one_at_a_time_in_the_order_received(
    pool: ThreadPoolExecutor, kinds: tuple[str, ...], keys: list[int], workers: int, window: int, throughput: int
) -> None:
    watch = OrderWatch(kinds, pool)
    messages = [(key, number) for number, key in enumerate(keys)]
    with KeyedExecutor(workers, max_in_flight=window, throughput=throughput) as executor:
        results = _results(messages, watch, executor)
    assert watch.breaches == []
    assert sorted(results) == sorted(messages)
    for key in set(keys):
        # The results of a key come in its order too.
        assert [result for result in results if result[0] == key] == [item for item in messages if item[0] == key]


def _results(messages: list[tuple[int, int]], handler: Any, executor: KeyedExecutor) -> list[Any]:
    probe = Probe(demand=len(messages) + 1)
    Flowable.from_iterable(messages).pipe(keyed_dispatch(key_of, handler, executor=executor)).subscribe(probe)
    probe.wait_for_end()
    assert probe.errors == []
    probe.check()
    return probe.items


@pytest.mark.seeds(100, soak=3000)
def test_the_order_holds_under_every_schedule(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        watch = OrderWatch(("plain", "async"))
        messages = [(random.randrange(3), number) for number in range(30)]
        with KeyedExecutor(3, max_in_flight=random.choice([1, 2, 7, 40]), throughput=2) as executor:
            dispatch = keyed_dispatch(key_of, watch, executor=executor)
            Flowable.from_iterable(messages).pipe(dispatch).run()
        assert watch.breaches == []
        assert sum(map(len, watch.handled.values())) == 30

    run(scenario, seed)


def test_different_keys_run_side_by_side() -> None:
    gate = Gate()
    with KeyedExecutor(workers=3) as executor:
        probe = Probe(demand=10)
        Flowable.from_iterable("abc").pipe(keyed_dispatch(str, gate, executor=executor)).subscribe(probe)
        # All three are in their handlers at once, each on a thread of its own.
        gate.wait_for_arrivals(3)
        assert len(set(gate.threads.values())) == 3
        gate.let_go()
        probe.wait_for_end()


def test_a_message_of_the_same_key_does_not_start_beside_it() -> None:
    gate = Gate()
    with KeyedExecutor(workers=3) as executor:
        probe = Probe(demand=10)
        Flowable.from_iterable(["a1", "a2", "b1"]).pipe(
            keyed_dispatch(lambda message: message[0], gate, executor=executor)
        ).subscribe(probe)
        gate.wait_for_arrivals(2)
        assert sorted(gate.arrived) == ["a1", "b1"]
        gate.let_go("b1")
        probe.wait_for_items(1)
        assert "a2" not in gate.arrived
        gate.let_go()
        probe.wait_for_end()
    assert probe.items == ["b1", "a1", "a2"]


def test_waiting_messages_come_before_what_the_source_sends_next() -> None:
    # F15: m2 waits behind m1 of its key when m1's end asks the source for m3, which comes at once.
    started: list[str] = []
    with KeyedExecutor(workers=1, max_in_flight=2, throughput=1) as executor:
        source = Flowable.from_iterable(["a1", "a2", "a3", "b1", "a4"])
        source.pipe(keyed_dispatch(lambda message: message[0], started.append, executor=executor)).run()
    assert [message for message in started if message[0] == "a"] == ["a1", "a2", "a3", "a4"]


def test_handlers_that_send_and_ask_for_more_lose_none() -> None:
    # F16: each message is sent, and asked for, from inside the turn or the emission of the one before it.
    subject: Subject[tuple[int, int]] = Subject()
    watch = OrderWatch()

    def handler(message: tuple[int, int]) -> Any:
        key, generation = message
        if key < 0:
            for other in range(50):
                subject.on_next((other, 0))
        elif generation < 20:
            subject.on_next((key, generation + 1))
        return watch(message)

    def take(_: Any) -> None:
        probe.request(1)
        if len(probe.items) == 1 + 50 * 21:
            subject.on_completed()

    with KeyedExecutor(workers=1, throughput=2) as executor:
        probe = Probe(demand=1, on_item=take)
        source = Flowable.from_observable(subject, on_overflow="buffer", capacity=2000)
        source.pipe(keyed_dispatch(key_of, handler, executor=executor)).subscribe(probe)
        subject.on_next((-1, 0))
        probe.wait_for_end()
    probe.check()
    assert probe.errors == []
    assert watch.breaches == []
    assert watch.handled == {-1: [0], **{key: list(range(21)) for key in range(50)}}


def test_two_sources_with_equal_keys_do_not_mix() -> None:
    # F20: order is kept within one dispatch; two of them on one executor have nothing in common but its workers.
    first, second = OrderWatch(), OrderWatch()
    messages = [(number % 3, number) for number in range(200)]
    with KeyedExecutor(workers=2) as executor:
        probes = [Probe(demand=1000), Probe(demand=1000)]
        for watch, probe in zip((first, second), probes, strict=True):
            Flowable.from_iterable(messages).pipe(keyed_dispatch(key_of, watch, executor=executor)).subscribe(probe)
        for probe in probes:
            probe.wait_for_end()
            assert sorted(probe.items) == sorted(messages)
    assert first.breaches == second.breaches == []


@pytest.mark.parametrize("keys", [[None, None, None], [b"", "", 0, None, ()], [1, 1.0, True, 1]], ids=repr)
def test_any_hashable_is_a_key_and_equal_keys_are_one(keys: list[Any]) -> None:
    # F21: no key is a key like any other; F73: nor is an empty one missing.
    watch = OrderWatch()
    numbered = list(zip(keys, itertools.count(), strict=False))
    with KeyedExecutor(workers=2) as executor:
        assert sorted(_results(numbered, watch, executor), key=lambda item: item[1]) == numbered
    assert watch.breaches == []
    assert len(watch.handled) == len(set(keys))


def test_results_that_were_ready_without_demand_come_when_it_returns() -> None:
    # F39
    with KeyedExecutor(workers=2) as executor:
        probe = Probe(demand=1)
        Flowable.from_iterable(range(9)).pipe(keyed_dispatch(lambda n: n, lambda n: n, executor=executor)).subscribe(
            probe
        )
        probe.wait_for_items(1)
        assert not probe.ended
        probe.request(100)
        probe.wait_for_end()
    assert sorted(probe.items) == list(range(9))
