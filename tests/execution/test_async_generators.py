"""Handlers that are async generators: what one yields is emitted, under demand, and its end is the message's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any, assert_type

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow import SKIP, Backoff, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ForeignLoopError, HandlerExit, InvalidArgumentError
from rxwow.execution.completion import INNER_PREFETCH
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of


@given(lengths=st.lists(st.integers(0, 8), max_size=12), waits=st.booleans(), max_in_flight=st.integers(1, 5))
def test_all_that_a_generator_yields_is_a_result(lengths: list[int], waits: bool, max_in_flight: int) -> None:
    async def handle(message: tuple[int, int]) -> AsyncIterator[tuple[int, int]]:
        number, length = message
        for item in range(length):
            if waits:
                await asyncio.sleep(0)
            yield number, item

    with KeyedExecutor(2) as executor:
        operator = keyed_dispatch(lambda _: "one key", handle, executor=executor, max_in_flight=max_in_flight)
        results = results_of(Flowable.from_iterable(list(enumerate(lengths))).pipe(operator))
    assert results == [(number, item) for number, length in enumerate(lengths) for item in range(length)]


def test_a_generator_is_not_pulled_faster_than_its_results_are_taken() -> None:
    yielded: list[int] = []
    closed_on: list[str] = []

    async def handle(_: int) -> AsyncIterator[int]:
        try:
            for item in range(1_000_000):
                yielded.append(item)
                yield item
        finally:
            await asyncio.sleep(0.001)
            closed_on.append(threading.current_thread().name)

    class Steps(Collector):
        def on_next(self, value: Any) -> None:
            super().on_next(value)
            step.release()

    step = threading.Semaphore(0)
    with KeyedExecutor(1, name="pulled") as executor:
        collector = Steps(0)
        dispatched([1], handle, executor).subscribe(collector)
        for count in range(1, 20):
            collector.subscription.request(1)
            assert step.acquire(timeout=PATIENCE)
            assert collector.taken == list(range(count))
            assert len(yielded) <= count + INNER_PREFETCH
        collector.subscription.cancel()
    # The end of the executor waits for the clean-up of what was cancelled.
    assert closed_on == ["pulled-0"]


def test_the_next_message_of_a_key_waits_for_what_follows_the_last_yield() -> None:
    async def scenario_handler(message: int) -> AsyncIterator[str]:
        events.append(f"begin {message}")
        yield f"result {message}"
        await asyncio.sleep(0.001)
        events.append(f"end {message}")

    events: list[str] = []
    with KeyedExecutor(2) as executor:
        operator = keyed_dispatch(lambda _: "one key", scenario_handler, executor=executor)
        assert results_of(Flowable.from_iterable([1, 2, 3]).pipe(operator)) == ["result 1", "result 2", "result 3"]
    assert events == [f"{what} {message}" for message in (1, 2, 3) for what in ("begin", "end")]


def test_two_keys_of_one_worker_take_turns_while_they_wait() -> None:
    async def handle(message: str) -> AsyncIterator[str]:
        met[message].set()
        async with asyncio.timeout(PATIENCE):
            await met["b" if message == "a" else "a"].wait()
        yield message

    met = {"a": asyncio.Event(), "b": asyncio.Event()}
    with KeyedExecutor(1) as executor:
        assert sorted(results_of(dispatched(["a", "b"], handle, executor))) == ["a", "b"]


def test_a_generator_that_fails_is_a_failing_handler_after_what_it_has_yielded() -> None:
    attempts: list[int] = []

    async def handle(message: int) -> AsyncIterator[int]:
        attempts.append(message)
        yield message
        if message == 2 and attempts.count(2) < 3:
            raise LookupError("not yet")

    with KeyedExecutor(1) as executor:
        assert results_of(dispatched([1, 2, 3], handle, executor, on_failure=SKIP)) == [1, 2, 3]
        attempts.clear()
        collector = Collector(10)
        operator = keyed_dispatch(lambda _: "one key", handle, executor=executor)
        Flowable.from_iterable([1, 2, 3]).pipe(operator).subscribe(collector)
        assert collector.ended.wait(PATIENCE)
        assert (collector.taken, attempts) == ([1, 2], [1, 2])
        assert isinstance(collector.error, LookupError)
        attempts.clear()
        # Each attempt begins anew, as a generator that has raised is at its end.
        assert results_of(dispatched([2], handle, executor, on_failure=Backoff(3, 0.001))) == [2, 2, 2]


@pytest.mark.parametrize("exit_", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_an_exit_is_the_failure_of_the_message_and_the_worker_lives_on(exit_: type[BaseException]) -> None:
    async def handle(message: int) -> AsyncIterator[int]:
        if message == 1:
            raise exit_
        await asyncio.sleep(0)
        yield message

    with KeyedExecutor(1) as executor:
        with pytest.raises(HandlerExit, match=exit_.__name__):
            dispatched([1], handle, executor).run()
        assert results_of(dispatched([1, 2], handle, executor, on_failure=SKIP)) == [2]


def test_it_runs_in_the_context_of_the_subscription() -> None:
    tenant: ContextVar[str] = ContextVar("tenant")

    async def handle(message: int) -> AsyncIterator[str]:
        tenant.set(f"{tenant.get()} {message}")
        await asyncio.sleep(0)
        yield tenant.get()

    tenant.set("ann's")
    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(lambda _: "one key", handle, executor=executor)
        assert results_of(Flowable.from_iterable([1, 2]).pipe(operator)) == ["ann's 1", "ann's 2"]


def test_what_belongs_to_another_loop_is_named() -> None:
    async def make() -> asyncio.Future[int]:
        return asyncio.get_running_loop().create_future()

    foreign = asyncio.run(make())

    async def handle(_: int) -> AsyncIterator[int]:
        yield await foreign

    with KeyedExecutor(1) as executor, pytest.raises(ForeignLoopError):
        dispatched([1], handle, executor).run()


def test_on_a_running_loop_it_is_pulled_on_that_loop() -> None:
    async def handle(message: int) -> AsyncIterator[tuple[int, bool]]:
        await asyncio.sleep(0)
        yield message, asyncio.get_running_loop() is loops[0]

    async def main() -> list[Any]:
        loops.append(asyncio.get_running_loop())
        async with KeyedExecutor.on_running_loop() as executor:
            return [item async for item in dispatched([1, 2], handle, executor)]

    loops: list[asyncio.AbstractEventLoop] = []
    assert sorted(asyncio.run(main())) == [(1, True), (2, True)]


def test_an_object_with_anext_alone_will_do() -> None:
    class Countdown:
        def __init__(self, start: int) -> None:
            self._left = start

        def __aiter__(self) -> Countdown:
            return self

        async def __anext__(self) -> int:
            if not self._left:
                raise StopAsyncIteration
            self._left -= 1
            return self._left

    with KeyedExecutor(1) as executor:
        assert results_of(dispatched([3], Countdown, executor)) == [2, 1, 0]


def test_an_error_of_closing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    started = threading.Event()

    async def handle(_: int) -> AsyncIterator[int]:
        try:
            yield 1
            started.set()
            await asyncio.sleep(600)
        finally:
            raise ZeroDivisionError("in the clean-up")

    with KeyedExecutor(1) as executor:
        collector = Collector(2)
        dispatched([1], handle, executor).subscribe(collector)
        assert started.wait(PATIENCE)
        collector.subscription.cancel()
    assert "in the clean-up" in caplog.text


def test_a_pool_of_processes_is_refused() -> None:
    from concurrent.futures import ThreadPoolExecutor

    async def handle(message: int) -> AsyncIterator[int]:
        yield message

    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidArgumentError, match="handler"):
        keyed_dispatch(str, handle, run_in=pool)


def what_type_checkers_make_of_it() -> None:
    async def handle(message: int) -> AsyncIterator[str]:
        yield str(message)

    assert_type(Flowable.from_iterable([1]).pipe(keyed_dispatch(str, handle)), Flowable[str])
