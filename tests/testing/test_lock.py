"""Controlled locks: exclusion, any waiter may be next, misuse ends the run."""

from functools import partial

import pytest

from rxwow.testing import ControlledPlatform, DeadlockError, LockMisuseError, ScheduleFailure, explore, run


def test_excludes_and_lets_any_waiter_be_next() -> None:
    orders: set[tuple[str, ...]] = set()

    def scenario(platform: ControlledPlatform) -> None:
        lock = platform.lock()
        inside: list[str] = []
        order: list[str] = []

        def enter(name: str) -> None:
            with lock:
                assert not inside
                inside.append(name)
                platform.point("inside")
                inside.remove(name)
                order.append(name)

        threads = [platform.thread(partial(enter, name), name) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        orders.add(tuple(order))

    explore(scenario, range(200))
    assert len(orders) == 6


def test_acquiring_a_lock_twice_is_a_deadlock() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        lock = platform.lock()
        with lock, lock:
            pass

    with pytest.raises(
        ScheduleFailure, match=r"the thread main acquires lock 1 \(test_lock.py:\d+\), which it holds"
    ) as caught:
        run(scenario)
    assert isinstance(caught.value.__cause__, DeadlockError)


def test_releasing_a_lock_of_another_thread_ends_the_run() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        lock = platform.lock()
        thread = platform.thread(lock.release, "thief")
        with lock:
            thread.start()
            thread.join()

    with pytest.raises(ScheduleFailure, match=r"the thread thief releases lock 1 .*, which main holds") as caught:
        run(scenario)
    assert isinstance(caught.value.__cause__, LockMisuseError)


def test_releasing_a_free_lock_ends_the_run() -> None:
    with pytest.raises(ScheduleFailure, match="which nobody holds"):
        run(lambda platform: platform.lock().release())


def test_a_lock_whose_holder_has_ended_is_a_deadlock_that_says_so() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        lock = platform.lock()
        thread = platform.thread(lock.acquire, "gone")
        thread.start()
        thread.join()
        lock.acquire()

    with pytest.raises(ScheduleFailure, match=r"main +waits for lock 1 .*, held by gone, which has ended"):
        run(scenario)
