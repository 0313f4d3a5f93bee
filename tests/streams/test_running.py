import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import reactivex
from reactivex import operators
from reactivex.internal.exceptions import SequenceContainsNoElementsError
from reactivex.run import run as rxpy_run
from reactivex.scheduler import ImmediateScheduler, NewThreadScheduler

from rxwow.errors import BlockingCallError
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import allow_waiting, forbid_waiting
from tests.streams.probe import PATIENCE_S
from tests.streams.sources import Source, SourceError, every_source


@every_source
def test_gives_the_last_item(source: Source) -> None:
    assert source.of(range(1000)).run() == 999


@every_source
def test_raises_on_empty_as_rxpy_does(source: Source) -> None:
    with pytest.raises(SequenceContainsNoElementsError):
        source.of([]).run()
    with pytest.raises(SequenceContainsNoElementsError):
        reactivex.empty().run()


@every_source
def test_raises_the_error(source: Source) -> None:
    error = SourceError()
    with pytest.raises(SourceError) as raised:
        source.of([1], error).run()
    assert raised.value is error


@pytest.mark.parametrize("last", [None, 0, False, ""], ids=repr)
def test_falsy_last_item_is_one(last: Any) -> None:
    """F73."""
    assert Flowable.from_iterable([1, last]).run() is last


def test_list_of_all_items() -> None:
    assert Flowable.from_iterable(range(5)).to_list().run() == [0, 1, 2, 3, 4]


def test_thread_that_must_not_wait_is_told_at_once() -> None:
    """F41."""
    subscribed: list[bool] = []
    forbid_waiting(threading.get_ident(), "worker 1 of executor 'rxwow'")
    try:
        with pytest.raises(BlockingCallError, match=r"run\(\) would block worker 1 of executor 'rxwow'; return"):
            Flowable.from_iterable(map(subscribed.append, [True])).run()
    finally:
        allow_waiting(threading.get_ident())
    assert subscribed == []


@every_source
def test_works_on_a_thread_with_a_running_loop(source: Source) -> None:
    """A notebook: the loop stands still while `run()` waits, so the source must not choose it."""

    async def cell() -> object:
        return source.of(range(10)).run()

    assert asyncio.run(cell()) == 9


def test_subscribes_on_the_scheduler() -> None:
    def here() -> Iterator[int]:
        yield threading.get_ident()

    assert Flowable.from_iterable(here).run() == threading.get_ident()
    assert Flowable.from_iterable(here).run(ImmediateScheduler()) == threading.get_ident()
    assert Flowable.from_iterable(here).run(NewThreadScheduler()) != threading.get_ident()


def test_subscribe_that_raises_on_the_scheduler_is_raised() -> None:
    def publish(*_: Any) -> Any:
        raise SourceError

    for scheduler in (None, NewThreadScheduler()):
        with pytest.raises(SourceError):
            Flowable[int](publish).run(scheduler)


def test_another_thread_may_run_too() -> None:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(Flowable.from_iterable([1]).run()))
    thread.start()
    thread.join(PATIENCE_S)
    assert results == [1]


# Interrupted by a real signal, since that is what must get through.

PROGRAM = """
import asyncio, itertools, os, sys, threading, traceback
from rxwow.streams.flowable import Flowable

def say(word):
    os.write(1, word.encode() + bytes([10]))  # in one step, as two threads may speak at once

def waiting():
    try:
        say("running")
        threading.Event().wait()
        yield 1
    finally:
        say("closed")

def busy():
    try:
        say("running")
        for number in itertools.count():
            yield number
    finally:
        say("closed")

async def awaiting():
    try:
        say("running")
        await asyncio.get_running_loop().create_future()
        yield 1
    finally:
        say("closed")

def silent():
    main = threading.get_ident()
    def watch():
        while True:
            stack = [frame.f_code for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
            if stack[0].co_name == "wait" and any(code.co_filename.endswith("running.py") for code in stack):
                break
        say("running")
    threading.Thread(target=watch).start()
    return Flowable.never()

source = {{
    "never": silent,
    "inline": lambda: Flowable.from_iterable(waiting),
    "busy": lambda: Flowable.from_iterable(busy),
    "async": lambda: Flowable.from_async_iterable(awaiting),
}}["{kind}"]()
try:
    source.run()
except KeyboardInterrupt:
    say("interrupted")
for thread in threading.enumerate():
    if thread.name == "rxwow-source":
        thread.join(10)
say("alive" if any(t.name == "rxwow-source" for t in threading.enumerate()) else "gone")
"""


def wait_until_asleep(pid: int) -> None:
    """Wait until the main thread of a process sleeps, where the system tells that.

    A signal that comes when Python has looked for signals, and not yet gone to sleep on a lock, is seen only when the
    lock is released.
    """
    state = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + PATIENCE_S
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT can be sent to one process there")
@pytest.mark.parametrize("kind", ["never", "inline", "busy", "async"])
def test_interrupt_cancels_the_source_and_goes_on(kind: str) -> None:
    """The wait itself must be interruptible, and the interrupt not be swallowed."""
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(kind=kind)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        if kind in ("never", "inline"):
            wait_until_asleep(process.pid)
        process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    said = output.split()
    assert said[-1] == "gone"
    assert "interrupted" in said
    if kind != "never":
        assert "closed" in said
    assert errors == ""


def test_interrupt_before_the_subscription_is_there_cancels_it_when_it_comes() -> None:
    """The scheduler may subscribe after the caller has left."""
    subscribe_now, subscribed = threading.Event(), threading.Event()
    pulled: list[int] = []

    class Late(NewThreadScheduler):
        def schedule(self, action: Any, state: Any = None) -> Any:
            def later(scheduler: Any, given: Any = None) -> None:
                assert subscribe_now.wait(PATIENCE_S)
                action(scheduler, given)
                subscribed.set()

            super().schedule(later, state)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Flowable.from_iterable(map(pulled.append, range(3))).run(Late())
    subscribe_now.set()
    assert subscribed.wait(PATIENCE_S)
    assert pulled == []


@every_source
def test_rxpy_run_of_an_operator_works_on_a_thread_with_a_running_loop(source: Source) -> None:
    """`to_list()` may be a plain Observable, whose `run()` is RxPY's and knows nothing of loops."""

    async def cell() -> object:
        return rxpy_run(source.of(range(10)).pipe(operators.to_list()))

    assert asyncio.run(cell()) == list(range(10))


def test_async_source_runs_elsewhere_when_its_own_loop_waits() -> None:
    async def where() -> AsyncIterator[int]:
        yield threading.get_ident()

    async def cell() -> object:
        return Flowable.from_async_iterable(where).run()

    assert asyncio.run(cell()) != threading.get_ident()
