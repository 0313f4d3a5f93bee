"""When a handler is finished: whatever it returns is waited for, and no worker is held meanwhile."""

from __future__ import annotations

import asyncio
import gc
import weakref
from concurrent.futures import Future
from typing import Any

import pytest
from reactivex import Subject

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ForeignLoopError
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import (
    PATIENCE,
    RETURNED,
    Arrivals,
    Collector,
    OldAwaitable,
    dispatched,
    results_of,
)

# A waiting handler holds no worker.


def test_a_thousand_keys_wait_on_two_workers_for_futures() -> None:
    arrivals = Arrivals(1000)
    futures: list[Future[int]] = [Future() for _ in range(1000)]

    def wait(message: int) -> Future[int]:
        arrivals.arrive()
        return futures[message]

    with KeyedExecutor(2, max_in_flight=1000) as executor:
        collector = Collector(1000)
        dispatched(range(1000), wait, executor).subscribe(collector)
        assert arrivals.all_there.wait(PATIENCE)
        # Both workers are free: another dispatch of the same executor has its way through.
        assert sorted(results_of(dispatched(range(100), str, executor))) == sorted(map(str, range(100)))
        (statistics,) = executor.statistics().dispatches
        assert statistics.mailboxes == 1000
        assert (statistics.waiting, statistics.mailboxed, statistics.running) == (1000, 0, 0)
        for message, future in enumerate(futures):
            future.set_result(message)
        assert collector.ended.wait(PATIENCE)
        assert sorted(collector.taken) == list(range(1000))


def test_a_thousand_keys_wait_on_two_workers_for_coroutines() -> None:
    arrivals = Arrivals(1000)
    waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    async def wait(message: int) -> int:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        waiting.append((loop, future))
        arrivals.arrive()
        await future
        return message

    with KeyedExecutor(2, max_in_flight=1000) as executor:
        collector = Collector(1000)
        dispatched(range(1000), wait, executor).subscribe(collector)
        assert arrivals.all_there.wait(PATIENCE)
        assert sorted(results_of(dispatched(range(100), str, executor))) == sorted(map(str, range(100)))
        for loop, future in waiting:
            loop.call_soon_threadsafe(future.set_result, None)
        assert collector.ended.wait(PATIENCE)
        assert sorted(collector.taken) == list(range(1000))


@pytest.mark.seeds(3, soak=200)
def test_a_thousand_keys_that_sleep_a_second_take_a_second(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> float:
        with KeyedExecutor(2, max_in_flight=1000) as executor:
            began = platform.monotonic()

            async def wait(message: int) -> int:
                await asyncio.sleep(1.0)
                return message

            assert sorted(results_of(dispatched(range(1000), wait, executor))) == list(range(1000))
            return platform.monotonic() - began

    assert run(scenario, seed, step_limit=1_000_000) == pytest.approx(1.0)


# What a handler may return.


@pytest.mark.parametrize("kind", RETURNED)
def test_what_a_handler_returns_is_waited_for(kind: str) -> None:
    with KeyedExecutor(2) as executor:
        assert sorted(results_of(dispatched(range(40), RETURNED[kind], executor))) == list(range(40))


def test_none_is_a_result_however_it_comes() -> None:
    for kind, returned in RETURNED.items():
        with KeyedExecutor(1) as executor:
            results = results_of(dispatched([None] * 3, returned, executor))
            assert results == [None, None, None], kind


@pytest.mark.seeds(150, soak=5000)
def test_kinds_mixed_on_one_key_come_one_at_a_time_and_in_order(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> list[int]:
        kinds = [platform.random.choice(list(RETURNED.values())) for _ in range(12)]
        with KeyedExecutor(2, throughput=platform.random.choice([1, 16])) as executor:

            def handle(message: int) -> Any:
                return kinds[message](message)

            operator = keyed_dispatch(lambda _: None, handle, executor=executor)
            return results_of(Flowable.from_iterable(range(12)).pipe(operator))

    assert run(scenario, seed) == list(range(12))


def test_an_ordinary_generator_is_a_plain_result() -> None:
    with KeyedExecutor(1) as executor:
        (result,) = results_of(dispatched([3], lambda message: (number for number in range(message)), executor))
        assert list(result) == [0, 1, 2]


def test_more_types_than_are_remembered() -> None:
    # What is known of types is forgotten after a thousand of them, and found out again.
    def handle(message: int) -> Any:
        made = type(f"Made{message}", (OldAwaitable,) if message % 2 else (), {})
        return made(message) if message % 2 else made()

    with KeyedExecutor(1) as executor:
        results = results_of(dispatched(range(2100), handle, executor))
        assert sorted(result for result in results if isinstance(result, int)) == list(range(1, 2100, 2))


class Elusive:
    """As a lazy proxy that has nothing behind it: asking for its class raises."""

    def __getattribute__(self, name: str) -> Any:
        raise LookupError("nothing behind this proxy")


def test_a_result_that_refuses_to_be_asked_for_its_class_is_a_result() -> None:
    with KeyedExecutor(1) as executor:
        results = results_of(dispatched(range(2), lambda _: Elusive(), executor))
        assert [type(result) for result in results] == [Elusive, Elusive]


# Another loop's awaitables.


def test_an_awaitable_of_another_loop_fails_with_the_remedy() -> None:
    foreign = asyncio.new_event_loop()
    try:
        future = foreign.create_future()
        lock = asyncio.Lock()

        async def waits_for_it(_: int) -> Any:
            return await future

        async def locks(_: int) -> None:
            async with lock:
                pass

        async def hold() -> None:
            await lock.acquire()
            waiter = asyncio.ensure_future(lock.acquire())
            await asyncio.sleep(0)
            waiter.cancel()

        # A lock is bound to the loop where somebody first had to wait for it.
        foreign.run_until_complete(hold())
        with KeyedExecutor(1) as executor:
            for handler in (lambda _: future, waits_for_it, locks):
                with pytest.raises(ForeignLoopError, match=r"KeyedExecutor\.on_running_loop\(\)"):
                    dispatched([1], handler, executor).run()
            assert results_of(dispatched([1], lambda _: future, executor, on_failure=SKIP)) == []
    finally:
        foreign.close()


def test_on_running_loop_waits_for_what_belongs_to_the_callers_loop() -> None:
    async def main() -> list[Any]:
        gate = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, gate.set_result, "open")

        async def wait(message: int) -> tuple[int, str]:
            return message, await gate

        async with KeyedExecutor.on_running_loop() as executor:
            return [result async for result in dispatched(range(3), wait, executor)]

    assert sorted(asyncio.run(main())) == [(0, "open"), (1, "open"), (2, "open")]


# F47: the executor owns what waits.


def test_what_waits_is_not_collected_though_nobody_else_refers_to_it() -> None:
    # F47.
    arrivals = Arrivals(30)
    asyncio_futures: list[tuple[asyncio.AbstractEventLoop, weakref.ref[asyncio.Future[None]]]] = []
    futures: list[weakref.ref[Future[None]]] = []
    subjects: list[weakref.ref[Subject[None]]] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        asyncio_futures.append((loop, weakref.ref(future)))
        arrivals.arrive()
        await future

    def handle(message: int) -> Any:
        if message % 3 == 0:
            return wait()
        if message % 3 == 1:
            future: Future[None] = Future()
            futures.append(weakref.ref(future))
            arrivals.arrive()
            return future
        subject: Subject[None] = Subject()
        subjects.append(weakref.ref(subject))
        arrivals.arrive()
        return subject

    with KeyedExecutor(2) as executor:
        collector = Collector(1000)
        dispatched(range(30), handle, executor).subscribe(collector)
        assert arrivals.all_there.wait(PATIENCE)
        results_of(dispatched(range(10), str, executor))
        for _ in range(5):
            gc.collect()
        for loop, asyncio_future in asyncio_futures:
            loop.call_soon_threadsafe(_alive(asyncio_future).set_result, None)
        for future in futures:
            _alive(future).set_result(None)
        for subject in subjects:
            _alive(subject).on_completed()
        assert collector.ended.wait(PATIENCE)
        assert len(collector.taken) == 20


def _alive(reference: weakref.ref[Any]) -> Any:
    referent = reference()
    assert referent is not None, "what a handler waits for was collected"
    return referent


# However its task ends, a message is finished.


@pytest.mark.parametrize("stranger", [False, True])
def test_a_task_that_somebody_cancels_before_its_first_step_fails_its_message(stranger: bool) -> None:
    begun: list[int] = []

    async def handle_later(message: int) -> int:
        begun.append(message)
        return message

    async def use() -> list[int]:
        loop = asyncio.get_running_loop()
        own = asyncio.all_tasks()

        def cancel_all() -> None:
            for task in asyncio.all_tasks() - own:
                task.cancel()

        def handle(message: int) -> Any:
            if message == 1 and stranger:
                # Before the task that will be made for what this returns.
                loop.call_soon(cancel_all)
            return handle_later(message)

        async with KeyedExecutor.on_running_loop() as executor:
            operator = keyed_dispatch(lambda _: None, handle, executor=executor, on_failure=SKIP)
            return [result async for result in Flowable.from_iterable(range(3)).pipe(operator)]

    expected = [0, 2] if stranger else [0, 1, 2]
    assert asyncio.run(use()) == expected
    assert begun == expected


class Exit(BaseException):
    pass


@pytest.mark.parametrize("kind", [GeneratorExit, SystemExit, KeyboardInterrupt, asyncio.CancelledError, Exit])
@pytest.mark.parametrize("waits", [False, True])
def test_an_exit_that_a_coroutine_raises_is_its_messages_failure(kind: type[BaseException], waits: bool) -> None:
    async def handle(message: int) -> int:
        if waits:
            await asyncio.sleep(0)
        if message == 1:
            raise kind
        return message

    with KeyedExecutor(1) as executor:
        failed: list[BaseException | None] = []

        def decide(_: int, error: Exception) -> Any:
            failed.append(error.__cause__)
            return SKIP

        assert sorted(results_of(dispatched(range(3), handle, executor, on_failure=decide))) == [0, 2]
        assert [type(error) for error in failed] == [kind]
