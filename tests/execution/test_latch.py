"""A latch opens once, for threads and for coroutines."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rxwow.execution.latch import Latch
from rxwow.platform import PRODUCTION
from rxwow.testing import ControlledPlatform, run


def test_callbacks_run_once_when_it_opens_or_at_once_when_it_is_open() -> None:
    latch = Latch(PRODUCTION)
    calls: list[str] = []
    latch.when_open(lambda: calls.append("before"))
    assert not latch.wait(0)
    latch.open()
    latch.open()
    latch.when_open(lambda: calls.append("after"))
    assert calls == ["before", "after"]
    assert latch.wait(0)


@pytest.mark.seeds(50, soak=1000)
def test_no_thread_misses_the_opening(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        latch = Latch(platform)
        came: list[bool] = []

        def wait() -> None:
            came.append(latch.wait(None))

        threads = [platform.thread(wait, f"waiter {number}") for number in range(3)]
        for thread in threads:
            thread.start()
        latch.open()
        for thread in threads:
            thread.join()
        assert came == [True, True, True]

    run(scenario, seed)


def test_a_coroutine_waits_without_blocking_and_times_out() -> None:
    async def main() -> None:
        latch = Latch(PRODUCTION)
        assert not await latch.wait_async(0.001)
        opener = threading.Thread(target=latch.open)
        waiting = asyncio.create_task(latch.wait_async(None))
        await asyncio.sleep(0)
        opener.start()
        assert await waiting
        opener.join()
        assert await latch.wait_async(0)

    asyncio.run(main())


def test_a_loop_that_closed_meanwhile_does_not_disturb_the_opening() -> None:
    latch = Latch(PRODUCTION)
    opened: list[bool] = []
    loop = asyncio.new_event_loop()
    waiting = latch.wait_async(None)
    task = loop.create_task(waiting)
    loop.run_until_complete(asyncio.sleep(0))
    # Closed with the waiting task in it, of which asyncio would complain.
    loop.set_exception_handler(lambda *_: None)
    loop.close()
    latch.when_open(lambda: opened.append(True))
    latch.open()
    assert opened == [True]
    assert not task.done()
    waiting.close()


def test_whoever_gave_up_is_forgotten() -> None:
    latch = Latch(PRODUCTION)

    async def give_up() -> None:
        for _ in range(3):
            assert not await latch.wait_async(0.001)

    asyncio.run(give_up())
    assert latch._callbacks == []
