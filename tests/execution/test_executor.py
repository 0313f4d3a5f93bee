"""KeyedExecutor: its arguments, its threads and the ways to end it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError, InvalidArgumentError, UsageError
from rxwow.execution import MAX_SPIN, available_cpus
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.streams.probe import Probe


def same(number: int) -> int:
    return number


def threads_of(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1, not 0"),
        ({"workers": True}, "workers must be a whole number of at least 1, not True"),
        ({"workers": 1.5}, "workers must be a whole number"),
        ({"max_in_flight": 0}, "max_in_flight must be a whole number of at least 1, not 0"),
        ({"throughput": 0}, "throughput must be a whole number of at least 1, not 0"),
        ({"spin": -1}, "spin must be a number of seconds from 0 to 0.001, not -1"),
        ({"spin": 2 * MAX_SPIN}, "spin must be a number of seconds from 0 to 0.001"),
        ({"spin": float("nan")}, "spin must be a number of seconds"),
        ({"name": ""}, "name must be a string that is not empty"),
        ({"loop_factory": 3}, "loop_factory must be a function"),
    ],
    ids=str,
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    # F73: zero means zero or is refused; it is never taken for "not given".
    with pytest.raises(InvalidArgumentError, match=message):
        KeyedExecutor(**arguments)


def test_defaults() -> None:
    executor = KeyedExecutor()
    assert (executor.max_in_flight, executor.throughput, executor.name) == (256, 16, "rxwow")
    assert len(executor.statistics().workers) == available_cpus()


def test_making_one_starts_nothing() -> None:
    before = threading.active_count()
    executor = KeyedExecutor(workers=8, name="inert")
    Flowable.from_iterable([1]).pipe(keyed_dispatch(same, same, executor=executor))
    assert threading.active_count() == before
    assert not any(worker.started for worker in executor.statistics().workers)


def test_a_worker_starts_with_its_first_message_and_is_gone_when_closed() -> None:
    executor = KeyedExecutor(workers=8, name="first")
    assert Flowable.from_iterable([1]).pipe(keyed_dispatch(same, same, executor=executor)).run() == 1
    # The second watches for slow turns.
    assert sorted(threads_of("first")) == ["first-0", "first-watchdog"]
    executor.dispose()
    executor.dispose()
    assert executor.wait_closed(timeout=20)
    assert threads_of("first") == []


@pytest.mark.seeds(50, soak=2000)
def test_closed_means_that_the_threads_are_gone(seed: int) -> None:
    def scenario(_: ControlledPlatform) -> list[bool]:
        executor = KeyedExecutor(workers=2)
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(range(4)).pipe(keyed_dispatch(same, same, executor=executor)).subscribe(probe)
        executor.dispose()
        assert executor.wait_closed()
        workers: Any = executor._workers
        return [worker._thread.is_alive() for worker in workers]

    assert not any(run(scenario, seed))


def test_waiting_for_the_end_of_an_open_executor_times_out() -> None:
    executor = KeyedExecutor(workers=1)
    assert not executor.wait_closed(timeout=0)
    executor.dispose()
    assert executor.wait_closed(timeout=20)


def test_an_exit_without_exception_drains_and_one_with_an_exception_disposes() -> None:
    # F55
    handled: list[int] = []
    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=1) as executor:
        source = Flowable.from_iterable(range(100))
        source.pipe(keyed_dispatch(lambda number: number % 3, handled.append, executor=executor)).subscribe(probe)
    assert probe.completions == 1
    assert executor.statistics().state == "closed"
    gate = Gate()
    probe = Probe(demand=UNBOUNDED)
    executor = KeyedExecutor(workers=1)

    def leave_by_exception() -> None:
        with executor:
            Flowable.from_iterable(range(100)).pipe(keyed_dispatch(same, gate, executor=executor)).subscribe(probe)
            gate.wait_for_arrivals(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave_by_exception()
    assert isinstance(probe.errors[0], ExecutorClosedError)
    gate.let_go()
    assert executor.wait_closed(timeout=20)
    assert len(gate.arrived) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_async_with_does_the_same_without_blocking_the_loop(fails: bool) -> None:
    async def main() -> Probe:
        probe = Probe(demand=UNBOUNDED)
        gate = Gate()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                if ticks > 5:
                    gate.let_go()
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        executor = KeyedExecutor(workers=1)
        try:
            async with executor:
                Flowable.from_iterable(range(5)).pipe(keyed_dispatch(same, gate, executor=executor)).subscribe(probe)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            gate.let_go()
        # The drain waited for the gate, which only the ticking loop opens.
        ticking.cancel()
        assert await executor.wait_closed_async(timeout=20)
        return probe

    probe = asyncio.run(main())
    assert isinstance(probe.errors[0], ExecutorClosedError) if fails else probe.completions == 1


def test_a_dispatch_that_comes_too_late_ends_at_once() -> None:
    # F58
    executor = KeyedExecutor(workers=1, name="late")
    executor.dispose()
    with pytest.raises(
        ExecutorClosedError, match="executor 'late' is closed; subscribe while it is open, or use another"
    ):
        Flowable.from_iterable([1]).pipe(keyed_dispatch(same, same, executor=executor)).run()


def test_on_running_loop_runs_handlers_in_the_callers_thread_and_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        lock = asyncio.Lock()

        async def handler(number: int) -> int:
            async with lock:
                assert asyncio.get_running_loop() is loop
                await asyncio.sleep(0)
            return number

        before = threading.active_count()
        async with KeyedExecutor.on_running_loop() as executor:
            results = Flowable.from_iterable(range(50)).pipe(keyed_dispatch(same, handler, executor=executor))
            assert sorted([number async for number in results]) == list(range(50))
        assert threading.active_count() == before

    asyncio.run(main())


def test_on_running_loop_needs_a_running_loop() -> None:
    with pytest.raises(UsageError, match="must be called in a coroutine"):
        KeyedExecutor.on_running_loop()


def test_a_loop_that_is_closed_under_an_executor_ends_its_dispatches() -> None:
    # F44, F61: what can't be served is refused, and somebody is told.
    probe = Probe(demand=UNBOUNDED)
    discarded: list[int] = []

    async def main() -> KeyedExecutor:
        executor = KeyedExecutor.on_running_loop()
        source = Flowable.from_iterable(range(10))
        dispatch = keyed_dispatch(same, same, executor=executor, on_discard=discarded.append)
        source.pipe(dispatch).subscribe(probe)
        await asyncio.sleep(0.01)
        return executor

    executor = asyncio.run(main())
    assert len(probe.items) == 10
    late = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(3)).pipe(
        keyed_dispatch(same, same, executor=executor, on_discard=discarded.append)
    ).subscribe(late)
    assert isinstance(late.errors[0], ExecutorClosedError)
    assert "its event loop was closed" in str(late.errors[0])
    # What had been taken from the source by then, and nothing twice.
    assert discarded == list(range(len(discarded)))
    assert discarded
    executor.dispose()
    assert executor.wait_closed(timeout=20)


@pytest.mark.parametrize("call", ["dispose", "drain"])
def test_the_shared_executor_can_not_be_ended(call: str) -> None:
    shared = KeyedExecutor.shared()
    assert KeyedExecutor.shared() is shared
    with pytest.raises(UsageError, match="make an executor of your own"):
        getattr(shared, call)()
    with pytest.raises(UsageError, match="make an executor of your own"), shared:
        pass
    assert Flowable.from_iterable([1]).pipe(keyed_dispatch(same, same)).run() == 1


def test_the_shared_executor_is_made_once_by_many_threads() -> None:
    # F97
    barrier = threading.Barrier(16)
    seen: list[KeyedExecutor] = []

    def ask() -> None:
        barrier.wait()
        seen.append(KeyedExecutor.shared())

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, seen))) == 1


def test_uvloop_like_factories_give_the_loops() -> None:
    made: list[asyncio.AbstractEventLoop] = []

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    async def handler(_: int) -> bool:
        return asyncio.get_running_loop() in made

    with KeyedExecutor(workers=1, loop_factory=factory) as executor:
        assert Flowable.from_iterable([1]).pipe(keyed_dispatch(same, handler, executor=executor)).run()
    assert made[0].is_closed()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": 3}, "key must be a function"),
        ({"handler": None}, "handler must be a function"),
        ({"executor": 3}, "executor must be a KeyedExecutor"),
        ({"max_in_flight": 0}, "max_in_flight must be a whole number of at least 1, not 0"),
        ({"throughput": 0}, "throughput must be a whole number of at least 1, not 0"),
        ({"on_failure": "skip"}, "on_failure must be FAIL, SKIP"),
        ({"on_discard": 3}, "on_discard must be a function"),
        ({"run_in": 3}, "run_in must be a concurrent.futures.Executor"),
    ],
    ids=str,
)
def test_arguments_of_a_dispatch_that_cannot_work_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        keyed_dispatch(**({"key": same, "handler": same} | arguments))
