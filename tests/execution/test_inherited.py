"""What a forked child inherits: an executor without its threads, which it can neither use nor end."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PARENT = """
import asyncio, os, threading
from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError

handled, ended = threading.Event(), threading.Event()
go = threading.Event()

def handler(number):
    handled.set()
    assert go.wait(30)
    return number

def refused(call):
    try:
        call()
    except ExecutorClosedError as error:
        assert "'parents'" in str(error) and "made before this process was forked" in str(error), error
    else:
        raise AssertionError(f"{call} was not refused")

def in_child(work):
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status

def total(executor):
    operator = keyed_dispatch(lambda n: 0, lambda n: n, executor=executor)
    return Flowable.from_iterable(range(5)).pipe(operator).run()

idle = KeyedExecutor(workers=1, name="idle")
assert total(idle) == 4
own = KeyedExecutor(workers=1, name="parents")
discarded, results = [], []
dispatch = keyed_dispatch(lambda n: 0, handler, executor=own, on_discard=discarded.append)
Flowable.from_iterable(range(3)).pipe(dispatch).subscribe(results.append, on_completed=ended.set)
assert handled.wait(30)
"""

AFTERWARDS = """
# The parent's executor is as it was: what was accepted finishes, and its threads end.
go.set()
assert ended.wait(30)
assert own.drain(30)
assert total(idle) == 4
assert idle.drain(30)
assert results == [0, 1, 2] and discarded == [], (results, discarded)
"""


def check(child: str) -> None:
    """Run a program in which a parent with a busy executor forks a child that does `child`."""
    program = (
        f"{PARENT}\ndef child():\n{textwrap.indent(textwrap.dedent(child), '    ')}\nin_child(child)\n{AFTERWARDS}"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert not result.stderr, result.stderr
    assert (result.returncode, result.stdout) == (0, "")


def test_what_would_end_or_wait_for_the_parents_threads_is_refused() -> None:
    # In the child it would wait for threads that are not there, or stop the parent's loops through shared pipes.
    check(
        """
        for call in (own.dispose, own.drain, own.wait_closed, own.statistics, own.__enter__):
            refused(call)
        for call in (own.drain_async, own.wait_closed_async, own.__aenter__):
            refused(lambda: asyncio.run(call()))
        assert discarded == []
        """
    )


def test_a_dispatch_on_it_ends_with_an_error_though_its_lock_was_held_at_the_fork() -> None:
    # Whoever held it is not in the child, where nobody will release it.
    check(
        """
        own._lock.acquire(blocking=False)
        refused(Flowable.from_iterable([1]).pipe(keyed_dispatch(hash, str, executor=own)).run)
        refused(own.dispose)
        """
    )


def test_leaving_the_parents_block_in_the_child_ends_nothing() -> None:
    check(
        """
        # As if the fork had been made inside the block, and the child left it.
        own.__exit__(None, None, None)
        own.__exit__(ValueError, ValueError(), None)
        asyncio.run(own.__aexit__(None, None, None))
        asyncio.run(own.__aexit__(ValueError, ValueError(), None))
        assert discarded == []
        """
    )


def test_a_child_makes_executors_of_its_own_and_so_does_its_child() -> None:
    check(
        """
        def grandchild():
            assert KeyedExecutor.shared() is not shared
            assert total(None) == 4
            refused(own.dispose)

        shared = KeyedExecutor.shared()
        assert total(None) == 4
        in_child(grandchild)
        assert total(None) == 4
        with KeyedExecutor(workers=2) as made_here:
            assert total(made_here) == 4
        """
    )


def test_a_child_that_exits_says_nothing_of_what_it_inherited() -> None:
    # Its parent has not forgotten it, so there is no ResourceWarning, which would be an error here.
    check(
        """
        import atexit, gc
        # The child is done with it, and its worker's stack, which is not here, can't hold it either.
        del globals()["idle"]
        gc.collect()
        # What a child does that leaves by sys.exit.
        atexit._run_exitfuncs()
        """
    )
