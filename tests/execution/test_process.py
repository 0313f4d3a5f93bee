"""What a process owes its executors: an end for those forgotten, and a fresh start after a fork."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch


def python(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def same(number: int) -> int:
    return number


def test_an_executor_that_is_collected_ends_its_threads_and_says_so() -> None:
    executor = KeyedExecutor(workers=1, name="collected")
    Flowable.from_iterable([1]).pipe(keyed_dispatch(same, same, executor=executor)).run()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "collected-0"]
    # Whose only reference goes here.
    del executor
    with pytest.warns(ResourceWarning, match="executor 'collected' was neither drained nor disposed"):
        gc.collect()
    thread.join(20)
    assert not thread.is_alive()


def test_an_unused_executor_that_is_collected_is_not_mentioned() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KeyedExecutor(workers=1)
        gc.collect()
    assert caught == []


def test_an_executor_that_is_forgotten_at_exit_is_disposed_and_named() -> None:
    result = python(
        """
        from rxwow import Flowable, KeyedExecutor, keyed_dispatch
        executor = KeyedExecutor(workers=1, name="forgotten")
        discarded = []
        dispatch = keyed_dispatch(lambda n: 0, lambda n: n, executor=executor)
        Flowable.from_iterable([1]).pipe(dispatch).run()
        keep = Flowable.never().pipe(dispatch).subscribe(on_error=lambda error: print(type(error).__name__))
        """,
        "-W",
        "always",
    )
    assert result.returncode == 0, result.stderr
    assert "ResourceWarning" in result.stderr
    assert "'forgotten'" in result.stderr
    assert result.stdout == "ExecutorClosedError\n"


def test_an_executor_that_is_forgotten_is_ended_even_if_warnings_are_errors() -> None:
    result = python(
        """
        from rxwow import Flowable, KeyedExecutor, keyed_dispatch
        executor = KeyedExecutor(workers=1, name="forgotten")
        keep = Flowable.never().pipe(keyed_dispatch(lambda n: 0, lambda n: n, executor=executor)).subscribe(
            on_error=lambda error: print(type(error).__name__)
        )
        """,
        "-W",
        "error",
    )
    assert "ResourceWarning: executor 'forgotten'" in result.stderr
    assert result.stdout == "ExecutorClosedError\n"


def test_an_executor_that_was_ended_or_never_used_is_not_mentioned() -> None:
    result = python(
        """
        from rxwow import Flowable, KeyedExecutor, keyed_dispatch
        unused = KeyedExecutor(workers=1)
        Flowable.from_iterable([1]).pipe(keyed_dispatch(lambda n: 0, lambda n: n)).run()
        with KeyedExecutor(workers=1) as ended:
            Flowable.from_iterable([1]).pipe(keyed_dispatch(lambda n: 0, lambda n: n, executor=ended)).run()
        """,
        "-W",
        "error",
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_a_shared_executor_of_its_own_and_refuses_what_it_inherited() -> None:
    result = python(
        """
        import asyncio, os, gc
        from rxwow import Flowable, KeyedExecutor, keyed_dispatch
        from rxwow.errors import ExecutorClosedError
        own = KeyedExecutor(workers=1, name="parents")
        def total(executor):
            dispatch = keyed_dispatch(lambda n: 0, lambda n: n, executor=executor)
            return Flowable.from_iterable(range(5)).pipe(dispatch).run()
        assert (total(None), total(own)) == (4, 4)
        shared = KeyedExecutor.shared()
        child = os.fork()
        if not child:
            assert KeyedExecutor.shared() is not shared
            assert total(None) == 4
            refused = 0
            calls = [lambda: total(own), own.dispose, own.drain, own.wait_closed, own.statistics, shared.statistics]
            for call in [*calls, lambda: asyncio.run(own.drain_async()), lambda: asyncio.run(own.wait_closed_async())]:
                try:
                    call()
                except ExecutorClosedError as error:
                    assert "before this process was forked" in str(error), error
                    refused += 1
            assert refused == 8, refused
            # Blocks that were entered in the parent are left without a word.
            own.__exit__(None, None, None)
            asyncio.run(own.__aexit__(None, None, None))
            del own, shared
            gc.collect()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        # The parent's loops are as they were.
        assert (total(None), total(own)) == (4, 4)
        own.dispose()
        assert own.wait_closed(20)
        """,
        "-W",
        "ignore::DeprecationWarning",
    )
    assert (result.returncode, result.stderr) == (0, "")
