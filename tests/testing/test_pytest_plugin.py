"""The pytest plugin, with the test files of a user."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest

# All that the tests in here import, so that an inner run finds it and doesn't make a second copy.
import rxwow.testing.marbles
import rxwow.testing.scheduler
from rxwow.testing import pytest_plugin

pytest_plugins = ["pytester"]

PLUGIN = pytest_plugin.__name__

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run_user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest, with this plugin alone, on a user's test file."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_user(source: str, *arguments: str) -> pytest.RunResult:
        if source:
            pytester.makepyfile(test_user=source)
        return pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider", "--strict-markers", *arguments)

    return run_user


# Seeds.

ODD_SEEDS_FAIL = """
    def test_it(rxwow_seed):
        assert rxwow_seed % 2 == 0, f"{rxwow_seed} is odd"
"""


@pytest.mark.parametrize(
    ("marker", "options", "count"),
    [
        ("", [], 20),
        ("@pytest.mark.rxwow_seeds(7)", [], 7),
        ("", ["--rxwow-seeds=30"], 30),
        ("@pytest.mark.rxwow_seeds(7)", ["--rxwow-seeds=30"], 30),
        ("@pytest.mark.parametrize('rxwow_seed', [3, 5])", [], 2),
        ("@pytest.mark.parametrize(('x', 'rxwow_seed'), [(1, 3)])", ["--rxwow-seeds=30"], 1),
        ("@pytest.mark.parametrize('rxwow_seed, x', [(1, 3)])", ["--rxwow-seeds=30"], 1),
        ("@pytest.mark.parametrize('x', [1, 2])", [], 40),
    ],
)
def test_a_test_runs_once_for_each_seed(run_user: Run, marker: str, options: list[str], count: int) -> None:
    parameters = "rxwow_seed, x" if "x" in marker.replace("rxwow", "") else "rxwow_seed"
    source = f"""
        import pytest
        {marker}
        def test_it({parameters}):
            assert isinstance(rxwow_seed, int)
    """
    run_user(source, *options).assert_outcomes(passed=count)


def test_the_seeds_are_the_first_ones_or_the_one_that_is_asked_for(run_user: Run) -> None:
    source = "def test_it(rxwow_seed): print(f'<{rxwow_seed}>')"
    run_user(source, "-s", "--rxwow-seeds=3").stdout.re_match_lines_random([r".*<0>", r".*<1>", r".*<2>"])
    result = run_user(source, "-s", "--rxwow-seed=4711")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*<4711>*"])


def test_a_failure_names_its_seed_and_the_command_that_shows_it_again(run_user: Run) -> None:
    result = run_user(ODD_SEEDS_FAIL, "--rxwow-seeds=4")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: 1 is odd*",
            "*- rxwow -*",
            "It failed under seed 1. To run it again:",
            "    pytest 'test_user.py::test_it[[]seed1]' --rxwow-seed=1",
            "*AssertionError: 3 is odd*",
            "    pytest 'test_user.py::test_it[[]seed3]' --rxwow-seed=3",
        ]
    )
    command = next(line for line in result.outlines if line.endswith("--rxwow-seed=3"))
    again = run_user("", *shlex.split(command)[1:])
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*AssertionError: 3 is odd*", command])


RACE = """
    import pytest
    from rxwow.testing import ControlledPlatform

    def lost_update(platform):
        balance = [0]
        def pay_in():
            seen = balance[0]
            platform.point("has seen the balance")
            balance[0] = seen + 1
        threads = [platform.thread(pay_in, "ann"), platform.thread(pay_in, "bob")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert balance == [2]

    @pytest.mark.rxwow_seeds(200)
    def test_race(rxwow_explore):
        rxwow_explore(lost_update)
"""


def test_exploring_stops_at_the_first_seed_that_fails_and_names_it(run_user: Run) -> None:
    result = run_user(RACE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*has seen the balance*", "It failed under seed *. To run it again:", "    pytest test_user.py::*"]
    )
    command = next(line for line in result.outlines if line.startswith("    pytest test_user.py::test_race"))
    seed = int(command.rpartition("=")[2])
    again = run_user("", *shlex.split(command)[1:])
    again.assert_outcomes(failed=1)
    assert command in again.outlines
    if seed:
        run_user("", f"--rxwow-seeds={seed}").assert_outcomes(passed=1)


def test_exploring_takes_its_seeds_from_marker_and_options(run_user: Run) -> None:
    source = """
        import pytest

        @pytest.mark.rxwow_seeds(7)
        def test_it(rxwow_explore):
            seeds = []
            rxwow_explore(lambda platform: seeds.append(platform.seed), step_limit=5)
            print(f"<{seeds}>")
    """
    run_user(source, "-s").stdout.fnmatch_lines(["*<[[]0, 1, 2, 3, 4, 5, 6]>*"])
    run_user(source, "-s", "--rxwow-seeds=2").stdout.fnmatch_lines(["*<[[]0, 1]>*"])
    run_user(source, "-s", "--rxwow-seed=99").stdout.fnmatch_lines(["*<[[]99]>*"])


@pytest.mark.parametrize("marker", ["rxwow_seeds", "rxwow_seeds(0)", "rxwow_seeds(1, 2)", "rxwow_seeds('3')"])
@pytest.mark.parametrize("fixture", ["rxwow_seed", "rxwow_explore"])
def test_a_bad_count_is_refused(run_user: Run, marker: str, fixture: str) -> None:
    result = run_user(f"import pytest\n@pytest.mark.{marker}\ndef test_it({fixture}): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_user.py::test_it*rxwow_seeds(count) takes one whole number of at least 1"])


def test_no_seeds_at_all_is_refused(run_user: Run) -> None:
    result = run_user("def test_it(rxwow_seed): pass", "--rxwow-seeds=0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--rxwow-seeds must be at least 1, not 0"])


# Controlled runs.

ORDERS = """
    import asyncio
    import pytest
    from reactivex.testing import ReactiveTest
    from rxwow import Flowable, keyed_dispatch

    on_next, on_completed = ReactiveTest.on_next, ReactiveTest.on_completed

    def account(order):
        return order[0]

    async def charge(order):
        await asyncio.sleep(20)
        return order.upper()
"""


def test_executors_and_scheduler_share_one_virtual_time(run_user: Run) -> None:
    result = run_user(f"""{ORDERS}
    def test_orders(rxwow_executor_factory, rxwow_scheduler):
        first = keyed_dispatch(account, charge, executor=rxwow_executor_factory(workers=2, name="one"))
        second = keyed_dispatch(account, charge, executor=rxwow_executor_factory(name="two"))
        orders = rxwow_scheduler.create_hot_observable(on_next(210, "a1"), on_next(215, "a2"), on_completed(300))
        results = rxwow_scheduler.start(lambda: orders.pipe(first, second))
        assert results.messages == [on_next(250, "A1"), on_next(270, "A2"), on_completed(300)]
    """)
    result.assert_outcomes(passed=20)


def test_the_run_follows_from_the_seed(run_user: Run) -> None:
    source = f"""{ORDERS}
    def test_orders(rxwow_executor_factory, rxwow_platform):
        dispatch = keyed_dispatch(account, charge, executor=rxwow_executor_factory())
        results = Flowable.from_iterable(["a1", "b1", "c1", "d1", "e1"]).pipe(dispatch).to_list()
        print(f"<{{Flowable.from_observable(results).run()}} {{len(rxwow_platform.schedule)}}>")
    """
    orders = [[line[line.index("<") :] for line in run_user(source, "-s").outlines if "<[" in line] for _ in range(2)]
    assert orders[0] == orders[1]
    assert len(orders[0]) == 20
    assert len(set(orders[0])) > 10


def test_executors_are_drained_at_the_end_of_a_test(run_user: Run) -> None:
    result = run_user(f"""{ORDERS}
    @pytest.fixture
    def watch(rxwow_platform):
        finished, executors = [], []
        yield finished, executors
        # The run goes on until the tear-down of the fixtures that use it.
        assert [executor.statistics().state for executor in executors] == ["closed", "closed"]
        assert finished == ["A1"]
        rxwow_platform.sleep(1)

    def test_orders(watch, rxwow_executor_factory):
        finished, executors = watch
        executors += [rxwow_executor_factory(), rxwow_executor_factory()]
        dispatch = keyed_dispatch(account, charge, executor=executors[0])
        Flowable.from_iterable(["a1"]).pipe(dispatch).subscribe(finished.append)
        executors[1].dispose()
    """)
    result.assert_outcomes(passed=20)


def test_a_failed_assertion_shows_as_it_is_and_the_executors_are_disposed(run_user: Run) -> None:
    result = run_user(
        f"""{ORDERS}
    @pytest.fixture
    def executors(rxwow_platform):
        executors = []
        yield executors
        assert [executor.statistics().state for executor in executors] == ["closed"]

    @pytest.fixture
    def executor(executors, rxwow_executor_factory):
        executor = rxwow_executor_factory()
        executors.append(executor)
        yield executor
        assert executor.statistics().state == "open"

    def test_orders(executor):
        dispatch = keyed_dispatch(account, charge, executor=executor)
        Flowable.never().pipe(dispatch).subscribe()
        assert account("a1") == "b"
    """,
        "--rxwow-seeds=3",
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["E*AssertionError: assert 'a' == 'b'", "It failed under seed 0.*"])
    result.stdout.no_fnmatch_line("*ScheduleFailure*")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            "thread.start(); rxwow_platform.sleep(1)",
            "ZeroDivisionError in thread 'worker' after * steps: division by zero",
        ),
        ("thread.start(); thread.join(); assert False", "ZeroDivisionError in thread 'worker' after * steps: *"),
        ("stranger.start(); stranger.join()", "UncontrolledThreadError in thread 'stranger' after * steps: *"),
        ("rxwow_platform.event().wait()", "DeadlockError in thread 'main' after * steps: no thread can run and *"),
    ],
)
def test_what_goes_wrong_in_a_thread_fails_the_test_and_shows_the_schedule(
    run_user: Run, body: str, shown: str
) -> None:
    source = f"""
        import threading

        def test_it(rxwow_platform):
            thread = rxwow_platform.thread(lambda: rxwow_platform.point("dividing") or 1 / 0, "worker")
            stranger = threading.Thread(target=step, args=[rxwow_platform], name="stranger")
            {body}

        def step(platform):
            try:
                platform.point("a stranger")
            except AssertionError:
                pass
    """
    result = run_user(source, "--tb=native", "--rxwow-seeds=5")
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines([f"*ScheduleFailure: {shown}", "*- rxwow -*", "It failed under seed 0.*"])


def test_a_message_that_is_never_finished_fails_the_test(run_user: Run) -> None:
    result = run_user(
        f"""{ORDERS}
    async def forget(order):
        await asyncio.get_running_loop().create_future()

    def test_orders(rxwow_executor_factory):
        dispatch = keyed_dispatch(account, forget, executor=rxwow_executor_factory())
        Flowable.from_iterable(["a1"]).pipe(dispatch).subscribe()
    """,
        "--rxwow-seeds=2",
        "--tb=native",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*ScheduleFailure: DeadlockError in thread 'main' *", "It failed under seed 0.*"])


def test_a_test_may_be_skipped_in_the_middle(run_user: Run) -> None:
    result = run_user("""
        import pytest
        def test_it(rxwow_executor_factory):
            rxwow_executor_factory()
            pytest.skip("not here")
    """)
    result.assert_outcomes(skipped=20)


# Threads left behind.

SERVICE = """
    import threading
    import pytest
    from rxwow import Flowable, KeyedExecutor, keyed_dispatch

    def handle(executor, handler=str, wait=True):
        results = Flowable.from_iterable([1]).pipe(keyed_dispatch(str, handler, executor=executor))
        return results.run() if wait else results.subscribe()

    pytestmark = pytest.mark.usefixtures("rxwow_no_threads_left")
"""


def test_what_is_closed_leaves_no_thread(run_user: Run) -> None:
    result = run_user(f"""{SERVICE}
    def test_with():
        with KeyedExecutor(workers=2) as executor:
            handle(executor)

    def test_disposed():
        # Not waited for: its thread ends a little later, with the handler.
        executor = KeyedExecutor(workers=2)
        started, gate = threading.Event(), threading.Event()
        handle(executor, lambda _: (started.set(), gate.wait()), wait=False)
        started.wait()
        executor.dispose()
        threading.Timer(0.2, gate.set).start()

    def test_unused():
        KeyedExecutor(workers=2)

    def test_shared():
        handle(None)

    @pytest.fixture
    def executor():
        with KeyedExecutor(workers=2) as executor:
            yield executor

    def test_fixture(executor):
        handle(executor)
    """)
    result.assert_outcomes(passed=5)


def test_a_thread_that_is_left_behind_is_named(run_user: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest_plugin, "ENDING_TIME", 0.05)
    result = run_user(f"""{SERVICE}
    left = KeyedExecutor(workers=1, name="orders")
    gate = threading.Event()
    stuck = None

    def test_never_closed(request):
        executor = KeyedExecutor(workers=1, name="forgotten")
        request.config.add_cleanup(executor.dispose)
        handle(executor)

    def test_stuck(request):
        executor = KeyedExecutor(workers=1, name="stuck")
        started = threading.Event()
        request.config.add_cleanup(gate.set)
        handle(executor, lambda _: (started.set(), gate.wait()), wait=False)
        started.wait()
        executor.dispose()

    def test_made_before(request):
        request.config.add_cleanup(left.dispose)
        handle(left)
    """)
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(
        [
            "threads of rxwow were left behind: forgotten-0, forgotten-watchdog. End each executor, *",
            "threads of rxwow were left behind: stuck-0, stuck-watchdog. End each executor, *",
        ]
    )


# What it costs those who don't use it.


def test_loading_it_imports_nothing_of_rxwow() -> None:
    # Its package is imported with it, which is none of its doing.
    code = f"""
import sys, runpy, pytest
runpy.run_path({pytest_plugin.__file__!r})
print(*sorted(name for name in sys.modules if name.startswith(("rxwow", "reactivex"))))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_test_that_uses_none_of_it_has_none_of_it(run_user: Run) -> None:
    result = run_user("""
        from rxwow.platform import PRODUCTION, current_platform

        def test_it(request):
            assert not [name for name in request.fixturenames if "rxwow" in name]
            assert current_platform() is PRODUCTION

        def test_nor_after_one_that_did(rxwow_seed):
            assert current_platform() is PRODUCTION
    """)
    result.assert_outcomes(passed=21)


def test_every_name_is_rxwows_own_and_explained(run_user: Run) -> None:
    result = run_user("", "--fixtures")
    offered = [line.split()[0] for line in result.outlines if "rxwow/testing/pytest_plugin.py" in line]
    assert sorted(offered) == [name for name in pytest_plugin.__all__ if name.startswith("rxwow_")]
    result.stdout.no_fnmatch_line("*no docstring available*")


def test_the_modules_that_the_inner_runs_use_are_those_of_the_outer_one() -> None:
    assert sys.modules["rxwow.testing.scheduler"] is rxwow.testing.scheduler
    assert sys.modules["rxwow.testing.marbles"] is rxwow.testing.marbles
