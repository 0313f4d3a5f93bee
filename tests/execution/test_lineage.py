"""A drain lets finish what was accepted, also where one dispatch feeds another or was started by a handler."""

from __future__ import annotations

import itertools
from random import Random

import pytest
import reactivex
from reactivex import operators

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.streams.probe import Probe


def same(number: int) -> int:
    return number


@pytest.mark.parametrize("stages", [2, 4])
def test_chained_dispatches_finish_what_the_first_has_accepted(stages: int) -> None:
    gate = Gate()
    discarded: list[int] = []
    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=2) as executor:
        flowable = Flowable.from_iterable(range(10))
        for stage in range(stages):
            handler = gate if stage == 0 else same
            flowable = flowable.pipe(keyed_dispatch(same, handler, executor=executor, on_discard=discarded.append))
        flowable.subscribe(probe)
        gate.wait_for_arrivals(1)
        gate.let_go()
        # Leaving the block drains.
    assert sorted(probe.items) == list(range(10))
    assert probe.completions == 1
    assert discarded == []


@pytest.mark.seeds(150, soak=5000)
def test_chained_dispatches_over_an_endless_source_lose_nothing_under_any_schedule(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        received: list[int] = []
        discarded: list[int] = []

        def key(number: int) -> int:
            received.append(number)
            return number % 3

        executor = KeyedExecutor(2, max_in_flight=random.choice([1, 3, 20]))
        probe = Probe(demand=UNBOUNDED)
        first = keyed_dispatch(key, same, executor=executor, on_discard=discarded.append)
        second = keyed_dispatch(same, same, executor=executor, on_discard=discarded.append)
        Flowable.from_iterable(lambda: iter(range(500))).pipe(first, second).subscribe(probe)
        for _ in range(random.randrange(60)):
            platform.point("waits")
        assert executor.drain(timeout=3600)
        assert probe.completions == 1
        assert sorted([*probe.items, *discarded]) == received

    run(scenario, seed)


@pytest.mark.seeds(100, soak=3000)
def test_a_dispatch_that_a_handler_started_finishes_with_its_message(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        executor = KeyedExecutor(2, max_in_flight=random.choice([2, 6]))
        received: list[int] = []

        def key(number: int) -> int:
            received.append(number)
            return number

        def handler(number: int) -> Flowable[int]:
            inner = keyed_dispatch(lambda item: item % 2, same, executor=executor)
            return Flowable.from_iterable(range(number * 5, number * 5 + 5)).pipe(inner)

        probe = Probe(demand=UNBOUNDED)
        discarded: list[int] = []
        outer = keyed_dispatch(key, handler, executor=executor, on_discard=discarded.append)
        Flowable.from_iterable(range(8)).pipe(outer).subscribe(probe)
        for _ in range(random.randrange(40)):
            platform.point("waits")
        assert executor.drain(timeout=3600)
        assert probe.errors == []
        whole = sorted(set(received) - set(discarded))
        assert sorted(probe.items) == [number * 5 + item for number in whole for item in range(5)]

    run(scenario, seed)


@pytest.mark.parametrize("related", [False, True])
def test_a_thousand_dispatches_drain_on_a_flat_stack(related: bool) -> None:
    executor = KeyedExecutor(workers=1)
    probes = [Probe(demand=UNBOUNDED) for _ in range(1000)]
    for probe in probes:
        flowable = Flowable.never().pipe(keyed_dispatch(same, same, executor=executor))
        if related:
            flowable = flowable.pipe(keyed_dispatch(same, same, executor=executor))
        flowable.subscribe(probe)
    assert executor.drain(timeout=50)
    assert [probe.completions for probe in probes] == [1] * 1000


@pytest.mark.parametrize("how", ["merge", "repeat", "concat"])
def test_a_source_that_would_never_end_ends_when_what_feeds_the_dispatch_has(how: str) -> None:
    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=2) as executor:
        dispatch = keyed_dispatch(same, same, executor=executor)
        fed: reactivex.Observable[int] = Flowable.from_iterable(range(5)).pipe(dispatch)
        if how == "merge":
            fed = reactivex.merge(fed, reactivex.never())
        elif how == "repeat":
            fed = fed.pipe(operators.repeat())
        else:
            fed = reactivex.concat_with_iterable(
                Flowable.from_iterable([number]).pipe(dispatch) for number in itertools.count()
            )
        fed.pipe(keyed_dispatch(same, same, executor=executor)).subscribe(probe)
        probe.wait_for_items(5)
    assert probe.errors == []
    assert probe.completions == 1


@pytest.mark.seeds(100, soak=3000)
def test_a_drain_that_comes_as_the_source_subscribes_again_is_no_error(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        executor = KeyedExecutor(2)
        dispatch = keyed_dispatch(same, same, executor=executor)
        fed = Flowable.from_iterable(range(random.randrange(1, 4))).pipe(dispatch).pipe(operators.repeat())
        probe = Probe(demand=UNBOUNDED)
        fed.pipe(keyed_dispatch(same, same, executor=executor)).subscribe(probe)
        for _ in range(random.randrange(200)):
            platform.point("waits")
        assert executor.drain(timeout=3600)
        assert probe.errors == []
        assert probe.completions == 1

    run(scenario, seed)
