import asyncio
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler

from rxwow.errors import BlockingCallError
from rxwow.streams import guard
from rxwow.streams.guard import (
    about_to_wait,
    allow_waiting,
    check_may_wait,
    emitting_scheduler,
    emitting_with,
    forbid_waiting,
    is_about_to_wait,
    may_wait,
    running_loop,
)


@pytest.fixture
def forbidden() -> Iterator[None]:
    """The test's own thread must not wait."""
    forbid_waiting(threading.get_ident(), "worker 3 of executor 'rxwow'")
    yield
    allow_waiting(threading.get_ident())


@pytest.mark.usefixtures("forbidden")
def test_forbidden_thread_is_refused_and_told_what_to_do() -> None:
    with pytest.raises(BlockingCallError) as raised:
        check_may_wait("run()", "subscribe instead")
    assert str(raised.value) == "run() would block worker 3 of executor 'rxwow'; subscribe instead"
    assert not may_wait()
    with about_to_wait():
        assert not may_wait()


@pytest.mark.usefixtures("forbidden")
def test_other_threads_may_wait() -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(may_wait()))
    thread.start()
    thread.join()
    assert answers == [True]


@pytest.mark.usefixtures("forbidden")
def test_thread_that_was_given_back_may_wait() -> None:
    allow_waiting(threading.get_ident())
    allow_waiting(threading.get_ident())
    check_may_wait("run()", "")
    assert may_wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("forbidden")
def test_forked_child_may_wait() -> None:
    """Its only thread has the identifier of the worker that forked."""
    child = os.fork()
    if child == 0:
        os._exit(0 if may_wait() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_thread_with_a_running_loop_may_wait_only_when_it_is_about_to() -> None:
    async def look() -> list[Any]:
        assert running_loop() is asyncio.get_running_loop()
        before = may_wait()
        with about_to_wait():
            return [before, may_wait()]

    assert asyncio.run(look()) == [False, True]
    assert running_loop() is None


def test_scopes_nest_and_end() -> None:
    outer, inner = CurrentThreadScheduler(), ImmediateScheduler()
    with emitting_with(outer):
        assert emitting_scheduler() is outer
        with emitting_with(inner):
            assert emitting_scheduler() is inner
        # What waits here must not be put off until after the wait.
        with about_to_wait():
            assert (is_about_to_wait(), emitting_scheduler()) == (True, None)
        assert (is_about_to_wait(), emitting_scheduler()) == (False, outer)
    assert emitting_scheduler() is None


def test_scopes_hold_on_their_thread_only() -> None:
    """F97: nothing is shared between threads; nor do tasks that are made meanwhile inherit it."""
    answers: list[Any] = []

    async def look() -> None:
        answers.append(is_about_to_wait())

    async def make() -> None:
        with about_to_wait():
            task = asyncio.ensure_future(look())
            thread = threading.Thread(target=lambda: answers.append(is_about_to_wait()))
            thread.start()
            thread.join()
        await task

    asyncio.run(make())
    assert answers == [False, False]


def test_thread_can_be_given_back_in_the_middle_of_a_look() -> None:
    """The collector comes when it likes; what it finds may be an executor that forbade its thread to wait."""

    def collect() -> None:
        with guard._lock:
            allow_waiting(threading.get_ident())

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
