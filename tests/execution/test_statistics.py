"""Statistics tell the truth, and each option is effective at each level where it can be set."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError
from rxwow.execution import MAX_SPIN, DispatchStatistics, ExecutorStatistics, available_cpus
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.execution.handlers import Gate


def only(statistics: ExecutorStatistics) -> DispatchStatistics:
    (dispatch,) = statistics.dispatches
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


# F107: each option at each level.


@pytest.mark.parametrize(("level", "limit"), [("executor", 7), ("dispatch", 5), ("default", 256)])
def test_max_in_flight_is_effective(level: str, limit: int) -> None:
    # F107.
    asked: list[int] = []

    def source() -> Generator[int]:
        for number in range(1000):
            asked.append(number)
            yield number

    options: dict[str, Any] = {} if level == "default" else {"max_in_flight": 7}
    with KeyedExecutor(1, **options) as executor:
        gate = Gate()
        collector = Collector(1000)
        own: dict[str, Any] = {"max_in_flight": 5} if level == "dispatch" else {}
        dispatched(source(), gate, executor, **own).subscribe(collector)
        gate.wait_for_arrivals(1)
        window = only(executor.statistics()).window
        assert (window.limit, window.in_flight, len(asked)) == (limit, limit, limit)
        assert window.batch == max(1, limit // 16)
        collector.subscription.cancel()
        gate.let_go()


@pytest.mark.parametrize(("level", "throughput"), [("executor", 3), ("dispatch", 2), ("default", 16)])
def test_throughput_is_effective(level: str, throughput: int) -> None:
    # F107.
    handled: list[str] = []
    options: dict[str, Any] = {} if level == "default" else {"throughput": 3}
    own: dict[str, Any] = {"throughput": 2} if level == "dispatch" else {}
    go = threading.Event()

    def handle(message: str) -> None:
        assert go.wait(PATIENCE)
        handled.append(message)

    with KeyedExecutor(1, **options) as executor:
        collector = Collector(1000)
        dispatched(["hot"] * 40 + ["cold"], handle, executor, **own).subscribe(collector)
        go.set()
        assert collector.ended.wait(PATIENCE)
    assert handled.index("cold") == throughput


def test_the_names_are_effective() -> None:
    # F107.
    with KeyedExecutor(1, name="till") as executor:
        gate = Gate()
        for name, expected in [("orders", "orders"), (None, "Gate")]:
            collector = Collector(1)
            dispatched([1], gate, executor, name=name).subscribe(collector)
            assert only(executor.statistics()).name == expected
            gate.wait_for_arrivals(1)
            gate.let_go()
            assert collector.ended.wait(PATIENCE)
        assert set(gate.threads.values()) == {"till-0"}


def test_workers_and_loop_factory_are_effective(monkeypatch: pytest.MonkeyPatch) -> None:
    # F107.
    made: list[asyncio.AbstractEventLoop] = []

    def make() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    seen: list[asyncio.AbstractEventLoop] = []

    async def handle(message: int) -> None:
        seen.append(asyncio.get_running_loop())

    with KeyedExecutor(1, loop_factory=make) as executor:
        results_of(dispatched(range(5), handle, executor))
    assert made == [seen[0]]
    assert set(seen) == set(made)
    assert len(KeyedExecutor(5).statistics().workers) == 5
    assert len(KeyedExecutor().statistics().workers) == available_cpus()
    monkeypatch.setenv("PYTHON_CPU_COUNT", "1")
    assert len(KeyedExecutor().statistics().workers) == 1


def test_spin_is_effective() -> None:
    # F107.
    class Counting(type(KeyedExecutor(1).platform)):  # type: ignore[misc]
        pauses = 0

        def pause(self) -> None:
            Counting.pauses += 1

    for spin, spins in [(0.0, False), (MAX_SPIN, True)]:
        with KeyedExecutor(1, spin=spin) as executor:
            (worker,) = executor._workers
            worker.platform = Counting()
            # It spins when its last wait was short.
            worker._parked_since = worker.platform.monotonic() + 3600
            Counting.pauses = 0
            results_of(dispatched([1], str, executor))
        assert bool(Counting.pauses) is spins


def test_on_discard_and_run_in_are_effective() -> None:
    # F107.
    discarded: list[int] = []
    go = [threading.Event(), threading.Event()]

    def handle(message: int) -> str:
        assert go[message > 0].wait(PATIENCE)
        return threading.current_thread().name

    with ThreadPoolExecutor(1, thread_name_prefix="own") as pool, KeyedExecutor(1) as executor:
        collector = Collector(1)
        operator = keyed_dispatch(lambda _: 0, handle, executor=executor, run_in=pool, on_discard=discarded.append)
        Flowable.from_iterable(range(5)).pipe(operator).subscribe(collector)
        go[0].set()
        while not collector.taken:
            assert not collector.ended.wait(0.001)
        collector.subscription.cancel()
        go[1].set()
    assert collector.taken == ["own_0"]
    # Message 1 runs in the pool by now, or is taken back from there.
    assert sorted(discarded) in ([2, 3, 4], [1, 2, 3, 4])


def test_without_an_executor_the_shared_one_is_used() -> None:
    # F107.
    gate = Gate()
    collector = Collector(1)
    Flowable.from_iterable([1]).pipe(keyed_dispatch(hash, gate, name="on the shared one")).subscribe(collector)
    names = [dispatch.name for dispatch in KeyedExecutor.shared().statistics().dispatches]
    gate.let_go()
    assert collector.ended.wait(PATIENCE)
    assert "on the shared one" in names


def test_an_option_that_cant_work_is_refused() -> None:
    # F73 and F107: zeros mean zero, or are refused; nothing is silently replaced by a default.
    infinite = float("inf")
    counts = (0, -1, 1.5, True, "1", infinite)
    bad: dict[str, tuple[Any, ...]] = {
        "max_in_flight": counts,
        "throughput": counts,
        "name": ("", 7),
        "executor": (ThreadPoolExecutor, 0, False),
        "on_discard": (0, "no"),
        "on_failure": (None, 0),
        "run_in": (0, "threads"),
    }
    for option, values in bad.items():
        for value in values:
            arguments: dict[str, Any] = {option: value}
            with pytest.raises(InvalidArgumentError, match=f"^{option} must be"):
                keyed_dispatch(hash, str, **arguments)
    bad = {
        "workers": counts,
        "max_in_flight": (None, *counts),
        "throughput": (None, *counts),
        "spin": (-0.1, MAX_SPIN * 1.01, float("nan"), "0", None),
        "name": ("", None, 7),
        "loop_factory": (0, "uvloop"),
    }
    for option, values in bad.items():
        for value in values:
            arguments = {option: value}
            with pytest.raises(InvalidArgumentError, match=f"^{option} must be"):
                KeyedExecutor(**arguments)
    for positional in [(0, str), (hash, 0), (None, str), (hash, None)]:
        call: Any = keyed_dispatch
        with pytest.raises(InvalidArgumentError, match=r"^(key|handler) must be"):
            call(*positional)


def test_an_unknown_option_is_refused() -> None:
    # F107.
    call: Any = keyed_dispatch
    with pytest.raises(TypeError, match="max_inflight"):
        call(hash, str, max_inflight=3)
