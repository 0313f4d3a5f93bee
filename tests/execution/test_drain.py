"""Drain: nothing new is accepted, what was accepted finishes, then the workers stop."""

from __future__ import annotations

import asyncio
import itertools
import threading
from random import Random

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.execution.pushed import PushedSource
from tests.streams.probe import PATIENCE_S, Probe


def test_what_was_accepted_finishes_and_the_source_is_asked_for_no_more() -> None:
    # F54: intake closes first; 10 run or wait, the others are queued, and the source would go on for ever.
    gate = Gate()
    pulled: list[int] = []

    def numbers() -> itertools.count[int]:
        return itertools.count()

    def key(number: int) -> int:
        pulled.append(number)
        return number % 10

    executor = KeyedExecutor(workers=1, max_in_flight=60)
    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(numbers).pipe(keyed_dispatch(key, gate, executor=executor)).subscribe(probe)
    gate.wait_for_arrivals(1)
    accepted = list(pulled)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(executor.drain()))
    draining.start()
    while executor.statistics().state == "open":
        pass
    gate.let_go()
    draining.join(PATIENCE_S)
    assert drained == [True]
    assert sorted(probe.items) == accepted == pulled
    assert probe.completions == 1
    assert executor.wait_closed(timeout=0)


def test_what_comes_while_it_drains_is_too_late(caplog: pytest.LogCaptureFixture) -> None:
    # F54, F58: the source goes on sending, fails, and a second dispatch subscribes, while accepted messages finish.
    gate = Gate()
    source = PushedSource()
    discarded: list[int] = []
    executor = KeyedExecutor(workers=1, max_in_flight=2)
    probe, late = Probe(demand=UNBOUNDED), Probe(demand=UNBOUNDED)
    source.flowable.pipe(keyed_dispatch(lambda _: "k", gate, executor=executor, on_discard=discarded.append)).subscribe(
        probe
    )
    source.push(1, 2)
    gate.wait_for_arrivals(1)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(executor.drain()))
    draining.start()
    assert source.cancelled.wait(PATIENCE_S)
    source.push(3)
    assert discarded == [3]
    source.subscriber.on_error(ConnectionError("gone with the cancel"))
    Flowable.from_iterable([4]).pipe(keyed_dispatch(lambda _: "k", gate, executor=executor)).subscribe(late)
    assert isinstance(late.errors[0], ExecutorClosedError)
    gate.let_go(1)
    gate.wait_for_arrivals(2)
    gate.let_go()
    draining.join(PATIENCE_S)
    assert drained == [True]
    assert (probe.items, probe.completions, probe.errors) == ([1, 2], 1, [])
    assert source.requests_after_cancel == []
    assert ["gone with the cancel" in str(record.exc_info) for record in caplog.records] == [True]


def test_a_drain_that_times_out_disposes_what_is_left() -> None:
    gate = Gate()
    discarded: list[int] = []
    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(5)).pipe(
        keyed_dispatch(lambda _: "k", gate, executor=executor, on_discard=discarded.append)
    ).subscribe(probe)
    gate.wait_for_arrivals(1)
    assert executor.drain(timeout=0.01) is False
    assert discarded == [1, 2, 3, 4]
    assert isinstance(probe.errors[0], ExecutorClosedError)
    assert probe.completions == 0
    gate.let_go()
    assert executor.wait_closed(timeout=PATIENCE_S)


def test_a_drain_waits_for_coroutines() -> None:
    def scenario(platform: ControlledPlatform) -> float:
        async def handler(number: int) -> int:
            await asyncio.sleep(60)
            return number

        executor = KeyedExecutor(workers=2)
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(range(20)).pipe(
            keyed_dispatch(lambda number: number % 10, handler, executor=executor)
        ).subscribe(probe)
        assert executor.drain(timeout=3600)
        assert sorted(probe.items) == list(range(20))
        assert probe.completions == 1
        return platform.monotonic()

    assert run(scenario, seed=4) == 120


def test_results_that_nobody_takes_hold_up_a_drain_until_its_timeout() -> None:
    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=1)
    Flowable.from_iterable(range(3)).pipe(
        keyed_dispatch(lambda number: number, lambda number: number, executor=executor)
    ).subscribe(probe)
    probe.wait_for_items(1)
    assert executor.drain(timeout=0.05) is False
    assert isinstance(probe.errors[0], ExecutorClosedError)


@pytest.mark.parametrize("twice", ["drain", "dispose"])
def test_an_end_after_the_end_is_no_more(twice: str) -> None:
    executor = KeyedExecutor(workers=1)
    assert Flowable.from_iterable([1]).pipe(keyed_dispatch(lambda _: 0, lambda n: n, executor=executor)).run() == 1
    assert executor.drain()
    assert getattr(executor, twice)() in (True, None)
    assert executor.drain()
    assert executor.wait_closed(timeout=0)


def test_an_unused_executor_drains_at_once() -> None:
    assert KeyedExecutor(workers=2).drain(timeout=0)


def test_drain_async_lets_the_loop_go_on() -> None:
    async def main() -> None:
        async def handler(number: int) -> int:
            await asyncio.sleep(0.001)
            return number

        executor = KeyedExecutor.on_running_loop()
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(range(10)).pipe(
            keyed_dispatch(lambda number: number % 2, handler, executor=executor)
        ).subscribe(probe)
        # Its handlers run on this very loop.
        assert await executor.drain_async(timeout=PATIENCE_S)
        assert sorted(probe.items) == list(range(10))

    asyncio.run(main())


@pytest.mark.seeds(150, soak=5000)
def test_a_drain_finishes_what_was_accepted_under_every_schedule(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        pulled: list[int] = []
        discarded: list[int] = []

        def key(number: int) -> int:
            pulled.append(number)
            return number % 3

        async def handler(number: int) -> int:
            await asyncio.sleep(number % 2 * 0.01)
            return number

        executor = KeyedExecutor(2, max_in_flight=random.choice([1, 3, 20]))
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(range(60)).pipe(
            keyed_dispatch(key, handler, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        for _ in range(random.randrange(60)):
            platform.point("waits")
        assert executor.drain(timeout=3600)
        assert probe.completions == 1
        assert sorted([*probe.items, *discarded]) == pulled

    run(scenario, seed)
