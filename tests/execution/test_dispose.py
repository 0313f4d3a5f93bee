"""Dispose: what is queued is discarded at once, running steps end, threads go, and nobody waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from random import Random
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.streams.probe import PATIENCE_S, Probe


def test_queued_messages_are_discarded_on_the_calling_thread_each_once() -> None:
    # F54, F58: the running one ends, those behind it never begin.
    gate = Gate()
    discarded: list[tuple[int, int]] = []
    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=UNBOUNDED)
    dispatch = keyed_dispatch(
        lambda number: number % 10,
        gate,
        executor=executor,
        on_discard=lambda number: discarded.append((number, threading.get_ident())),
    )
    Flowable.from_iterable(range(1000)).pipe(dispatch).subscribe(probe)
    gate.wait_for_arrivals(1)
    executor.dispose()
    # All before dispose has returned, while the handler still runs.
    assert {ident for _, ident in discarded} == {threading.get_ident()}
    assert sorted(number for number, _ in discarded) == list(range(1, 256))
    assert isinstance(probe.errors[0], ExecutorClosedError)
    assert not executor.wait_closed(timeout=0)
    gate.let_go()
    assert executor.wait_closed(timeout=PATIENCE_S)
    assert gate.arrived == [0]
    assert probe.items == []
    assert len(discarded) == 255
    probe.check()


def test_a_coroutine_is_cancelled_at_its_next_suspension_and_its_message_discarded() -> None:
    # F52: our own cancel is not the handler's outcome. F62: nor is it logged as a failure.
    cleaned_up: list[int] = []
    discarded: list[int] = []
    began = threading.Barrier(2)

    async def handler(number: int) -> None:
        if number == 49:
            began.wait(PATIENCE_S)
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            cleaned_up.append(number)

    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(50)).pipe(
        keyed_dispatch(lambda number: number, handler, executor=executor, on_discard=discarded.append)
    ).subscribe(probe)
    began.wait(PATIENCE_S)
    executor.dispose()
    assert executor.wait_closed(timeout=PATIENCE_S)
    # One may have been cancelled before it began.
    assert set(range(49)) <= set(cleaned_up)
    assert sorted(discarded) == list(range(50))


def test_stopping_many_handlers_logs_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    # F62
    caplog.set_level(logging.DEBUG, "rxwow")
    executor = KeyedExecutor(workers=2)
    came = threading.Semaphore(0)

    async def handler(_: int) -> None:
        came.release()
        await asyncio.sleep(3600)

    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(50)).pipe(keyed_dispatch(lambda number: number, handler, executor=executor)).subscribe(
        probe
    )
    for _ in range(50):
        assert came.acquire(timeout=PATIENCE_S)
    executor.dispose()
    assert executor.wait_closed(timeout=PATIENCE_S)
    assert caplog.records == []


@pytest.mark.parametrize("caller", ["handler", "coroutine", "on_next", "another thread", "event loop"])
def test_dispose_never_blocks_wherever_it_is_called(caller: str) -> None:
    # F38, F41, F43
    executor = KeyedExecutor(workers=2)
    probe = Probe(demand=UNBOUNDED)

    def handler(number: int) -> Any:
        if caller == "handler" and number == 3:
            executor.dispose()
        if caller == "coroutine":
            return dispose_in_coroutine(number)
        return number

    async def dispose_in_coroutine(number: int) -> int:
        if number == 3:
            executor.dispose()
        return number

    if caller == "on_next":
        probe.on_item = lambda _: executor.dispose()
    source = Flowable.from_iterable(lambda: iter(int, 1)) if caller in ("another thread", "event loop") else None
    numbers: Flowable[int] = source or Flowable.from_iterable(range(100))
    numbers.pipe(keyed_dispatch(lambda number: number, handler, executor=executor)).subscribe(probe)
    if caller == "another thread":
        # F51: a source that never ends.
        thread = threading.Thread(target=executor.dispose)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    elif caller == "event loop":

        async def dispose() -> None:
            executor.dispose()
            assert await executor.wait_closed_async(timeout=PATIENCE_S)

        asyncio.run(dispose())
    assert executor.wait_closed(timeout=PATIENCE_S)
    probe.wait_for_end()
    assert isinstance(probe.errors[0], ExecutorClosedError)
    probe.check()


def test_a_failing_on_discard_is_logged_and_the_others_still_come(caplog: pytest.LogCaptureFixture) -> None:
    discarded: list[int] = []

    def on_discard(number: int) -> None:
        discarded.append(number)
        raise RuntimeError("no")

    gate = Gate()
    executor = KeyedExecutor(workers=1)
    probe = Probe(demand=UNBOUNDED)
    Flowable.from_iterable(range(3)).pipe(
        keyed_dispatch(lambda _: "k", gate, executor=executor, on_discard=on_discard)
    ).subscribe(probe)
    gate.wait_for_arrivals(1)
    executor.dispose()
    assert discarded == [1, 2]
    assert len([record for record in caplog.records if "on_discard" in record.message]) == 2
    gate.let_go()
    assert executor.wait_closed(timeout=PATIENCE_S)


@pytest.mark.seeds(150, soak=5000)
def test_every_message_is_handled_or_discarded_once_under_every_schedule(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        handled: list[int] = []
        discarded: list[int] = []

        def handler(number: int) -> None:
            platform.point("handler")
            handled.append(number)

        executor = KeyedExecutor(2, max_in_flight=random.choice([1, 3, 20]))
        probe = Probe(demand=UNBOUNDED)
        received: list[int] = []

        def key(number: int) -> int:
            received.append(number)
            return number % 4

        Flowable.from_iterable(range(40)).pipe(
            keyed_dispatch(key, handler, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        for _ in range(random.randrange(30)):
            platform.point("waits")
        executor.dispose()
        executor.wait_closed()
        assert Counter(handled) + Counter(discarded) == Counter(received)
        assert probe.completions or isinstance(probe.errors[0], ExecutorClosedError)

    run(scenario, seed)
