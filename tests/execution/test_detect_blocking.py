"""detect_blocking: what would hold a worker raises in its handler, and everything else is left alone."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import queue
import socket
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import reactivex

from rxwow import SKIP, Flowable, KeyedExecutor, blocking, keyed_dispatch
from rxwow.errors import BlockingCallError, RxwowError, UsageError
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of

MOMENT = 0.001


@pytest.fixture(autouse=True)
def _all_is_put_back() -> Generator[None]:
    before = originals()
    yield
    assert originals() == before


def originals() -> list[Any]:
    lock: Any = type(threading.Lock())
    return [time.sleep, os.listdir, socket.socket.recv, lock.acquire, lock.acquire_lock]


@contextmanager
def detecting(workers: int = 1, **options: Any) -> Generator[KeyedExecutor]:
    with KeyedExecutor(workers, detect_blocking=True, **options) as executor:
        yield executor


# What is detected.


def receive() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.recv(1)


def acquire() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=MOMENT)


def read() -> None:
    with Path(__file__).open(encoding="utf-8") as file:
        file.read()


BLOCKS: dict[str, Callable[[], object]] = {
    "time.sleep": lambda: time.sleep(MOMENT),
    "socket.socket.recv": receive,
    "lock.acquire": acquire,
    "io.TextIOWrapper.read": read,
    "os.listdir": lambda: os.listdir(),  # noqa: PLW0108, PTH208 - looked up when it is called, as code does.
    "Event.wait": lambda: threading.Event().wait(MOMENT),
    "Queue.get": lambda: queue.Queue[int]().get(timeout=MOMENT),
    "Future.result": lambda: Future[int]().result(MOMENT),
    "Observable.run": lambda: reactivex.timer(MOMENT).run(),
}


@pytest.mark.parametrize("call", BLOCKS)
def test_a_call_that_blocks_raises_in_the_handler(call: str) -> None:
    def handler(_: int) -> None:
        BLOCKS[call]()

    with detecting() as executor, pytest.raises(BlockingCallError) as caught:
        dispatched([1], handler, executor, name="orders").run()
    assert caught.value.call == (call if call[0].islower() else "lock.acquire")
    message = str(caught.value)
    assert message.startswith(f"{caught.value.call} would block the worker of orders's handler, at ")
    # The user's own line, not one of the library's that it has called.
    line = {"socket.socket.recv": "one.recv(1)", "io.TextIOWrapper.read": "file.read()"}.get(call, "")
    assert f"{Path(__file__).name}:" in message
    assert line in message
    assert "@blocking" in message


def hold() -> None:
    time.sleep(MOMENT)


async def in_coroutine(_: int) -> None:
    hold()


async def after_await(_: int) -> None:
    await asyncio.sleep(0)
    hold()


async def in_task(number: int) -> None:
    await asyncio.create_task(in_coroutine(number))


async def in_generator(number: int) -> AsyncIterator[int]:
    yield number
    hold()


def in_partial_step(number: int) -> Any:
    hold()
    return in_coroutine(number)


@pytest.mark.parametrize("handler", [in_coroutine, after_await, in_task, in_generator, in_partial_step])
def test_handlers_of_all_kinds_are_watched(handler: Callable[[int], Any]) -> None:
    with detecting() as executor, pytest.raises(BlockingCallError, match=f"{handler.__name__}'s handler"):
        dispatched([1], handler, executor).run()


def test_it_is_the_failure_of_that_message_alone() -> None:
    def handler(number: int) -> int:
        if number % 2:
            hold()
        return number

    with detecting(2) as executor:
        assert sorted(results_of(dispatched(range(10), handler, executor, on_failure=SKIP))) == [0, 2, 4, 6, 8]


# What is left alone.


def test_handlers_that_may_block_may() -> None:
    @blocking
    def marked(number: int) -> int:
        hold()
        return number

    def pooled(number: int) -> int:
        hold()
        return number

    with detecting() as executor, ThreadPoolExecutor(1) as pool:
        assert results_of(dispatched([1, 2], marked, executor)) == [1, 2]
        assert results_of(dispatched([1, 2], pooled, executor, run_in=pool)) == [1, 2]


def test_what_does_not_block_is_let_through() -> None:
    def handler(number: int) -> int:
        lock = threading.Lock()
        assert lock.acquire()
        assert not lock.acquire(blocking=False)
        one, other = socket.socketpair()
        with one, other:
            other.send(b"x") if other.getblocking() is False else other.setblocking(False)
            one.setblocking(False)
            other.send(b"x")
            assert one.recv(1) == b"x"
        event = threading.Event()
        event.set()
        assert event.wait()
        return number

    with detecting() as executor:
        assert dispatched([1], handler, executor).run() == 1


def test_other_threads_loops_and_executors_are_left_alone() -> None:
    def sleeps(number: int) -> int:
        hold()
        return number

    async def own_loop() -> list[int]:
        hold()
        async with KeyedExecutor.on_running_loop() as here:
            return [result async for result in dispatched([7], sleeps, here)]

    with detecting(2) as executor, KeyedExecutor(1) as other:
        assert dispatched([1], str, executor).run() == "1"
        assert results_of(dispatched([1, 2], sleeps, other)) == [1, 2]
        assert asyncio.run(own_loop()) == [7]
        hold()
        # The one watches still, and the other doesn't, for a dispatch that a watched handler has made too.
        nested = dispatched([1], lambda _: dispatched([5], sleeps, other), executor)
        assert nested.run() == 5
        with pytest.raises(BlockingCallError):
            dispatched([1], sleeps, executor).run()


def test_sources_and_subscribers_on_a_worker_are_left_alone() -> None:
    # They are no handlers; a source that is slow has a warning of its own.
    threads: list[str] = []

    def by_three(number: int) -> int:
        return number % 3

    def numbers() -> Generator[int]:
        for number in range(40):
            threads.append(threading.current_thread().name)
            hold()
            yield number

    class Taker(Collector):
        def on_next(self, value: Any) -> None:
            threads.append(threading.current_thread().name)
            hold()
            super().on_next(value)

    taker = Taker(1000)
    with detecting(name="watched", max_in_flight=4) as executor:
        Flowable.from_iterable(numbers()).pipe(keyed_dispatch(by_three, str, executor=executor)).subscribe(taker)
        assert taker.ended.wait(PATIENCE)
    assert taker.error is None
    assert len(taker.taken) == 40
    assert "watched-0" in threads


def test_a_handler_may_log_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("tests.detect_blocking")
    target = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    logger.addHandler(target)
    monkeypatch.setattr(logging, "raiseExceptions", True)

    def handler(number: int) -> None:
        logger.error("handles %d", number)

    try:
        with detecting() as executor:
            dispatched([1], handler, executor).run()
    finally:
        logger.removeHandler(target)
        target.close()
    assert (tmp_path / "log").read_text(encoding="utf-8") == "handles 1\n"


def test_what_rxwow_waits_for_on_behalf_of_a_handler_is_let_through() -> None:
    # The test platform's threads wait for each other inside handlers all the time.

    def scenario(platform: ControlledPlatform) -> list[int]:
        executor = KeyedExecutor(2, detect_blocking=True)

        def handler(number: int) -> int:
            platform.sleep(1)
            return number

        results = results_of(dispatched(range(4), handler, executor))
        executor.drain()
        return results

    assert sorted(run(scenario)) == [0, 1, 2, 3]


# The end.


def test_it_lasts_as_long_as_any_executor_that_asks_for_it() -> None:
    before = originals()
    with detecting() as first:
        assert originals() == before
        dispatched([1], str, first).run()
        assert originals() != before
        with detecting() as second:
            dispatched([1], str, second).run()
        with pytest.raises(BlockingCallError):
            dispatched([1], in_coroutine, first).run()
    assert originals() == before


def test_a_forgotten_executor_puts_all_back() -> None:

    def use() -> weakref.ref[KeyedExecutor]:
        executor = KeyedExecutor(1, detect_blocking=True, slow_turn=None, name="unended")
        dispatched([1], str, executor).run()
        return weakref.ref(executor)

    def forget() -> None:
        reference = use()
        for _ in range(1000):
            gc.collect()
            threads = [thread for thread in threading.enumerate() if thread.name == "unended-0"]
            if reference() is None and not threads:
                return
            for thread in threads:
                thread.join(0.01)
        pytest.fail("it was not collected")

    with pytest.warns(ResourceWarning, match="unended"):
        forget()


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blockbuster", None)
    with pytest.raises(UsageError, match=r'pip install "rxwow\[debug\]"') as caught:
        KeyedExecutor(1, detect_blocking=True)
    assert isinstance(caught.value, RxwowError)
    KeyedExecutor(1)
