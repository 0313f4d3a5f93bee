"""@blocking: handlers that hold up their thread, on threads of their own."""

import contextvars
import functools
import itertools
import threading
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, blocking, keyed_dispatch
from rxwow.errors import BlockingPoolFullError, ExecutorClosedError, InvalidArgumentError
from rxwow.execution.elastic_pool import ElasticPool
from rxwow.execution.parallelism import available_cpus
from rxwow.testing import ControlledPlatform, DeterministicExecutor, run

PATIENCE_S = 20


def add_one(number: int) -> int:
    return number + 1


def test_a_blocking_handler_holds_no_worker() -> None:
    """More of them than there are workers wait side by side, and a plain handler goes on beside them."""
    meeting = threading.Barrier(6, timeout=PATIENCE_S)

    @blocking
    def meet(number: int) -> str:
        meeting.wait()
        return threading.current_thread().name

    with KeyedExecutor(1) as executor:
        plain = keyed_dispatch(int, add_one, executor=executor)
        waiting = Flowable.from_iterable(range(5)).pipe(
            keyed_dispatch(lambda number: number, meet, executor=executor), lambda source: source.to_list()
        )
        results: list[list[str]] = []
        waiting.subscribe(results.append)
        assert Flowable.from_iterable([1]).pipe(plain).run() == 2
        meeting.wait()
    assert sorted(results[0]) == [f"rxwow-blocking-{number}" for number in range(1, 6)]


@pytest.mark.seeds(60, soak=3_000)
def test_order_in_a_key_holds(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        started: dict[int, list[int]] = defaultdict(list)
        running: set[int] = set()

        @blocking
        def handle(number: int) -> int:
            key = number % 3
            assert key not in running
            running.add(key)
            started[key].append(number)
            platform.event().wait(timeout=random.choice([0, 1, 2]))
            running.discard(key)
            if random.random() < 0.1:
                raise ValueError(number)
            return number

        with KeyedExecutor(2) as executor:
            dispatch = keyed_dispatch(
                lambda number: number % 3, handle, executor=executor, on_failure=SKIP, max_in_flight=8
            )
            list_of_all: Any = Flowable.from_iterable(range(20)).pipe(dispatch, lambda source: source.to_list())
            list_of_all.run()
        assert dict(started) == {key: list(range(key, 20, 3)) for key in range(3)}

    run(scenario, seed)


def test_the_context_of_the_subscription_goes_along() -> None:
    tenant = contextvars.ContextVar("tenant", default="none")

    @blocking
    def read(_: int) -> str:
        before = tenant.get()
        tenant.set("changed")
        return before

    with KeyedExecutor(1) as executor:
        tenant.set("ann")
        seen = Flowable.from_iterable(range(3)).pipe(
            keyed_dispatch(lambda number: number % 2, read, executor=executor), lambda source: source.to_list()
        )
        assert seen.run() == ["ann"] * 3


def test_an_error_is_the_message_s() -> None:
    @blocking
    def fail(_: int) -> None:
        raise ValueError("no")

    with KeyedExecutor(1) as executor, pytest.raises(ValueError, match="no"):
        Flowable.from_iterable([1]).pipe(keyed_dispatch(str, fail, executor=executor)).run()


def test_called_by_anybody_else_it_is_what_it_was() -> None:
    class Store:
        @blocking
        def put(self, item: str, *, twice: bool = False) -> str:
            """Keep it."""
            return item * (1 + twice)

    assert Store().put("a", twice=True) == "aa"
    assert Store.put.__doc__ == "Keep it."
    with KeyedExecutor(1) as executor:
        for handler in (Store().put, functools.partial(Store().put, twice=False)):
            result = Flowable.from_iterable(["b"]).pipe(keyed_dispatch(str, handler, executor=executor))
            assert result.run() == "b"
        # The thread of the first may not have become idle before the second came.
        threads, _, queued = executor.blocking_pool().statistics()
        assert (threads in (1, 2), queued) == (True, 0)


def test_an_object_whose_call_is_marked_blocks_too() -> None:
    class Store:
        @blocking
        def __call__(self, item: str) -> str:
            return threading.current_thread().name

    with KeyedExecutor(1) as executor:
        name = Flowable.from_iterable(["b"]).pipe(keyed_dispatch(str, Store(), executor=executor)).run()
    assert name == "rxwow-blocking-1"


def test_run_in_is_stronger() -> None:
    with ThreadPoolExecutor(1, "mine") as pool, KeyedExecutor(1) as executor:
        marked = blocking(lambda _: threading.current_thread().name)
        dispatch = keyed_dispatch(str, marked, executor=executor, run_in=pool)
        assert Flowable.from_iterable(["b"]).pipe(dispatch).run().startswith("mine")


async def waits() -> None:
    pass


async def generates() -> Any:
    yield 1


@pytest.mark.parametrize("handler", [waits, generates, 3], ids=["coroutine", "generator", "no function"])
def test_what_has_a_loop_to_wait_on_is_refused(handler: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="handler must be"):
        blocking(handler)


# The pool.


def test_threads_are_made_on_demand_and_given_up_when_idle() -> None:
    with DeterministicExecutor() as executor:
        platform = executor.platform
        pool = ElasticPool("pool", platform, most_threads=3)
        gate = platform.event()
        futures = [pool.submit(gate.wait) for _ in range(5)]
        assert pool.statistics() == (3, 0, 2)
        gate.set()
        platform.event().wait(timeout=1)
        assert [future.done() for future in futures] == [True] * 5
        assert pool.statistics() == (3, 3, 0)
        platform.event().wait(timeout=58)
        assert pool.statistics() == (3, 3, 0)
        # The one that is used is kept for as long again.
        pool.submit(platform.monotonic)
        platform.event().wait(timeout=10)
        assert pool.statistics() == (1, 1, 0)
        platform.event().wait(timeout=60)
        assert pool.statistics() == (0, 0, 0)
        ended = platform.event()
        pool.stop(ended.set)
        assert ended.is_set()


def test_too_many_are_refused_with_what_to_do() -> None:
    with DeterministicExecutor() as executor:
        platform = executor.platform
        pool = ElasticPool("pool", platform, most_threads=1, most_queued=2)
        gate = platform.event()
        for _ in range(3):
            pool.submit(gate.wait)
        with pytest.raises(BlockingPoolFullError, match=r"all 1 threads of executor 'pool' .* and 2 messages wait"):
            pool.submit(gate.wait)
        gate.set()
        stopped = platform.event()
        pool.stop(stopped.set)
        stopped.wait()
        with pytest.raises(ExecutorClosedError):
            pool.submit(gate.wait)


@pytest.mark.seeds(100, soak=5_000)
def test_every_call_is_made_once_or_was_cancelled(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        pool = ElasticPool("pool", platform, most_threads=random.randint(1, 3), idle_time=random.choice([0, 1, 5]))
        calls: list[int] = []
        futures: list[Future[int]] = []
        numbers = itertools.count()

        def call(number: int) -> int:
            calls.append(number)
            platform.event().wait(timeout=random.choice([0, 0, 1]))
            if number % 5 == 4:
                raise ValueError(number)
            return number

        def submit() -> None:
            for _ in range(4):
                future = pool.submit(call, next(numbers))
                futures.append(future)
                if random.random() < 0.2:
                    future.cancel()
                if random.random() < 0.2:
                    platform.event().wait(timeout=random.choice([1, 6]))

        threads = [platform.thread(submit, f"submitting {number}") for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stopped = platform.event()
        pool.stop(stopped.set)
        stopped.wait()
        assert pool.statistics() == (0, 0, 0)
        assert all(future.done() for future in futures)
        assert len(calls) == len(set(calls)) == sum(not future.cancelled() for future in futures)

    run(scenario, seed)


def test_the_limit_is_ten_threads_for_each_cpu() -> None:
    with DeterministicExecutor() as executor:
        platform = executor.platform
        gate = platform.event()
        pool = executor.blocking_pool()
        futures = [pool.submit(gate.wait) for _ in range(10 * available_cpus() + 1)]
        assert pool.statistics() == (10 * available_cpus(), 0, 1)
        gate.set()
        assert executor.drain()
        assert executor.wait_closed()
        assert all(future.done() for future in futures)


def test_what_is_disposed_while_it_waits_for_a_thread_is_not_called() -> None:
    with DeterministicExecutor(workers=1) as executor:
        platform = executor.platform
        gate = platform.event()
        discarded: list[int] = []

        @blocking
        def handle(number: int) -> None:
            gate.wait()

        threads = 10 * available_cpus()
        dispatch = keyed_dispatch(
            lambda number: number, handle, executor=executor, max_in_flight=threads + 3, on_discard=discarded.append
        )
        Flowable.from_iterable(range(threads + 3)).pipe(dispatch).subscribe(on_error=lambda _: None)
        platform.event().wait(timeout=1)
        executor.dispose()
        gate.set()
        assert executor.wait_closed()
        platform.event().wait(timeout=1)
    assert discarded == [threads, threads + 1, threads + 2]
