"""The controlled platform: one seed, one run; failures that show the schedule; time that only moves on."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rxwow.testing import (
    ControlledPlatform,
    LivelockError,
    Replay,
    ScheduleFailure,
    UncontrolledThreadError,
    run,
)


def two_workers(platform: ControlledPlatform) -> list[str]:
    """A scenario of two loops, two threads, a lock and timers."""
    handled: list[str] = []
    lock = platform.lock()

    async def handle(message: str) -> None:
        await asyncio.sleep(0.5)
        with lock:
            platform.point("handling")
            handled.append(message)

    loops = [platform.event_loop(), platform.event_loop()]
    threads = [platform.thread(loop.run_forever, f"worker-{n}") for n, loop in enumerate(loops)]
    for thread in threads:
        thread.start()
    for number in range(4):
        loop = loops[number % 2]
        asyncio.run_coroutine_threadsafe(handle(f"message {number}"), loop)
    platform.sleep(1)
    for loop in loops:
        loop.call_soon_threadsafe(loop.stop)
    for thread in threads:
        thread.join()
    return handled


def trace(seed: int) -> list[str]:
    """Return all that a run of `two_workers` shows."""
    platform = ControlledPlatform(seed)
    result = platform.run(two_workers)
    steps = [f"{step.nanoseconds} {step.thread} {step.what} {step.place}" for step in platform.schedule]
    return [*result, *platform.choices, *steps]


def test_a_seed_gives_the_same_run_again_and_another_seed_another() -> None:
    traces = [trace(seed) for seed in range(30)]
    assert traces == [trace(seed) for seed in range(30)]
    assert len({tuple(one) for one in traces}) > 25


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    code = f"import runpy, json; module = runpy.run_path({__file__!r}); print([module['trace'](s) for s in range(10)])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert outputs == {f"{[trace(seed) for seed in range(10)]}\n"}


def test_the_choices_of_a_run_can_be_replayed() -> None:
    for seed in range(30):
        platform = ControlledPlatform(seed)
        platform.run(two_workers)
        again = ControlledPlatform(chooser=Replay(platform.choices))
        again.run(two_workers)
        assert [step.what for step in again.schedule] == [step.what for step in platform.schedule]


def test_the_platforms_random_follows_from_the_seed() -> None:
    assert run(lambda platform: platform.random.random(), 5) == run(lambda platform: platform.random.random(), 5)
    assert run(lambda platform: platform.random.random(), 5) != run(lambda platform: platform.random.random(), 6)


def test_a_failure_shows_seed_schedule_and_threads() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(platform.event().wait, "worker")
        thread.start()
        platform.sleep(0.25)
        raise ValueError("wrong")

    with pytest.raises(ScheduleFailure) as caught:
        run(scenario, seed=12)
    message = str(caught.value)
    for text in (
        "ValueError in thread 'main' after 4 steps: wrong",
        "  worker  waits for event 1 (test_controlled.py:",
        "main     sleeps for 0.25 s",
        "(clock)  moves to 0.25 s, due: main",
        "rxwow.testing.run(scenario, seed=12)",
    ):
        assert text in message
    assert caught.value.seed == 12
    assert [step.thread for step in caught.value.schedule].count("worker") == 1


def test_a_spin_until_a_time_ends_though_nothing_is_due() -> None:
    def scenario(platform: ControlledPlatform) -> int:
        looks = [0, 0]

        def spin(me: int) -> None:
            while platform.monotonic() < 0.05:
                looks[me] += 1
                platform.pause()

        thread = platform.thread(lambda: spin(1), "other")
        thread.start()
        spin(0)
        thread.join()
        assert platform.monotonic() >= 0.05
        return max(looks)

    assert max(run(scenario, seed) for seed in range(50)) < 500


def test_a_spin_moves_time_past_no_timer() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        loop = platform.event_loop()
        flag = threading.Event()
        loop.call_later(3, flag.set)
        loop.call_later(4, loop.stop)
        thread = platform.thread(loop.run_forever, "worker")
        thread.start()
        while not flag.is_set():
            platform.pause()
        assert platform.monotonic() == 3

    run(scenario)


def test_nothing_controlled_works_outside_of_the_run() -> None:
    platform = ControlledPlatform()
    lock = platform.lock()
    with pytest.raises(UncontrolledThreadError, match="outside of a run"):
        lock.acquire()
    assert platform.run(lambda _: lock.acquire())
    with pytest.raises(UncontrolledThreadError, match="outside of a run"):
        lock.release()
    with pytest.raises(RuntimeError, match="one run"):
        platform.run(lambda _: None)


def test_a_run_within_a_run_is_one_step_of_it() -> None:
    def outer(platform: ControlledPlatform) -> None:
        thread = platform.thread(lambda: run(two_workers), "worker")
        thread.start()
        thread.join()

    run(outer)


def test_an_endless_spin_is_a_livelock_however_far_the_clock_has_crept() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        while True:
            platform.pause()

    with pytest.raises(ScheduleFailure) as caught:
        run(scenario, step_limit=3_000)
    assert isinstance(caught.value.__cause__, LivelockError)
