"""An executor that nobody has ended: it ends by itself, says so by name, and does both even if warnings are errors."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable

import pytest

from rxwow import Flowable, KeyedExecutor
from rxwow.streams.guard import may_wait
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of


def python(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


# Collected.


def forget(make: Callable[[], KeyedExecutor]) -> None:
    """Make an executor, and see it collected, once its workers have come back from what they did last."""
    collected = threading.Event()
    # Kept, or it would not be called.
    reference = weakref.ref(make(), lambda _: collected.set())
    for _ in range(1000):
        gc.collect()
        if collected.wait(0.01):
            return
    pytest.fail(f"{reference()} was not collected")


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


def used(name: str) -> KeyedExecutor:
    executor = KeyedExecutor(2, name=name)
    results_of(dispatched(range(100), str, executor))
    return executor


def test_a_collected_executor_ends_its_threads_and_is_named() -> None:
    threads: list[threading.Thread] = []

    def make() -> KeyedExecutor:
        executor = used("lost")
        threads.extend(threads_of("lost"))
        return executor

    with pytest.warns(ResourceWarning, match="executor 'lost' was neither drained nor disposed"):
        forget(make)
    assert threads
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_collected_executor_ends_its_threads_also_if_warnings_are_errors() -> None:
    threads: list[threading.Thread] = []

    def make() -> KeyedExecutor:
        executor = used("strict")
        threads.extend(threads_of("strict"))
        return executor

    forget(make)
    assert threads
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("state", ["unused", "disposed", "drained"])
@pytest.mark.filterwarnings("error")
def test_an_executor_that_has_no_thread_to_end_goes_without_a_word(
    state: str, recwarn: pytest.WarningsRecorder
) -> None:
    def make() -> KeyedExecutor:
        executor = KeyedExecutor(2) if state == "unused" else used(state)
        if state == "disposed":
            executor.dispose()
            assert executor.wait_closed(PATIENCE)
        elif state == "drained":
            assert executor.drain()
        return executor

    forget(make)
    assert not recwarn.list


def test_a_forgotten_executor_on_a_loop_gives_the_loops_thread_back() -> None:
    # Else a run() on this thread would be refused for ever, long after the loop has gone.
    async def main() -> None:
        executor = KeyedExecutor.on_running_loop()
        assert not may_wait()
        assert executor.statistics().state == "open"

    asyncio.run(main())
    gc.collect()
    assert may_wait()
    assert Flowable.from_iterable([1]).run() == 1


def test_what_is_at_work_is_not_forgotten() -> None:
    # F47: a coroutine that waits keeps its executor, though nobody else does.
    collector = Collector(10)
    begun, go = threading.Event(), threading.Event()

    async def handle(message: int) -> int:
        begun.set()
        await asyncio.to_thread(go.wait, PATIENCE)
        return message

    def subscribe() -> weakref.ref[KeyedExecutor]:
        executor = KeyedExecutor(1, name="busy")
        dispatched([1, 2], handle, executor).subscribe(collector)
        return weakref.ref(executor)

    busy = subscribe()
    del collector.subscription
    assert begun.wait(PATIENCE)
    gc.collect()
    executor: KeyedExecutor | None = busy()
    assert executor is not None
    go.set()
    assert collector.ended.wait(PATIENCE)
    assert sorted(collector.taken) == [1, 2]
    assert executor.drain()


# At the exit of the process.

UNFINISHED = """
import sys
from rxwow import Flowable, KeyedExecutor, keyed_dispatch

def dispatched(executor, name):
    handler = lambda n: n
    dispatch = keyed_dispatch(lambda n: 0, handler, executor=executor)
    source = Flowable.never()
    return source.pipe(dispatch).subscribe(on_error=lambda error: print(name, type(error).__name__))

def used(name):
    executor = KeyedExecutor(workers=1, name=name)
    Flowable.from_iterable([1]).pipe(keyed_dispatch(lambda n: 0, lambda n: n, executor=executor)).run()
    return executor
"""


@pytest.mark.parametrize("filters", ["always", "error"])
def test_all_that_are_forgotten_at_exit_are_disposed_and_named(filters: str) -> None:
    result = python(
        UNFINISHED
        + textwrap.dedent("""
        first, second = used("first"), used("second")
        kept = dispatched(first, "first"), dispatched(second, "second")
        """),
        "-W",
        filters,
    )
    assert sorted(result.stdout.splitlines()) == ["first ExecutorClosedError", "second ExecutorClosedError"]
    named = [
        name
        for name in ("first", "second")
        if f"executor '{name}' was neither drained nor disposed before the process ended" in result.stderr
    ]
    # Of several errors at the exit, Python shows the last.
    assert named == ["first", "second"] if filters == "always" else named


def test_an_open_dispatch_alone_is_enough_to_be_forgotten() -> None:
    # No worker was ever needed, but there is a subscriber who was promised an end.
    result = python(
        UNFINISHED + 'executor = KeyedExecutor(workers=1, name="idle")\nkept = dispatched(executor, "idle")\n',
        "-W",
        "always",
    )
    assert result.stdout == "idle ExecutorClosedError\n"
    assert "executor 'idle'" in result.stderr


def test_an_executor_on_a_loop_that_is_forgotten_at_exit_ends_its_dispatches() -> None:
    result = python(
        UNFINISHED
        + textwrap.dedent("""
        import asyncio

        async def main():
            executor = KeyedExecutor.on_running_loop(name="onloop")
            return executor, dispatched(executor, "onloop")

        kept = asyncio.run(main())
        """),
        "-W",
        "always",
    )
    assert result.stdout == "onloop ExecutorClosedError\n"
    assert "executor 'onloop'" in result.stderr


def test_a_handler_that_runs_at_exit_does_not_hold_the_process() -> None:
    # F38: threads are daemons; what is queued is discarded, so that whoever sent it can send it again.
    result = python(
        """
        import threading
        from rxwow import Flowable, KeyedExecutor, keyed_dispatch
        executor = KeyedExecutor(workers=1, name="stuck")
        begun = threading.Event()

        def handler(number):
            begun.set()
            threading.Event().wait()

        discarded = []
        dispatch = keyed_dispatch(lambda n: 0, handler, executor=executor, on_discard=print)
        kept = Flowable.from_iterable([1, 2, 3]).pipe(dispatch).subscribe(on_error=lambda _: None)
        assert begun.wait(30)
        """,
        "-W",
        "always",
    )
    assert (result.returncode, result.stdout) == (0, "2\n3\n")
    assert "executor 'stuck'" in result.stderr
