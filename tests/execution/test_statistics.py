"""Statistics tell the truth."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution import DispatchStatistics, ExecutorStatistics
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.execution.handlers import Gate


def only(statistics: ExecutorStatistics, name: str | None = None) -> DispatchStatistics:
    (dispatch,) = (dispatch for dispatch in statistics.dispatches if name is None or dispatch.name == name)
    return dispatch


# What an executor and its workers say.


def test_an_executor_says_what_it_is_and_in_what_state() -> None:
    executor = KeyedExecutor(3, name="till")
    fresh = executor.statistics()
    assert (fresh.name, fresh.state, fresh.dispatches, fresh.in_flight) == ("till", "open", (), 0)
    assert [worker.name for worker in fresh.workers] == ["till-0", "till-1", "till-2"]
    for worker in fresh.workers:
        assert (worker.started, worker.parked) == (False, True)
        assert (worker.queued, worker.turns, worker.messages, worker.wakes) == (0, 0, 0, 0)
    gate = Gate()
    dispatched([1], gate, executor).subscribe(Collector(1))
    gate.wait_for_arrivals(1)
    draining = threading.Thread(target=executor.drain)
    draining.start()
    while executor.statistics().state == "open":
        assert draining.is_alive()
    assert executor.statistics().state == "draining"
    gate.let_go()
    draining.join(PATIENCE)
    assert executor.statistics().state == "closed"


def test_a_worker_says_what_it_does() -> None:
    with KeyedExecutor(1) as executor:
        gate = Gate()
        collector = Collector(100)
        operator = keyed_dispatch(lambda message: message % 3, gate, executor=executor, throughput=2)
        Flowable.from_iterable(range(9)).pipe(operator).subscribe(collector)
        gate.wait_for_arrivals(1)
        (worker,) = executor.statistics().workers
        assert (worker.started, worker.parked, worker.queued) == (True, False, 2)
        gate.let_go()
        assert collector.ended.wait(PATIENCE)
        (worker,) = executor.statistics().workers
        # Three keys of three messages, at most two of them in a turn.
        assert (worker.messages, worker.turns) == (9, 6)
        assert worker.wakes == 1
        assert worker.queued == 0


def test_statistics_are_frozen() -> None:
    statistics: Any = KeyedExecutor(1).statistics()
    with pytest.raises(FrozenInstanceError):
        statistics.name = "another"


# What a dispatch says.


def test_a_dispatch_says_where_its_messages_are() -> None:
    with KeyedExecutor(1, max_in_flight=32) as executor:
        gate = Gate()
        futures: dict[int, Future[int]] = {}

        def handle(message: int) -> Any:
            if message < 4:
                return futures.setdefault(message, Future())
            return message if message < 8 else gate(message)

        # Keys 0 to 3 wait, each with another message behind; 4 to 7 are done and not taken; 8 runs.
        collector = Collector(0)
        operator = keyed_dispatch(lambda message: message % 10, handle, executor=executor, name="orders")
        source = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]
        Flowable.from_iterable([*source, *[8] * 3]).pipe(operator).subscribe(collector)
        collector.subscription.request(1)
        gate.wait_for_arrivals(1)
        statistics = only(executor.statistics())
        assert statistics.name == "orders"
        # Results are settled in batches: of one that runs some may be done already.
        assert (statistics.waiting, statistics.untaken + statistics.running) == (4, 4)
        assert statistics.running >= 1
        assert statistics.mailboxed == 7
        assert 5 <= statistics.mailboxes <= 4 + statistics.running
        assert statistics.peak_mailboxes >= 5
        assert dict(statistics.deepest) == {8: 3, 0: 1, 1: 1, 2: 1, 3: 1}
        window = statistics.window
        assert (window.admitted, window.succeeded, window.in_flight) == (16, 1, 15)
        assert (window.limit, window.batch) == (32, 2)
        assert executor.statistics().in_flight == 15
        assert not statistics.closed
        collector.subscription.cancel()
        gate.let_go()
    assert executor.statistics().in_flight == 0


def test_what_is_done_and_not_taken_is_told() -> None:
    with KeyedExecutor(1) as executor:
        collector = Collector(1)
        dispatched(range(5), str, executor, name="looked at").subscribe(collector)
        # On one worker this comes behind it; it has completed, and may not be forgotten yet.
        results_of(dispatched([1], str, executor))
        statistics = only(executor.statistics(), "looked at")
        assert (statistics.untaken, statistics.running, statistics.window.in_flight) == (4, 0, 4)
        assert (statistics.window.succeeded, statistics.mailboxes) == (1, 0)
        collector.subscription.request(2)
        assert only(executor.statistics(), "looked at").untaken == 2
        collector.subscription.request(2)
        assert collector.ended.wait(PATIENCE)


def test_a_hot_key_shows() -> None:
    # F106. Times from arrival to start and to the end are not told here.
    with KeyedExecutor(1, max_in_flight=200) as executor:
        gate = Gate()
        messages = [*range(30), *["hot"] * 100, *["warm"] * 20]
        collector = Collector(1000)
        dispatched(messages, gate, executor).subscribe(collector)
        gate.wait_for_arrivals(1)
        deepest = only(executor.statistics()).deepest
        assert deepest[:2] == (("hot", 100), ("warm", 20))
        assert len(deepest) == 10
        assert {size for _, size in deepest[2:]} == {1}
        gate.let_go()
        assert collector.ended.wait(PATIENCE)


def test_outcomes_are_counted_each_as_what_it_is() -> None:
    with KeyedExecutor(1) as executor:
        gate = Gate()
        windows: list[Any] = []

        def handle(message: int) -> Any:
            if message == 8:
                gate(message)
            if message % 2:
                raise ValueError(message)
            return message

        collector = Collector(100)
        dispatched(range(9), handle, executor, on_failure=SKIP).subscribe(collector)
        gate.wait_for_arrivals(1)
        windows.append(only(executor.statistics()).window)
        assert (windows[0].admitted, windows[0].succeeded, windows[0].skipped) == (9, 4, 4)
        assert (windows[0].failed, windows[0].discarded, windows[0].in_flight) == (0, 0, 1)
        assert windows[0].peak_in_flight <= 9
        (dispatch,) = executor._dispatches
        collector.subscription.cancel()
        gate.let_go()
        assert results_of(dispatched([1], str, executor)) == ["1"]
        window = dispatch.statistics().window
        # What was finished after the end has succeeded, and its result was dropped.
        assert (window.succeeded, window.discarded, window.in_flight) == (5, 0, 0)
        assert dispatch.statistics().closed


def test_a_turns_expected_time_follows_the_handlers() -> None:
    with KeyedExecutor(1) as executor:
        gate = Gate()
        collector = Collector(1000)
        dispatched(range(100), lambda message: gate(message) if message == 99 else message, executor).subscribe(
            collector
        )
        gate.wait_for_arrivals(1)
        expected = only(executor.statistics()).expected_turn
        assert expected is not None
        assert expected > 0
        gate.let_go()
        assert collector.ended.wait(PATIENCE)
