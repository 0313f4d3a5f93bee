"""A worker that can't start: whoever needs it is told, and nobody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import Collector, dispatched, results_of


class NoLoopError(Exception):
    """What a loop factory fails with."""


def no_loop() -> asyncio.AbstractEventLoop:
    raise NoLoopError


def test_a_loop_factory_that_fails_ends_the_stream_with_its_error() -> None:
    # F61: a message that no worker takes must not wait for ever.
    pulled: list[int] = []
    discarded: list[int] = []

    def numbers() -> Generator[int]:
        for number in range(3):
            pulled.append(number)
            yield number

    executor = KeyedExecutor(2, loop_factory=no_loop)
    for _ in range(2):
        collector = Collector(10)
        dispatched(numbers, str, executor, on_discard=discarded.append).subscribe(collector)
        assert collector.ended.is_set()
        assert isinstance(collector.error, NoLoopError)
    assert discarded == pulled
    assert discarded
    assert not executor.statistics().dispatches
    assert executor.drain(timeout=0)
    assert executor.wait_closed(timeout=0)


def test_a_loop_factory_that_fails_once_is_asked_again() -> None:
    calls = 0

    def second_time() -> asyncio.AbstractEventLoop:
        nonlocal calls
        calls += 1
        return no_loop() if calls == 1 else asyncio.new_event_loop()

    with KeyedExecutor(1, loop_factory=second_time) as executor:
        with pytest.raises(NoLoopError):
            dispatched([1], str, executor).run()
        assert results_of(dispatched([1], str, executor)) == ["1"]


def closed_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.close()
    return loop


NO_LOOPS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "a function": lambda: asyncio.new_event_loop,
    "closed": closed_loop,
    "the caller's": asyncio.get_running_loop,
}


@pytest.mark.parametrize("kind", NO_LOOPS)
def test_what_is_no_new_loop_is_refused(kind: str) -> None:
    made = NO_LOOPS[kind]

    async def main() -> None:
        executor = KeyedExecutor(1, loop_factory=made)
        collector = Collector(10)
        dispatched([1], str, executor).subscribe(collector)
        assert collector.ended.is_set()
        assert isinstance(collector.error, InvalidArgumentError)
        assert "what loop_factory returns must be a new event loop" in str(collector.error)
        assert await executor.drain_async(timeout=0)

    asyncio.run(main())


def test_a_system_that_has_no_more_threads_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    # F61: the machine refuses.
    made: list[asyncio.AbstractEventLoop] = []

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    executor = KeyedExecutor(1, loop_factory=factory)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            dispatched([1], str, executor).run()
    assert [loop.is_closed() for loop in made] == [True]
    assert not executor.statistics().workers[0].started
    # Later there may be threads again.
    assert results_of(dispatched([1], str, executor)) == ["1"]
    assert executor.drain()


def test_an_async_source_that_was_offered_a_worker_which_cant_start_ends() -> None:
    # F61: the source, and not a message, is the first to need the worker.
    async def numbers() -> AsyncGenerator[int]:
        yield 1

    executor = KeyedExecutor(1, loop_factory=no_loop)
    with pytest.raises(NoLoopError):
        Flowable.from_async_iterable(numbers).pipe(keyed_dispatch(hash, str, executor=executor)).run()
    assert not executor.statistics().dispatches


@pytest.mark.seeds(200, soak=5000)
def test_an_executor_that_is_disposed_as_its_worker_starts_has_no_thread_left(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        executor = KeyedExecutor(2)
        collectors = [Collector(10) for _ in range(2)]

        def subscribe(collector: Collector) -> None:
            dispatched([1, 2], str, executor).subscribe(collector)

        threads = [
            platform.thread(lambda collector=collector: subscribe(collector), "subscriber")  # type: ignore[misc]
            for collector in collectors
        ]
        for thread in threads:
            thread.start()
        for _ in range(platform.random.randrange(12)):
            platform.point("waits")
        executor.dispose()
        for thread in threads:
            thread.join()
        executor.wait_closed()
        assert all(collector.ended.is_set() for collector in collectors)

    run(scenario, seed)
