"""What a run leaves behind makes no noise, neither at its end nor when it is collected."""

import asyncio
import gc
import logging
import warnings
from collections.abc import Iterator

import pytest

from rxwow.testing import ControlledPlatform, explore, find_failure


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert not caught
    assert caplog.text == ""


def leave_much_undone(platform: ControlledPlatform) -> None:
    lock = platform.lock()

    async def wait_and_take_the_lock() -> None:
        try:
            await wait_for_ever()
        finally:
            # Nothing of the run works any more when its tasks are closed.
            lock.acquire()

    loop = platform.event_loop()
    loop.call_soon(lambda: loop.create_task(wait_and_take_the_lock()))
    platform.thread(loop.run_forever, "worker").start()
    asyncio.run_coroutine_threadsafe(wait_for_ever(), loop)
    asyncio.run_coroutine_threadsafe(fail(), loop)


def test_a_run_that_ends_well_is_quiet() -> None:
    explore(leave_much_undone, range(100))


def test_a_failed_run_is_quiet() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        leave_much_undone(platform)
        waiting = wait_for_ever()
        assert waiting is None

    for seed in range(50):
        assert find_failure(scenario, [seed], shrink_runs=0) is not None


def test_a_main_thread_that_is_ended_while_it_hands_over_a_coroutine_is_quiet() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        loop = platform.event_loop()
        platform.thread(fail_at_once, "worker").start()
        for _ in range(3):
            asyncio.run_coroutine_threadsafe(wait_for_ever(), loop)
        platform.event().wait()

    def fail_at_once() -> None:
        raise ValueError

    for seed in range(50):
        assert find_failure(scenario, [seed], shrink_runs=0) is not None
