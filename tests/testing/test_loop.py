"""Controlled event loops: asyncio as ever, on virtual time."""

import asyncio
import concurrent.futures
from collections.abc import Callable

import pytest

from rxwow.testing import ControlledPlatform, ScheduleFailure, UncontrolledThreadError, explore, run


def with_loop(
    body: Callable[[ControlledPlatform, asyncio.AbstractEventLoop], object],
) -> Callable[[ControlledPlatform], None]:
    """Make a scenario that calls `body` while a loop runs on another thread, and stops the loop in the end."""

    def scenario(platform: ControlledPlatform) -> None:
        loop = platform.event_loop()
        thread = platform.thread(loop.run_forever, "worker")
        thread.start()
        body(platform, loop)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    return scenario


def fail() -> None:
    raise IndexError


def test_timers_fire_in_order_of_time_and_take_none() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        fired: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append((name, platform.monotonic()))

        async def main() -> None:
            await asyncio.gather(wait("late", 3600), wait("soon", 0.1), wait("middle", 60), wait("at once", 0))

        loop = platform.event_loop()
        loop.run_until_complete(main())
        loop.close()
        assert fired == [("at once", 0), ("soon", 0.1), ("middle", 60), ("late", 3600)]

    run(scenario)


def test_loops_and_waits_due_at_the_same_time_run_in_any_order() -> None:
    orders: set[tuple[str, ...]] = set()

    def scenario(platform: ControlledPlatform) -> None:
        fired: list[str] = []
        threads = []
        for name in "ab":
            loop = platform.event_loop()
            loop.call_later(0.1 + 0.2, fired.append, name)
            loop.call_later(0.1 + 0.2, loop.stop)
            threads.append(platform.thread(loop.run_forever, name))
        for thread in threads:
            thread.start()
        assert not platform.event().wait(timeout=0.3)
        fired.append("main")
        for thread in threads:
            thread.join()
        assert abs(platform.monotonic() - 0.3) < 1e-9
        orders.add(tuple(fired))

    explore(scenario, range(300))
    assert len(orders) == 6


def test_calls_from_other_threads_wake_a_parked_loop_in_order() -> None:
    def body(platform: ControlledPlatform, loop: asyncio.AbstractEventLoop) -> None:
        called: list[int] = []
        done = platform.event()
        for number in range(5):
            loop.call_soon_threadsafe(called.append, number)
        loop.call_soon_threadsafe(done.set)
        assert done.wait(timeout=1)
        assert called == [0, 1, 2, 3, 4]
        assert platform.monotonic() == 0

    explore(with_loop(body), range(100))


def test_a_time_limit_and_a_cancellation_work_as_in_asyncio() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=5)
        async with asyncio.timeout(20):
            await asyncio.sleep(10)
        return asyncio.get_running_loop().time()

    def scenario(platform: ControlledPlatform) -> None:
        with asyncio.Runner(loop_factory=platform.event_loop) as runner:
            assert runner.run(main()) == 15

    run(scenario)


def test_blocking_calls_go_to_controlled_threads() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        def block(number: int) -> int:
            platform.sleep(1)
            return number

        async def main() -> list[int]:
            loop = asyncio.get_running_loop()
            return await asyncio.gather(
                *(loop.run_in_executor(None, block, n) for n in range(3)), asyncio.to_thread(block, 3)
            )

        with asyncio.Runner(loop_factory=platform.event_loop) as runner:
            assert runner.run(main()) == [0, 1, 2, 3]
        assert platform.monotonic() == 1

    explore(scenario, range(20))


def test_shutting_the_default_executor_down_waits_for_its_calls() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        ended: list[float] = []

        def block() -> None:
            platform.sleep(2)
            ended.append(platform.monotonic())

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, block)
            await loop.shutdown_default_executor()
            assert ended == [2]

        with asyncio.Runner(loop_factory=platform.event_loop) as runner:
            runner.run(main())

    explore(scenario, range(20))


def test_an_exception_in_a_callback_ends_the_run() -> None:
    def body(platform: ControlledPlatform, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(fail)
        platform.event().wait(timeout=1)

    with pytest.raises(ScheduleFailure, match="IndexError in thread 'worker'"):
        run(with_loop(body))


def test_an_exception_handler_of_the_code_under_test_is_respected() -> None:
    def body(platform: ControlledPlatform, loop: asyncio.AbstractEventLoop) -> None:
        seen: list[object] = []
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        loop.call_soon_threadsafe(fail)
        platform.event().wait(timeout=1)
        assert isinstance(seen[0], IndexError)

    run(with_loop(body))


def test_a_thread_that_is_not_controlled_is_refused() -> None:
    def body(platform: ControlledPlatform, loop: asyncio.AbstractEventLoop) -> None:
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="real") as executor:
            future = executor.submit(loop.call_soon_threadsafe, print)
            assert isinstance(future.exception(), UncontrolledThreadError)
        platform.event().wait(timeout=1)

    with pytest.raises(ScheduleFailure, match="the thread 'real_0' used a controlled"):
        run(with_loop(body))
