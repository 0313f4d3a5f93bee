"""An event loop that is closed under its executor: nobody waits in vain, and what finishes later is accounted for."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any

import pytest
from reactivex.subject import Subject

from rxwow import Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from tests.execution.books import books_of, check_ends
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.execution.handlers import Gate


@pytest.fixture
def loop() -> Generator[asyncio.AbstractEventLoop]:
    """A loop that the test runs, and closes, by itself."""
    loop = asyncio.new_event_loop()
    # Where asyncio would complain of tasks that were pending when the loop was closed, as they are here on purpose.
    loop.set_exception_handler(lambda *_: None)
    yield loop
    loop.close()


@pytest.fixture
def executor(loop: asyncio.AbstractEventLoop) -> Generator[KeyedExecutor]:
    async def make() -> KeyedExecutor:
        return KeyedExecutor.on_running_loop(name="loops")

    executor = loop.run_until_complete(make())
    yield executor
    executor.dispose()


def let_run(loop: asyncio.AbstractEventLoop, rounds: int = 10) -> None:
    async def turn() -> None:
        for _ in range(rounds):
            await asyncio.sleep(0)

    loop.run_until_complete(turn())


def test_each_dispatch_that_comes_later_ends_at_once(loop: asyncio.AbstractEventLoop, executor: KeyedExecutor) -> None:
    # F44, F61: not the first alone, which finds the worker parked.
    loop.close()
    for _ in range(3):
        collector = Collector(10)
        dispatched([1, 2], str, executor).subscribe(collector)
        assert collector.ended.is_set()
        assert isinstance(collector.error, ExecutorClosedError)
        assert "executor 'loops-loop' is closed; its event loop was closed" in str(collector.error)


def test_a_loop_that_was_closed_with_a_drain_due_refuses_what_comes_later(
    loop: asyncio.AbstractEventLoop, executor: KeyedExecutor
) -> None:
    # F61: the worker is neither parked nor will it ever run.
    discarded: list[int] = []
    source: Subject[int] = Subject()
    collector = Collector(10)
    operator = keyed_dispatch(lambda n: n, str, executor=executor, on_discard=discarded.append)
    source.pipe(operator).subscribe(collector)
    source.on_next(1)
    loop.close()
    assert not collector.ended.is_set()
    source.on_next(2)
    assert isinstance(collector.error, ExecutorClosedError)
    assert sorted(discarded) == [1, 2]


def test_a_turn_that_was_cut_short_as_the_loop_closed_is_refused_with_the_next(
    loop: asyncio.AbstractEventLoop, executor: KeyedExecutor
) -> None:
    discarded: list[int] = []
    handled: list[int] = []
    source: Subject[int] = Subject()
    collector = Collector(100)

    def handle(message: int) -> None:
        handled.append(message)
        # As slow as a drain may take, by the loop's own clock, so that the drain is at its end after this message.
        until = loop.time() + 0.003
        while loop.time() < until:
            pass
        loop.stop()

    operator = keyed_dispatch(lambda _: "key", handle, executor=executor, on_discard=discarded.append)
    source.pipe(operator).subscribe(collector)
    for message in range(4):
        source.on_next(message)
    loop.run_forever()
    assert handled == [0]
    loop.close()
    # Whoever comes next finds the worker dead, and with it what it had in its hands.
    late = Collector(10)
    dispatched([1], str, executor).subscribe(late)
    assert isinstance(late.error, ExecutorClosedError)
    assert isinstance(collector.error, ExecutorClosedError)
    assert discarded == [1, 2, 3]


def test_handlers_that_end_after_the_loop_was_closed_are_accounted_for(
    loop: asyncio.AbstractEventLoop, executor: KeyedExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    # F44: ten run as the loop is closed; then they end, one of them badly, on this thread.
    futures: list[Future[int]] = []
    discarded: list[int] = []

    def handle(message: int) -> Future[int]:
        futures.append(Future())
        futures[-1].set_running_or_notify_cancel()
        return futures[-1]

    collector = Collector(100)
    dispatched(range(10), handle, executor, on_discard=discarded.append).subscribe(collector)
    books = books_of(executor)
    let_run(loop)
    assert len(futures) == 10
    loop.close()
    for number, future in enumerate(futures[:9]):
        future.set_result(number)
    futures[9].set_exception(ValueError("late"))
    assert isinstance(collector.error, ExecutorClosedError)
    assert collector.taken == []
    assert discarded == []
    check_ends(books, succeeded=9, failed=1)
    # Nobody else can be told of the one that failed, and nothing else is worth a word.
    (record,) = [record for record in caplog.records if record.name.startswith("rxwow")]
    assert (record.name, record.levelname) == ("rxwow.execution", "ERROR")


def test_what_waits_in_a_closed_loop_is_given_up_by_dispose(
    loop: asyncio.AbstractEventLoop, executor: KeyedExecutor
) -> None:
    # F44, F58: a coroutine, an Observable and a retry, none of which that loop will ever go on with.
    discarded: list[str] = []
    never: Subject[str] = Subject()
    future: Future[str] = Future()

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    waits: dict[str, Callable[[], Any]] = {
        "coroutine": wait,
        "observable": lambda: never,
        "future": lambda: future,
        "retry": lambda: 1 / 0,
    }

    def handle(message: str) -> Any:
        return waits[message]()

    collector = Collector(100)
    messages = ["coroutine", "observable", "future", "retry"]
    operator = keyed_dispatch(
        lambda message: message,
        handle,
        executor=executor,
        on_discard=discarded.append,
        on_failure=lambda *_: Retry(3600),
    )
    Flowable.from_iterable(messages).pipe(operator).subscribe(collector)
    books = books_of(executor)
    let_run(loop)
    assert books.statistics().waiting == 3
    loop.close()
    executor.dispose()
    assert isinstance(collector.error, ExecutorClosedError)
    assert sorted(discarded) == sorted(messages)
    check_ends(books, discarded=4)
    assert not never.observers
    assert future.cancelled()
    assert executor.wait_closed(timeout=0)


def test_dispose_after_the_loop_stopped_works_or_says_so(
    loop: asyncio.AbstractEventLoop, executor: KeyedExecutor
) -> None:
    # F41: the loop has stopped and is not closed.
    gate: Subject[int] = Subject()
    collector = Collector(10)
    dispatched([1, 2], lambda _: gate, executor).subscribe(collector)
    let_run(loop)
    executor.dispose()
    assert isinstance(collector.error, ExecutorClosedError)
    let_run(loop)
    assert executor.wait_closed(timeout=0)
    assert not gate.observers


def test_a_consumer_whose_loop_was_closed_holds_up_no_worker(
    loop: asyncio.AbstractEventLoop,
) -> None:
    # F44: the workers are alive; it is the loop that takes the results that is not.
    gate = Gate()

    async def consume(flowable: Flowable[int]) -> None:
        async for _ in flowable:
            pass

    with KeyedExecutor(2) as executor:
        consuming: Coroutine[Any, Any, None] = consume(dispatched(range(10), gate, executor))
        task = loop.create_task(consuming)
        let_run(loop)
        gate.wait_for_arrivals(2)
        loop.close()
        gate.let_go()
        # The workers live, and have time for others.
        assert sorted(results_of(dispatched(range(50), str, executor))) == sorted(map(str, range(50)))
        assert executor.drain(timeout=PATIENCE)
    assert not task.done()
    consuming.close()


def test_a_retry_that_never_comes_since_asyncio_run_has_ended_is_given_up_by_dispose() -> None:
    # F44: asyncio.run cancels what waits, then closes the loop.
    collector = Collector(10)
    discarded: list[int] = []

    async def main() -> KeyedExecutor:
        executor = KeyedExecutor.on_running_loop()

        async def handle(message: int) -> None:
            await asyncio.sleep(3600)

        dispatched(range(5), handle, executor, on_discard=discarded.append, on_failure=lambda *_: Retry(1)).subscribe(
            collector
        )
        await asyncio.sleep(0.01)
        return executor

    executor = asyncio.run(main())
    books = books_of(executor)
    executor.dispose()
    assert isinstance(collector.error, ExecutorClosedError)
    assert sorted(discarded) == [0, 1, 2, 3, 4]
    check_ends(books, discarded=5)
    assert executor.wait_closed(timeout=0)


def test_a_handler_that_is_collected_with_its_closed_loop_says_nothing() -> None:
    # A collection comes on any thread, at any moment, also while that thread holds a lock.
    ended = []

    class Ends(Collector):
        def on_error(self, error: Exception) -> None:
            ended.append(error)

    def leave() -> weakref.ref[object]:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)

        async def handle(message: int) -> None:
            await loop.create_future()

        async def begin() -> KeyedExecutor:
            executor = KeyedExecutor.on_running_loop()
            dispatched([1], handle, executor).subscribe(Ends(1))
            return executor

        executor = loop.run_until_complete(begin())
        let_run(loop)
        assert executor.statistics().dispatches[0].waiting == 1
        loop.close()
        return weakref.ref(handle)

    handler = leave()
    gc.collect()
    assert handler() is None
    assert ended == []
