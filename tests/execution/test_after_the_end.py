"""What is still running when its dispatch ends: it is let finish, counted as what it came to, and never emitted."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from reactivex.subject import Subject

from rxwow import KeyedExecutor, Retry
from rxwow.errors import ExecutorClosedError
from rxwow.execution import ExecutionHook
from rxwow.testing import ControlledPlatform, ControlledThreadPool, run
from tests.execution.books import books_of, check_ends
from tests.execution.collecting import PATIENCE, Arrivals, Collector, dispatched
from tests.execution.handlers import Gate


class Told(ExecutionHook):
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def message_failed(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
        self.events.append(("failed", item))

    def message_retried(self, dispatch: str, key: Any, item: Any, error: Exception, delay: float) -> None:
        self.events.append(("retried", item))

    def message_skipped(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
        self.events.append(("skipped", item))


# Plain handlers.


@pytest.mark.parametrize("end", ["cancel", "dispose"])
def test_a_plain_handler_that_returns_after_the_end_has_succeeded_and_its_result_is_dropped(end: str) -> None:
    gate = Gate()
    discarded: list[int] = []
    executor = KeyedExecutor(1)
    collector = Collector(10)
    dispatched([1, 2], gate, executor, on_discard=discarded.append).subscribe(collector)
    gate.wait_for_arrivals(1)
    books = books_of(executor)
    collector.subscription.cancel() if end == "cancel" else executor.dispose()
    assert books.statistics().window.in_flight == 1
    gate.let_go()
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert collector.taken == []
    assert discarded == [2]
    check_ends(books, succeeded=1, discarded=1)


def test_a_handler_that_fails_after_the_end_is_not_tried_again_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # F62: no retry is decided, and nobody's counter of retries is touched.
    gate, told = Gate(), Told()
    asked: list[int] = []

    def handle(message: int) -> None:
        gate(message)
        raise ValueError(message)

    def policy(message: int, error: Exception) -> Retry:
        asked.append(message)
        return Retry(0)

    executor = KeyedExecutor(1)
    executor.add_hook(told)
    collector = Collector(10)
    dispatched([1], handle, executor, on_failure=policy, name="shop").subscribe(collector)
    gate.wait_for_arrivals(1)
    books = books_of(executor)
    executor.dispose()
    gate.let_go()
    assert executor.wait_closed(PATIENCE)
    assert asked == []
    assert told.events == [("failed", 1)]
    (record,) = [record for record in caplog.records if record.name.startswith("rxwow")]
    assert (record.name, record.levelname) == ("rxwow.execution", "ERROR")
    assert record.getMessage() == "a handler of shop failed after its end, for key 1"
    assert isinstance(collector.error, ExecutorClosedError)
    check_ends(books, failed=1)


# Coroutines.


def test_a_cancelled_coroutines_message_is_discarded_on_its_worker() -> None:
    # F52: our own cancel is not the handler's outcome, and the message is left to be delivered again.
    arrivals = Arrivals(4)
    discarded: list[tuple[int, str]] = []
    ran_on: dict[int, str] = {}

    async def handle(message: int) -> None:
        ran_on[message] = threading.current_thread().name
        arrivals.arrive()
        await asyncio.sleep(3600)

    executor = KeyedExecutor(2, name="till")
    collector = Collector(10)
    dispatched(
        range(4),
        handle,
        executor,
        on_discard=lambda message: discarded.append((message, threading.current_thread().name)),
    ).subscribe(collector)
    assert arrivals.all_there.wait(PATIENCE)
    books = books_of(executor)
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert dict(discarded) == ran_on
    assert len(discarded) == 4
    check_ends(books, discarded=4)


def test_a_coroutine_that_ends_well_in_spite_of_its_cancel_has_succeeded() -> None:
    arrivals = Arrivals(2)
    discarded: list[str] = []
    told = Told()

    async def handle(message: str) -> str:
        arrivals.arrive()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if message == "fails":
                raise ValueError(message) from None
        return message

    executor = KeyedExecutor(1)
    executor.add_hook(told)
    dispatched(["returns", "fails"], handle, executor, on_discard=discarded.append).subscribe(Collector(10))
    assert arrivals.all_there.wait(PATIENCE)
    books = books_of(executor)
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert discarded == []
    assert told.events == [("failed", "fails")]
    check_ends(books, succeeded=1, failed=1)


def test_a_cancelled_coroutine_may_take_its_time_to_clean_up() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        cleaned: list[int] = []

        async def handle(message: int) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(5)
                cleaned.append(message)

        executor = KeyedExecutor(2)
        discarded: list[int] = []
        dispatched(range(6), handle, executor, on_discard=discarded.append).subscribe(Collector(10))
        platform.sleep(1)
        executor.dispose()
        assert not executor.wait_closed(timeout=4)
        assert executor.wait_closed(timeout=4)
        assert sorted(cleaned) == sorted(discarded) == list(range(6))

    run(scenario)


# Futures and Observables, which end on other threads: the worker's may be gone by then.


@pytest.mark.parametrize("well", [True, False])
def test_a_future_that_completes_when_its_worker_has_gone_is_accounted_for(
    well: bool, caplog: pytest.LogCaptureFixture
) -> None:
    # F44, F58.
    caplog.set_level(logging.DEBUG, "rxwow")
    future: Future[int] = Future()
    future.set_running_or_notify_cancel()
    arrivals = Arrivals(1)
    told, discarded = Told(), list[int]()

    def handle(message: int) -> Future[int]:
        arrivals.arrive()
        return future

    executor = KeyedExecutor(1)
    executor.add_hook(told)
    collector = Collector(10)
    dispatched([1], handle, executor, on_discard=discarded.append).subscribe(collector)
    assert arrivals.all_there.wait(PATIENCE)
    books = books_of(executor)
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert books.statistics().window.in_flight == 1
    if well:
        future.set_result(1)
    else:
        future.set_exception(ValueError("late"))
    check_ends(books, succeeded=int(well), failed=int(not well))
    assert discarded == []
    assert told.events == ([] if well else [("failed", 1)])
    assert [record.levelname for record in caplog.records] == ([] if well else ["ERROR"])
    assert collector.taken == []


def test_a_future_that_completes_just_before_the_loop_is_closed_is_accounted_for() -> None:
    # What its worker's loop is asked for then, it will not do any more.
    future: Future[int] = Future()
    future.set_running_or_notify_cancel()
    arrivals = Arrivals(1)

    class Loop(asyncio.SelectorEventLoop):
        def close(self) -> None:
            future.set_result(1)
            super().close()

    def handle(message: int) -> Future[int]:
        arrivals.arrive()
        return future

    executor = KeyedExecutor(1, loop_factory=Loop)
    dispatched([1], handle, executor).subscribe(Collector(10))
    assert arrivals.all_there.wait(PATIENCE)
    books = books_of(executor)
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    check_ends(books, succeeded=1)


def test_a_handler_in_a_pool_outlives_the_executor() -> None:
    gate = Gate()
    with ThreadPoolExecutor(1) as pool:
        executor = KeyedExecutor(1)
        dispatched([1], gate, executor, run_in=pool).subscribe(Collector(10))
        gate.wait_for_arrivals(1)
        books = books_of(executor)
        executor.dispose()
        # It does not wait for what it can't end.
        assert executor.wait_closed(PATIENCE)
        gate.let_go()
    check_ends(books, succeeded=1)


def test_an_observable_that_completes_after_the_end_was_discarded_before() -> None:
    subject: Subject[int] = Subject()
    arrivals = Arrivals(2)
    discarded: list[int] = []

    def handle(message: int) -> Any:
        arrivals.arrive()
        return subject

    executor = KeyedExecutor(1)
    dispatched([1, 2], handle, executor, on_discard=discarded.append).subscribe(Collector(10))
    assert arrivals.all_there.wait(PATIENCE)
    books = books_of(executor)
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert not subject.observers
    subject.on_completed()
    assert sorted(discarded) == [1, 2]
    check_ends(books, discarded=2)


@pytest.mark.seeds(300, soak=10_000)
def test_whatever_ends_late_ends_once_under_every_schedule(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    # F50, F58.
    caplog.set_level(logging.CRITICAL + 1, "rxwow")

    def scenario(platform: ControlledPlatform) -> None:
        pool = ControlledThreadPool(platform, 2)
        succeeded: Counter[int] = Counter()
        discarded: Counter[int] = Counter()
        told = Told()

        def work(message: int) -> int:
            # Virtual time, so that it may end long after everything else.
            platform.sleep(platform.random.choice([0, 0.001, 1]))
            if message % 5 == 4:
                raise ValueError(message)
            succeeded[message] += 1
            return message

        executor = KeyedExecutor(2)
        executor.add_hook(told)
        dispatched(range(8), work, executor, run_in=pool, on_discard=lambda n: discarded.update([n])).subscribe(
            Collector(10)
        )
        books = books_of(executor) if executor._dispatches else None
        for _ in range(platform.random.randrange(40)):
            platform.point("waits")
        executor.dispose()
        executor.wait_closed()
        pool.shutdown()
        ends = succeeded + discarded + Counter(message for _, message in told.events)
        assert set(ends.values()) <= {1}, ends
        if books is not None:
            check_ends(books, succeeded=succeeded.total(), failed=len(told.events), discarded=discarded.total())

    run(scenario, seed)
