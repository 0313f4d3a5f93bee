"""A retry: it keeps the message at the head of its own mailbox, on the loop's clock, and holds nothing else up."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import threading
import time
from collections import Counter
from typing import Any

import pytest

from rxwow import SKIP, Backoff, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.execution import ExecutionHook
from rxwow.execution.worker_kinds import ThreadWorker
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of


def fail(message: Any) -> None:
    raise ValueError(message)


@pytest.mark.seeds(100, soak=5000)
def test_a_retry_holds_up_its_own_key_only_and_no_worker(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        began: list[tuple[str, int, float]] = []

        def handle(message: tuple[str, int]) -> None:
            began.append((*message, platform.monotonic()))
            # Key a fails twice; key b has a hundred messages on the same worker.
            if message == ("a", 0) and sum(one[:2] == message for one in began) < 3:
                raise ValueError(message)

        messages = [("a", 0), ("a", 1), *(("b", number) for number in range(100)), ("a", 2)]
        with KeyedExecutor(1) as executor:
            operator = keyed_dispatch(
                lambda message: message[0], handle, executor=executor, on_failure=lambda *_: Retry(10.0)
            )
            results_of(Flowable.from_iterable(messages).pipe(operator))
        own = [(number, round(at)) for key, number, at in began if key == "a"]
        assert own == [(0, 0), (0, 10), (0, 20), (1, 20), (2, 20)]
        others = [(number, at) for key, number, at in began if key == "b"]
        assert [number for number, _ in others] == list(range(100))
        assert all(at < 1 for _, at in others)

    run(scenario, seed)


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_backoff_calls_the_handler_as_often_as_it_says_at_the_times_it_says(attempts: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        times: list[float] = []

        def handle(message: int) -> None:
            times.append(platform.monotonic())
            raise ValueError(message)

        with KeyedExecutor(1) as executor:
            policy = Backoff(attempts, delay=1.0, factor=3.0, longest=5.0, then=SKIP)
            assert results_of(dispatched([0], handle, executor, on_failure=policy)) == []
        delays = [round(after - before) for before, after in itertools.pairwise(times)]
        assert delays == [1, 3, 5, 5][: attempts - 1]
        assert len(times) == attempts

    run(scenario)


def test_five_thousand_messages_are_due_at_the_same_instant() -> None:
    # F78: equal due times must not make the timers compare messages, which here can't be compared.
    def scenario(platform: ControlledPlatform) -> None:
        attempts: Counter[int] = Counter()
        # Clock and delay are the same for all, and so is what they are due at.
        messages = [{"number": number} for number in range(5000)]

        def handle(message: dict[str, int]) -> int:
            attempts[message["number"]] += 1
            if attempts[message["number"]] < 3:
                raise ValueError
            return message["number"]

        with KeyedExecutor(2, max_in_flight=5000) as executor:
            collector = Collector(5000)
            operator = keyed_dispatch(
                lambda message: message["number"], handle, executor=executor, on_failure=lambda *_: Retry(60.0)
            )
            Flowable.from_iterable(messages).pipe(operator).subscribe(collector)
            platform.sleep(30.0)
            (statistics,) = executor.statistics().dispatches
            # All stand in their mailboxes for their next attempt, each once.
            assert (statistics.mailboxes, statistics.mailboxed, statistics.waiting) == (5000, 5000, 0)
            platform.sleep(60.0)
            assert set(attempts.values()) == {2}
            platform.sleep(60.0)
            assert sorted(collector.taken) == list(range(5000))
        assert set(attempts.values()) == {3}

    run(scenario, step_limit=10_000_000)


@pytest.mark.seeds(100, soak=5000)
def test_a_cancel_among_retries_ends_each_message_once(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    # F78.
    caplog.set_level(logging.CRITICAL + 1, "rxwow")

    def scenario(platform: ControlledPlatform) -> None:
        ends: list[int] = []

        class Told(ExecutionHook):
            # One whose handler runs as the cancel comes fails after the end, and is told of.
            def message_failed(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
                ends.append(item)

        executor = KeyedExecutor(2)
        executor.add_hook(Told())
        collector = Collector(100)
        operator = keyed_dispatch(
            lambda message: message % 7,
            fail,
            executor=executor,
            on_failure=lambda *_: Retry(platform.random.choice([0, 0.001, 0.002])),
            on_discard=ends.append,
        )
        Flowable.from_iterable(range(20)).pipe(operator).subscribe(collector)
        platform.sleep(platform.random.choice([0.001, 0.002, 0.003]))
        collector.subscription.cancel()
        executor.dispose()
        executor.wait_closed()
        assert sorted(ends) == list(range(20))

    run(scenario, seed)


def timers(executor: KeyedExecutor) -> int:
    count = 0
    for worker in executor._workers:
        assert isinstance(worker, ThreadWorker)
        # What asyncio keeps of timers; there is no public way to ask.
        count += len(getattr(worker._loop, "_scheduled", ()))
    return count


def test_fifty_thousand_keys_wait_for_a_retry_without_threads_and_leave_no_timer_behind() -> None:
    # F98.
    keys = 50_000
    with KeyedExecutor(2, max_in_flight=keys) as executor:
        all_failed = threading.Event()
        told: Counter[str] = Counter()
        lock = threading.Lock()

        def retry_late(message: int, error: Exception) -> Retry:
            with lock:
                told[threading.current_thread().name] += 1
                if sum(told.values()) == keys:
                    all_failed.set()
            return Retry(600)

        collector = Collector(keys)
        before = threading.active_count()
        dispatched(range(keys), fail, executor, on_failure=retry_late).subscribe(collector)
        assert all_failed.wait(PATIENCE)
        # User code ran on the workers alone, and the timers are theirs; one more watches for slow turns.
        assert set(told) <= {"rxwow-0", "rxwow-1"}
        assert threading.active_count() <= before + 3
        collector.subscription.cancel()
        # What was asked of the workers' loops before is done when this is: the timers are cancelled.
        for worker in executor._workers:
            done = threading.Event()
            worker.call_soon(done.set)
            assert done.wait(PATIENCE)
            # asyncio sweeps cancelled timers out at its next round when they are more than half.
            done.clear()
            worker.call_soon(done.set)
            assert done.wait(PATIENCE)
        assert timers(executor) <= 200


def test_wall_time_that_jumps_does_not_move_retries_or_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    # F100: the wall clock goes back and forth by an hour at each look.
    looks = [0]
    true_time = time.time

    def jumping() -> float:
        looks[0] += 1
        return true_time() + (3600 if looks[0] % 2 else -3600)

    class Jumping(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Jumping:
            return cls.fromtimestamp(jumping(), tz)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(dt, "datetime", Jumping)
    attempts: Counter[int] = Counter()

    def third_time(message: int) -> int:
        attempts[message] += 1
        if attempts[message] < 3:
            raise ValueError(message)
        return message

    executor = KeyedExecutor(2)
    collector = Collector(50)
    dispatched(range(50), third_time, executor, on_failure=lambda *_: Retry(0.02)).subscribe(collector)
    assert executor.drain(timeout=PATIENCE)
    assert set(attempts.values()) == {3}
    assert executor.wait_closed(timeout=PATIENCE)
