"""Waiting for an executor's end: who may, who would wait for itself, and what a wait that is broken off leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import BlockingCallError, ExecutorClosedError
from rxwow.execution import latch
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.execution.handlers import Gate
from tests.streams.probe import eventually

# On the loop that the executor works on.


def test_two_executors_on_one_loop_are_told_apart() -> None:
    async def main() -> None:
        first, second = KeyedExecutor.on_running_loop(), KeyedExecutor.on_running_loop()
        assert await first.drain_async(PATIENCE)
        with pytest.raises(BlockingCallError):
            second.drain()
        assert await second.drain_async(PATIENCE)
        assert second.drain()

    asyncio.run(main())


# In a handler.


async def deeper(executor: KeyedExecutor) -> Any:
    return await asyncio.wait_for(executor.drain_async(), None)


async def by_async_with(executor: KeyedExecutor) -> Any:
    async with executor:
        return True


@pytest.mark.parametrize("drain", [deeper, by_async_with])
@pytest.mark.parametrize("on_loop", [False, True])
def test_a_handler_that_waits_deep_inside_for_the_drain_that_waits_for_it_is_refused(
    drain: Callable[[KeyedExecutor], Any], on_loop: bool
) -> None:
    # F41.
    raised: list[BaseException] = []

    async def main() -> None:
        executor = KeyedExecutor.on_running_loop() if on_loop else KeyedExecutor(1)

        async def handle(message: int) -> None:
            try:
                await drain(executor)
            except BaseException as error:
                raised.append(error)
                raise

        with pytest.raises((BlockingCallError, ExecutorClosedError)):
            _ = [item async for item in dispatched([1], handle, executor)]
        executor.dispose()
        assert await executor.wait_closed_async(PATIENCE)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert [type(error) for error in raised] == [BlockingCallError]
    assert "drain_async() would block the handler that awaits it" in str(raised[0])


def test_a_handler_may_start_the_drain_and_go_on() -> None:
    async def main() -> None:
        draining: list[asyncio.Task[bool]] = []
        executor = KeyedExecutor.on_running_loop()

        async def handle(message: int) -> int:
            if message == 5:
                draining.append(asyncio.create_task(executor.drain_async(PATIENCE)))
                await asyncio.sleep(0)
            return message

        # It takes no more than was accepted by then.
        operator = keyed_dispatch(lambda _: "key", handle, executor=executor, max_in_flight=8)
        results = [item async for item in Flowable.from_iterable(range(100)).pipe(operator)]
        assert results == list(range(len(results)))
        assert 6 <= len(results) < 20
        assert await draining[0]

    asyncio.run(main())


def test_a_handler_may_await_the_drain_of_another_executor() -> None:
    async def handle(message: int) -> Any:
        other = KeyedExecutor(1)
        dispatched([1, 2], str, other).subscribe(Collector(10))
        return await other.drain_async(PATIENCE)

    with KeyedExecutor(1) as executor:
        assert results_of(dispatched([1], handle, executor)) == [True]


def test_a_handler_in_a_pool_may_wait_for_another_executor() -> None:
    def handle(message: int) -> list[str]:
        with KeyedExecutor(1) as other:
            return sorted(results_of(dispatched([1, 2], str, other)))

    with ThreadPoolExecutor(2) as pool, KeyedExecutor(1) as executor:
        assert results_of(dispatched([1], handle, executor, run_in=pool)) == [["1", "2"]]


# A wait that is broken off: what was waited for ends all the same.


@pytest.fixture
def busy() -> Generator[tuple[KeyedExecutor, Gate, Collector]]:
    gate, collector = Gate(), Collector(10)
    executor = KeyedExecutor(1)
    dispatched([1, 2], gate, executor).subscribe(collector)
    gate.wait_for_arrivals(1)
    yield executor, gate, collector
    gate.let_go()
    executor.dispose()
    assert executor.wait_closed(PATIENCE)


def send_signal_when_waiting(ident: int) -> None:
    """Send this process a signal once a thread waits for a latch; sooner, it would come in the middle of anything."""
    waits = False
    while not waits:
        frame = sys._current_frames()[ident]
        stack = traceback.extract_stack(frame)
        waits = any(call.filename == latch.__file__ for call in stack) and stack[-1].filename == threading.__file__
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signal")
@pytest.mark.parametrize("exits", [KeyboardInterrupt, SystemExit])
def test_a_signal_gets_through_a_drain_at_the_end_of_a_block(
    busy: tuple[KeyedExecutor, Gate, Collector], exits: type[BaseException]
) -> None:
    # Ctrl-C, or a handler of SIGTERM that calls sys.exit: the user is tired of waiting.
    executor, _, collector = busy

    def on_signal(*_: object) -> None:
        raise exits

    def leave() -> None:
        with executor:
            pass

    before = signal.signal(signal.SIGUSR1, on_signal)
    sending = threading.Thread(target=send_signal_when_waiting, args=(threading.get_ident(),))
    try:
        sending.start()
        with pytest.raises(exits):
            leave()
    finally:
        signal.signal(signal.SIGUSR1, before)
    sending.join(PATIENCE)
    assert executor.statistics().state == "closed"
    assert isinstance(collector.error, ExecutorClosedError)


def test_a_cancelled_async_with_disposes(busy: tuple[KeyedExecutor, Gate, Collector]) -> None:
    executor, _, collector = busy

    async def leave() -> None:
        async with executor:
            pass

    async def main() -> None:
        leaving = asyncio.create_task(leave())
        await eventually(lambda: executor.statistics().state == "draining")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(main())
    assert executor.statistics().state == "closed"
    assert isinstance(collector.error, ExecutorClosedError)


# What a drain says.


def test_a_dispose_that_finds_nothing_unfinished_lets_a_drain_be_true() -> None:
    executor = KeyedExecutor(1)
    results_of(dispatched([1], str, executor))
    executor.dispose()
    assert executor.drain() is True


def test_many_drains_wait_for_the_same_end(busy: tuple[KeyedExecutor, Gate, Collector]) -> None:
    executor, gate, _ = busy
    drained: list[bool] = []
    threads = [threading.Thread(target=lambda: drained.append(executor.drain())) for _ in range(5)]
    for thread in threads:
        thread.start()
    asyncio.run(_drain_beside(executor, gate, drained))
    for thread in threads:
        thread.join(PATIENCE)
    assert drained == [True] * 6


async def _drain_beside(executor: KeyedExecutor, gate: Gate, drained: list[bool]) -> None:
    draining = asyncio.create_task(executor.drain_async())
    await asyncio.sleep(0)
    gate.let_go()
    drained.append(await draining)
