"""Handlers that run in an executor of the user's, while their mailbox waits without a worker."""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import threading
from collections.abc import Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from random import Random
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import HandlerExit, InvalidArgumentError
from rxwow.testing import ControlledPlatform, ControlledThreadPool, run
from tests.execution import run_in_handlers
from tests.execution.collecting import PATIENCE, Arrivals, Collector, dispatched, results_of
from tests.execution.handlers import OrderWatch

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@pytest.fixture(scope="module")
def processes() -> Generator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def executor() -> Generator[KeyedExecutor]:
    with KeyedExecutor(1) as executor:
        yield executor


# A thread pool.


def test_handlers_run_in_the_pool_and_wait_without_a_worker(executor: KeyedExecutor) -> None:
    arrivals = Arrivals(4)
    go = threading.Event()

    def handle(message: int) -> str:
        arrivals.arrive()
        assert go.wait(PATIENCE)
        return threading.current_thread().name

    with ThreadPoolExecutor(4, thread_name_prefix="pool") as pool:
        collector = Collector(10)
        dispatched(range(4), handle, executor, run_in=pool).subscribe(collector)
        # All four at once, though there is one worker, which is free for others.
        assert arrivals.all_there.wait(PATIENCE)
        assert results_of(dispatched([1], str, executor)) == ["1"]
        assert executor.statistics().dispatches[0].waiting == 4
        go.set()
        assert collector.ended.wait(PATIENCE)
    assert {name.rpartition("_")[0] for name in collector.taken} == {"pool"}


def test_the_order_within_a_key_is_kept_in_the_pool() -> None:
    random = Random(7)
    messages = [(random.randrange(5), number) for number in range(400)]
    watch = OrderWatch()
    with ThreadPoolExecutor(4) as pool, KeyedExecutor(2) as executor:
        operator = keyed_dispatch(lambda message: message[0], watch, executor=executor, run_in=pool)
        results = results_of(Flowable.from_iterable(messages).pipe(operator))
    assert not watch.breaches
    assert sorted(results) == sorted(messages)


@pytest.mark.seeds(100, soak=5000)
def test_the_order_within_a_key_is_kept_under_every_schedule(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        pool = ControlledThreadPool(platform, 3)
        active: set[int] = set()

        def handle(message: int) -> int:
            assert message % 3 not in active, "two messages of a key at a time"
            active.add(message % 3)
            platform.point("in the pool")
            active.remove(message % 3)
            return message

        with KeyedExecutor(2) as executor:
            operator = keyed_dispatch(lambda message: message % 3, handle, executor=executor, run_in=pool)
            results = results_of(Flowable.from_iterable(range(15)).pipe(operator))
        for key in range(3):
            assert [message for message in results if message % 3 == key] == list(range(key, 15, 3))
        pool.shutdown()

    run(scenario, seed)


def test_a_handler_in_a_thread_pool_sees_the_context_and_leaks_nothing(executor: KeyedExecutor) -> None:
    def observe(message: int) -> str:
        seen = tenant.get()
        tenant.set(f"message {message}")
        return seen

    def subscribe(pool: Executor) -> list[Any]:
        tenant.set("caller")
        return results_of(dispatched(range(20), observe, executor, run_in=pool))

    with ThreadPoolExecutor(1) as pool:
        assert contextvars.copy_context().run(subscribe, pool) == ["caller"] * 20
        assert pool.submit(tenant.get).result(PATIENCE) == "nobody"


def test_what_fails_in_the_pool_is_the_messages_failure(executor: KeyedExecutor) -> None:
    attempts: list[int] = []

    def handle(message: int) -> int:
        attempts.append(message)
        if len(attempts) == 1:
            raise ValueError(message)
        return message

    def exits(message: int) -> None:
        raise SystemExit(message)

    with ThreadPoolExecutor(2) as pool:
        assert results_of(dispatched([1], handle, executor, run_in=pool, on_failure=lambda *_: Retry(0))) == [1]
        assert attempts == [1, 1]
        with pytest.raises(HandlerExit, match="SystemExit"):
            dispatched([1], exits, executor, run_in=pool).run()
    # A pool that was shut down refuses each message.
    with pytest.raises(RuntimeError, match="after shutdown"):
        dispatched([1], handle, executor, run_in=pool).run()
    assert results_of(dispatched([1, 2], handle, executor, run_in=pool, on_failure=SKIP)) == []


def test_a_cancel_takes_what_the_pool_has_not_begun_back(executor: KeyedExecutor) -> None:
    begun = threading.Event()
    go = threading.Event()
    handled: list[int] = []
    discarded: list[int] = []
    all_discarded = threading.Event()

    def handle(message: int) -> None:
        begun.set()
        handled.append(message)
        assert go.wait(PATIENCE)

    def discard(message: int) -> None:
        discarded.append(message)
        if len(discarded) == 4:
            all_discarded.set()

    with ThreadPoolExecutor(1) as pool:
        collector = Collector(10)
        dispatched(range(5), handle, executor, run_in=pool, on_discard=discard).subscribe(collector)
        assert begun.wait(PATIENCE)
        collector.subscription.cancel()
        in_time = all_discarded.wait(5)
        go.set()
    assert in_time, "what waits in the pool was not taken back"
    assert handled == [0]
    assert sorted(discarded) == [1, 2, 3, 4]


# A process pool.


def test_handlers_run_in_other_processes(processes: ProcessPoolExecutor, executor: KeyedExecutor) -> None:
    squares = results_of(dispatched(range(20), run_in_handlers.square, executor, run_in=processes))
    assert sorted(squares) == [number * number for number in range(20)]
    # A partial of such a function can be sent too.
    assert results_of(dispatched([3], partial(pow, 2), executor, run_in=processes)) == [8]
    ids = set(results_of(dispatched(range(20), run_in_handlers.process_id, executor, run_in=processes)))
    assert os.getpid() not in ids


def test_what_fails_in_another_process_is_the_messages_failure(
    processes: ProcessPoolExecutor, executor: KeyedExecutor
) -> None:
    with pytest.raises(ValueError, match="3"):
        dispatched([3], run_in_handlers.fail, executor, run_in=processes).run()
    # A message that can't be sent is a failed message too.
    unsendable: list[Any] = [lambda: 1, 4]
    operator = keyed_dispatch(id, run_in_handlers.square, executor=executor, run_in=processes, on_failure=SKIP)
    assert results_of(Flowable.from_iterable(unsendable).pipe(operator)) == [16]


def test_a_lambda_cant_run_in_a_process_and_is_refused_before_anything_is_asked_for(
    processes: ProcessPoolExecutor, executor: KeyedExecutor
) -> None:
    pulled: list[int] = []

    def source() -> Generator[int]:
        pulled.append(1)
        yield 1

    collector = Collector(10)
    dispatched(source(), lambda message: message, executor, run_in=processes).subscribe(collector)
    # At subscribe: before any worker has a say.
    assert collector.ended.is_set()
    assert isinstance(collector.error, InvalidArgumentError)
    assert "a function at the top level of a module" in str(collector.error)
    assert collector.error.__cause__ is not None
    assert not pulled
    assert not executor.statistics().dispatches


def test_a_broken_pool_fails_the_messages_and_not_the_executor(executor: KeyedExecutor) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as broken:
        with pytest.raises(BrokenProcessPool):
            dispatched([1], run_in_handlers.die, executor, run_in=broken).run()
        # From now on it refuses each message.
        with pytest.raises(BrokenProcessPool):
            dispatched([1], run_in_handlers.square, executor, run_in=broken).run()
        assert results_of(dispatched([1, 2], run_in_handlers.square, executor, run_in=broken, on_failure=SKIP)) == []
    assert results_of(dispatched([1], str, executor)) == ["1"]


# What is refused.


class AsyncCallable:
    async def __call__(self, message: int) -> int:
        return message


async def async_handler(message: int) -> int:
    return message


@pytest.mark.parametrize("handler", [async_handler, partial(async_handler), AsyncCallable()], ids=["a", "b", "c"])
def test_an_async_handler_is_refused_with_a_pool(handler: Any) -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(InvalidArgumentError, match="an async def runs on the workers, without run_in"),
    ):
        keyed_dispatch(hash, handler, run_in=pool)


def test_what_is_no_executor_is_refused(executor: KeyedExecutor) -> None:
    future: Future[Any] = Future()
    for value in (executor, 4, "threads", future):
        pool: Any = value
        with pytest.raises(InvalidArgumentError, match=r"run_in must be a concurrent\.futures\.Executor"):
            keyed_dispatch(hash, str, run_in=pool)
