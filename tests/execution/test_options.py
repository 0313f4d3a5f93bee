"""Each option is effective at each level where it can be set, and one that can't work is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError
from rxwow.execution import MAX_SPIN, DispatchStatistics, ExecutorStatistics, available_cpus
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.execution.handlers import Gate


def only(statistics: ExecutorStatistics) -> DispatchStatistics:
    (dispatch,) = statistics.dispatches
    return dispatch


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
        for name, expected in [("orders", "orders"), (None, "Gate")]:
            gate = Gate()
            collector = Collector(1)
            dispatched([1], gate, executor, name=name).subscribe(collector)
            assert only(executor.statistics()).name == expected
            gate.wait_for_arrivals(1)
            gate.let_go()
            assert collector.ended.wait(PATIENCE)
            assert gate.threads == {1: "till-0"}


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
