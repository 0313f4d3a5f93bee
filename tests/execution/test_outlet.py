"""Results that wait to be taken: in order, within the demand, and in the window until `on_next` has returned."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution import WindowStatistics
from rxwow.streams.protocols import UNBOUNDED
from tests.execution.handlers import Gate
from tests.streams.probe import Probe


def same(number: int) -> int:
    return number


@pytest.mark.parametrize("window", [1, 2, 40])
def test_a_message_is_in_flight_until_on_next_has_returned(window: int) -> None:
    in_flight: list[int] = []

    def look(_: int) -> None:
        (dispatch,) = executor.statistics().dispatches
        in_flight.append(dispatch.window.in_flight)

    with KeyedExecutor(workers=2, max_in_flight=window) as executor:
        probe = Probe(demand=UNBOUNDED, on_item=look)
        Flowable.from_iterable(range(300)).pipe(keyed_dispatch(same, same, executor=executor)).subscribe(probe)
        probe.wait_for_end()
    assert len(in_flight) == 300
    assert 1 <= min(in_flight) <= max(in_flight) <= window


@settings(max_examples=30)
@given(demand=st.lists(st.integers(1, 20), min_size=1, max_size=20), workers=st.integers(1, 3))
def test_a_batch_of_results_is_taken_in_parts_and_stays_in_order(demand: list[int], workers: int) -> None:
    gate = Gate()
    count = sum(demand)

    def handler(number: int) -> int:
        if number < 0:
            gate(number)
        return number

    with KeyedExecutor(workers, max_in_flight=count + workers) as executor:
        probe = Probe()
        numbers = [*range(-workers, 0), *range(count)]
        dispatch = keyed_dispatch(lambda number: min(number, 0), handler, executor=executor)
        Flowable.from_iterable(numbers).pipe(dispatch).subscribe(probe)
        probe.request(workers)
        gate.wait_for_arrivals(workers)
        gate.let_go()
        probe.wait_for_items(workers)
        for n in demand:
            before = len(probe.items)
            probe.request(n)
            probe.wait_for_items(before + n)
            # Nor did more come than was asked for; `check` says so.
        probe.wait_for_end()
    probe.check()
    assert [number for number in probe.items if number >= 0] == list(range(count))


@pytest.mark.parametrize("window", [1, 50])
def test_an_exit_out_of_on_next_leaves_nothing_in_flight(window: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    async def main() -> WindowStatistics:
        # The worker is the main thread, where an exit is the program's and no failure of the subscriber.
        async with KeyedExecutor.on_running_loop(max_in_flight=window) as executor:
            probe = Probe(demand=UNBOUNDED, on_item=interrupt)
            Flowable.from_iterable(range(50)).pipe(keyed_dispatch(same, same, executor=executor)).subscribe(probe)
            (dispatch,) = executor._dispatches
        return dispatch.statistics().window

    books = asyncio.run(main())
    assert books.in_flight == 0
    assert books.admitted == books.succeeded + books.discarded
    assert books.succeeded >= 1
