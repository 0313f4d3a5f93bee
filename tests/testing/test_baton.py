"""The baton: what hangs is found and named, and no thread outlives its run."""

import gc
import re
import signal
import threading
from collections.abc import Callable

import pytest

from rxwow.testing import (
    ControlledPlatform,
    DeadlockError,
    LivelockError,
    ScheduleFailure,
    StalledError,
    explore,
    run,
)


def test_the_end_of_the_scenario_ends_all_threads() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        lock, event, loop = platform.lock(), platform.event(), platform.event_loop()

        def hold() -> None:
            with lock:
                event.wait()

        def wait_for_a_lock() -> None:
            try:
                lock.acquire()
            finally:
                event.set()

        for name, target in [("holds", hold), ("waits", wait_for_a_lock), ("loops", loop.run_forever)]:
            platform.thread(target, name).start()

    before = set(threading.enumerate())
    explore(scenario, range(100))
    assert set(threading.enumerate()) <= before
    assert gc.isenabled()


def test_a_thread_that_catches_what_ends_it_is_named() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        def never_end() -> None:
            while True:
                try:
                    platform.pause()
                except BaseException:  # noqa: BLE001 - the fault that the test is about
                    continue

        platform.thread(never_end, "stubborn").start()

    with pytest.raises(ScheduleFailure, match=r"StalledError.*stubborn"):
        run(scenario)


def test_a_deadlock_names_who_waits_for_what() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        first, second, loop = platform.lock(), platform.lock(), platform.event_loop()

        def take(one: object, other: object) -> None:
            with first if one is first else second:
                platform.point("between")
                with second if other is second else first:
                    pass

        threads = [
            platform.thread(lambda: take(first, second), "there"),
            platform.thread(lambda: take(second, first), "back"),
            platform.thread(loop.run_forever, "worker"),
        ]
        for thread in threads:
            thread.start()
        for thread in threads[:2]:
            thread.join()
        loop.call_soon_threadsafe(loop.stop)

    with pytest.raises(ScheduleFailure) as caught:
        explore(scenario)
    cause = caught.value.__cause__
    assert isinstance(cause, DeadlockError)
    for pattern in (
        r"main +waits for the end of there +at test_baton.py:\d+ in scenario",
        r"there +waits for lock 2 \(test_baton.py:\d+\), held by back  at test_baton.py:\d+ in take",
        r"back +waits for lock 1 \(test_baton.py:\d+\), held by there  at",
        r"worker +parks in loop 1 \(test_baton.py:\d+\)",
    ):
        assert re.search(pattern, str(cause)), pattern


def test_a_main_thread_that_catches_a_verdict_fails_all_the_same() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        with pytest.raises(DeadlockError):
            platform.event().wait()

    with pytest.raises(ScheduleFailure, match="no thread can run"):
        run(scenario)


def spin_for_ever(platform: ControlledPlatform) -> None:
    while True:
        platform.pause()


def read_the_time_for_ever(platform: ControlledPlatform) -> None:
    while platform.monotonic() < 1:
        pass


@pytest.mark.parametrize("scenario", [spin_for_ever, read_the_time_for_ever])
def test_a_livelock_is_found(scenario: Callable[[ControlledPlatform], None]) -> None:
    with pytest.raises(ScheduleFailure) as caught:
        run(scenario, step_limit=1_000)
    assert isinstance(caught.value.__cause__, LivelockError)


def test_a_livelock_of_another_thread_is_found() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(lambda: spin_for_ever(platform), "spinner")
        thread.start()
        thread.join()

    with pytest.raises(ScheduleFailure, match="LivelockError in thread 'spinner'"):
        run(scenario, step_limit=1_000)


def test_a_thread_that_waits_for_something_real_is_shown() -> None:
    real = threading.Lock()

    def wait_for_a_real_lock() -> None:
        with real:
            pass

    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(wait_for_a_real_lock, "stuck")
        thread.start()
        thread.join()

    with real, pytest.raises(ScheduleFailure, match="in wait_for_a_real_lock") as caught:
        ControlledPlatform(patience=0.05).run(scenario)
    assert isinstance(caught.value.__cause__, StalledError)


def test_a_real_lock_that_is_held_across_no_step_does_no_harm() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        real = threading.Lock()
        count = 0

        def add() -> None:
            nonlocal count
            for _ in range(10):
                with real:
                    count += 1
                platform.point("added")

        threads = [platform.thread(add, name) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert count == 20

    explore(scenario, range(50))


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals")
def test_an_interrupt_leaves_the_run_as_it_is_and_no_thread_behind() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        main = threading.get_ident()

        def interrupt() -> None:
            signal.pthread_kill(main, signal.SIGINT)
            spin_for_ever(platform)

        thread = platform.thread(interrupt, "worker")
        thread.start()
        thread.join()

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt) as caught:
        run(scenario, step_limit=10_000_000)
    assert set(threading.enumerate()) <= before
    assert "worker  pauses" in "".join(caught.value.__notes__)
