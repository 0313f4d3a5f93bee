"""Controlled threads: names, joins, contexts, and what leaves them."""

import threading

import pytest

from rxwow.platform import PRODUCTION, current_platform
from rxwow.testing import ControlledPlatform, ScheduleFailure, explore, run


def test_a_thread_has_its_name_its_ident_and_the_platform() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        seen: list[object] = []

        def look() -> None:
            seen.extend([threading.current_thread().name, threading.get_ident(), current_platform()])

        thread = platform.thread(look, "worker-1")
        assert thread.name == "worker-1"
        assert thread.ident is None
        assert not thread.is_alive()
        thread.start()
        ident = thread.ident
        thread.join()
        assert seen == ["worker-1", ident, platform]
        assert not thread.is_alive()
        assert current_platform() is platform

    explore(scenario, range(20))
    assert current_platform() is PRODUCTION


def test_threads_of_one_name_are_told_apart_in_the_schedule() -> None:
    platform = ControlledPlatform()

    def scenario(platform: ControlledPlatform) -> None:
        threads = [platform.thread(lambda: platform.point("here"), "worker") for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        assert [thread.name for thread in threads] == ["worker"] * 3

    platform.run(scenario)
    assert {step.thread for step in platform.schedule} == {"main", "worker", "worker#2", "worker#3"}


def test_a_thread_starts_once_and_is_joined_after_its_start_by_another() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        errors: list[str] = []

        def join_myself() -> None:
            with pytest.raises(RuntimeError, match="cannot join current thread"):
                thread.join()
            errors.append("refused")

        thread = platform.thread(join_myself, "worker")
        with pytest.raises(RuntimeError, match="before it is started"):
            thread.join()
        thread.start()
        with pytest.raises(RuntimeError, match="only be started once"):
            thread.start()
        thread.join()
        assert errors == ["refused"]

    run(scenario)


def test_a_join_takes_virtual_time_at_most() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(lambda: platform.sleep(10), "sleeper")
        thread.start()
        thread.join(timeout=0)
        thread.join(timeout=3)
        assert platform.monotonic() == 3
        assert thread.is_alive()
        # The end of a thread that is no longer joined must wake nobody.
        assert not platform.event().wait(timeout=8)
        assert platform.monotonic() == 11
        assert not thread.is_alive()

    explore(scenario, range(20))


def test_an_exception_that_leaves_a_thread_ends_the_run() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(lambda: dict[str, str]()["missing"], "worker")
        thread.start()
        thread.join()
        platform.event().wait()

    with pytest.raises(ScheduleFailure, match="KeyError in thread 'worker' after") as caught:
        run(scenario)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.thread == "worker"


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_no_exception_of_a_thread_ends_the_test_session(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    def scenario(platform: ControlledPlatform) -> None:
        platform.thread(fail, "worker").start()
        platform.event().wait()

    with pytest.raises(ScheduleFailure, match=f"{error.__name__} in thread 'worker'"):
        run(scenario)


def test_system_exit_ends_its_thread_alone() -> None:
    def leave() -> None:
        raise SystemExit

    def scenario(platform: ControlledPlatform) -> str:
        thread = platform.thread(leave, "worker")
        thread.start()
        thread.join()
        return "went on"

    assert run(scenario) == "went on"
