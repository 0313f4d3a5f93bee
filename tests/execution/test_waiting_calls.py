"""Calls that wait: at once an error where they would wait for themselves, and the truth about what has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import BlockingCallError, ExecutorClosedError
from rxwow.streams.protocols import UNBOUNDED
from tests.execution.handlers import Gate
from tests.streams.probe import PATIENCE_S, Probe


def same(number: int) -> int:
    return number


def calls_that_wait(executor: KeyedExecutor) -> dict[str, Callable[[], Any]]:
    def leave() -> None:
        with KeyedExecutor(workers=1):
            pass

    return {
        "run": lambda: Flowable.from_iterable([1]).run(),
        "drain": executor.drain,
        "wait_closed": executor.wait_closed,
        "with": leave,
    }


@pytest.mark.parametrize("call", ["run", "drain", "wait_closed", "with"])
@pytest.mark.parametrize("on_loop", [False, True])
def test_a_call_that_waits_fails_at_once_on_a_worker(call: str, on_loop: bool) -> None:
    # F41
    async def main() -> None:
        async with KeyedExecutor.on_running_loop() if on_loop else KeyedExecutor(workers=1) as executor:

            def handler(_: int) -> None:
                calls_that_wait(executor)[call]()

            async for _ in Flowable.from_iterable([1]).pipe(keyed_dispatch(same, handler, executor=executor)):
                pass

    with pytest.raises(BlockingCallError, match="would block"):
        asyncio.run(main())


def test_a_handler_cannot_await_the_drain_that_waits_for_it() -> None:
    # F41
    executor = KeyedExecutor(workers=1)

    async def handler(_: int) -> None:
        await executor.drain_async()

    with pytest.raises(BlockingCallError, match="the handler that awaits it"):
        Flowable.from_iterable([1]).pipe(keyed_dispatch(same, handler, executor=executor)).run()
    assert executor.statistics().state == "open"
    executor.dispose()
    assert executor.wait_closed(PATIENCE_S)


def test_a_handler_can_start_a_drain_and_go_on() -> None:
    executor = KeyedExecutor(workers=1)
    drains: list[asyncio.Task[bool]] = []

    async def handler(number: int) -> int:
        drains.append(asyncio.create_task(executor.drain_async()))
        await asyncio.sleep(0)
        return number

    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable([1]).pipe(keyed_dispatch(same, handler, executor=executor)).subscribe(probe)
    assert executor.wait_closed(PATIENCE_S)
    assert (probe.items, probe.completions) == ([1], 1)
    assert len(drains) == 1


def test_leaving_a_with_block_in_a_handler_disposes_for_want_of_a_drain() -> None:
    # F41: nobody else would end it.
    inner = KeyedExecutor(workers=1, name="inner")

    def handler(_: int) -> None:
        with inner:
            Flowable.never().pipe(keyed_dispatch(same, same, executor=inner)).subscribe(probe)

    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=1) as executor, pytest.raises(BlockingCallError):
        Flowable.from_iterable([1]).pipe(keyed_dispatch(same, handler, executor=executor)).run()
    assert isinstance(probe.errors[0], ExecutorClosedError)
    assert inner.wait_closed(PATIENCE_S)


def test_a_loop_cannot_block_on_the_end_of_the_worker_that_it_is() -> None:
    # F43
    async def main() -> None:
        executor = KeyedExecutor.on_running_loop()
        executor.dispose()
        with pytest.raises(BlockingCallError, match="wait_closed_async"):
            executor.wait_closed()
        assert await executor.wait_closed_async(PATIENCE_S)

    asyncio.run(main())


@pytest.mark.parametrize("call", ["drain", "drain_async"])
def test_a_drain_after_a_dispose_that_left_something_says_so(call: str) -> None:
    gate = Gate()
    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(3)).pipe(keyed_dispatch(lambda _: "k", gate, executor=executor)).subscribe(probe)
    gate.wait_for_arrivals(1)
    executor.dispose()
    assert (executor.drain() if call == "drain" else asyncio.run(executor.drain_async())) is False
    gate.let_go()
    assert executor.wait_closed(PATIENCE_S)


def test_a_dispose_on_another_thread_ends_a_drain_that_waits() -> None:
    # F58
    gate = Gate()
    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(3)).pipe(keyed_dispatch(lambda _: "k", gate, executor=executor)).subscribe(probe)
    gate.wait_for_arrivals(1)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(executor.drain()))
    draining.start()
    while executor.statistics().state == "open":
        pass
    executor.dispose()
    draining.join(PATIENCE_S)
    assert drained == [False]
    assert isinstance(probe.errors[0], ExecutorClosedError)
    gate.let_go()
    assert executor.wait_closed(PATIENCE_S)
