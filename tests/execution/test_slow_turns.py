"""The watchdog: a handler that holds its worker is named, with where it is; and it is no burden."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError
from rxwow.execution.mailbox import Mailbox
from rxwow.execution.slow_turns import SlowTurns
from rxwow.testing import ControlledPlatform, DeterministicExecutor, run
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.streams.probe import Log


@pytest.fixture
def log() -> Generator[Log]:
    handler = Log()
    logger = logging.getLogger("rxwow.execution")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def watchdogs(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"{name}-watchdog"]


class HoldsUntilTold:
    """A handler that holds its worker until the watchdog has spoken."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.began = threading.Event()

    def __call__(self, message: Any) -> Any:
        self.began.set()
        self._log.wait_for(1)
        return message


# On real threads.


def test_a_slow_turn_is_told_of_by_dispatch_key_and_line(log: Log) -> None:
    with KeyedExecutor(2, name="slow", slow_turn=0.01) as executor:
        dispatch = keyed_dispatch(lambda _: "the key", HoldsUntilTold(log), executor=executor, name="orders")
        assert Flowable.from_iterable([1]).pipe(dispatch).run() == 1
    (record,) = log.records
    message = record.getMessage()
    assert record.levelno == logging.WARNING
    assert message.startswith("a turn of orders, for key 'the key', has held the worker slow-0 for ")
    stack = message.split("It is at:\n")[1]
    assert "self._log.wait_for(1)" in stack
    assert stack.index("in __call__") < stack.index("in wait_for")
    assert "rxwow/execution" not in stack


def test_a_key_that_cannot_be_shown_is_told_of_all_the_same(log: Log) -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise LookupError

    with KeyedExecutor(1, slow_turn=0.01) as executor:
        dispatch = keyed_dispatch(lambda _: Unspeakable(), HoldsUntilTold(log), executor=executor)
        Flowable.from_iterable([1]).pipe(dispatch).run()
    assert "<Unspeakable instance at" in log.messages[0]


def test_a_handler_that_waits_holds_nothing_and_is_not_told_of() -> None:
    reports: list[str] = []

    def scenario(platform: ControlledPlatform) -> None:
        async def wait(message: int) -> int:
            await asyncio.sleep(100)
            return message

        executor = watched(platform, 2, reports)
        assert results_of(dispatched([1, 2], wait, executor)) == [1, 2]
        end(executor)

    run(scenario)
    assert reports == []


@pytest.mark.parametrize("ending", ["drain", "dispose", "dispose, held"])
def test_no_thread_is_left(ending: str, log: Log) -> None:
    executor = KeyedExecutor(2, name="ends", slow_turn=0.01)
    assert watchdogs("ends") == []
    collector = Collector(1)
    handler = HoldsUntilTold(log)
    dispatched([1], handler, executor).subscribe(collector)
    assert handler.began.wait(PATIENCE)
    assert len(watchdogs("ends")) == 1
    if ending != "dispose, held":
        assert collector.ended.wait(PATIENCE)
    if ending == "drain":
        executor.drain()
    else:
        executor.dispose()
        assert executor.wait_closed(PATIENCE)
    assert watchdogs("ends") == []
    # It watches until the workers have ended, also over what goes on after a dispose.
    assert len(log.records) == 1


def forget_one() -> threading.Thread:
    """Make an executor, let it be collected, and return the thread of its watchdog."""
    results_of(dispatched(range(10), str, KeyedExecutor(2, name="forgotten", slow_turn=0.01)))
    (watchdog,) = watchdogs("forgotten")
    for _ in range(1000):
        gc.collect()
        watchdog.join(0.01)
        if not watchdog.is_alive():
            break
    return watchdog


def test_a_forgotten_executor_leaves_no_thread() -> None:
    with pytest.warns(ResourceWarning, match="forgotten"):
        watchdog = forget_one()
    assert not watchdog.is_alive()


@pytest.mark.parametrize("off", [0, None])
def test_it_can_be_turned_off(off: float | None) -> None:
    with KeyedExecutor(2, name="off", slow_turn=off) as executor:
        results_of(dispatched(range(10), str, executor))
        assert watchdogs("off") == []


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1", True])
def test_what_is_no_number_of_seconds_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="slow_turn"):
        KeyedExecutor(1, slow_turn=wrong)


def test_it_stays_out_of_the_way_of_deterministic_runs() -> None:
    with DeterministicExecutor(2) as executor:
        assert results_of(dispatched([1], str, executor)) == ["1"]
        assert executor._slow_turns is None


# On virtual time, with a watchdog that production would make.


def watched(platform: ControlledPlatform, workers: int, reports: list[str]) -> KeyedExecutor:
    """An executor with a watchdog, which adds the names of dispatches to `reports`."""

    class Reporting(SlowTurns):
        def _tell(self, worker: Any, dispatch: Any, key: Any, seconds: float, stack: str) -> None:
            reports.append(dispatch.options.name)

    executor = KeyedExecutor(workers)
    executor._slow_turns = Reporting(1.0, executor._workers, "watchdog", platform)
    return executor


def end(executor: KeyedExecutor) -> None:
    executor.drain()
    assert executor._slow_turns is not None
    thread: Any = executor._slow_turns._thread
    assert thread is None or not thread.is_alive()


@pytest.mark.seeds(150, soak=5000)
def test_no_slow_turn_is_missed_and_no_fast_one_told_of(seed: int) -> None:
    # Whatever workers park and are woken between: the watchdog must not sleep while one of them is held.
    reports: list[str] = []
    slow: list[str] = []

    def scenario(platform: ControlledPlatform) -> None:
        executor = watched(platform, platform.random.randint(1, 3), reports)
        pauses = platform.random.choices([0, 0, 0.3, 5], k=6)
        for number, pause in enumerate(pauses):
            seconds = platform.random.choice([0, 0.1, 0.9, 1.6, 4])
            name = f"dispatch {number}"
            if seconds > 1.5:
                slow.append(name)

            def handle(message: int, seconds: float = seconds) -> int:
                if message == 3:
                    platform.sleep(seconds)
                return message

            assert sorted(results_of(dispatched(range(5), handle, executor, name=name))) == list(range(5))
            platform.sleep(pause)
        end(executor)

    run(scenario, seed)
    assert reports == slow


@pytest.mark.seeds(100, soak=5000)
def test_a_worker_that_finds_work_while_it_parks_is_watched(seed: int) -> None:
    # It goes on without being woken, just when the watchdog looks whether it may sleep.
    reports: list[str] = []

    def scenario(platform: ControlledPlatform) -> None:
        executor = watched(platform, 1, reports)
        (worker,) = executor._workers
        mailbox: Any = Mailbox()
        mailbox.key = "key"
        mailbox.dispatch = SimpleNamespace(options=SimpleNamespace(name="slow"))
        # Its submitter saw it running.
        worker._parked = False
        worker.fifo.append(mailbox)
        assert executor._slow_turns is not None
        executor._slow_turns.wake()
        assert worker._park() is mailbox
        worker.turn_of, worker.turn_began = mailbox, platform.monotonic()
        platform.sleep(4)
        worker.turn_of = None
        end(executor)

    run(scenario, seed)
    assert reports == ["slow"]


def test_a_turn_that_ends_while_it_is_looked_at_is_not_told_of() -> None:
    reports: list[str] = []

    def scenario(platform: ControlledPlatform) -> None:
        class Ending(Mailbox):
            """Its turn ends when somebody looks at its key."""

            @property
            def key(self) -> str:  # type: ignore[override]
                worker.turn_of = None
                return "key"

        executor = watched(platform, 1, reports)
        (worker,) = executor._workers
        mailbox: Any = Ending()
        mailbox.dispatch = SimpleNamespace(options=SimpleNamespace(name="ended"))
        platform.sleep(10)
        worker.turn_of = mailbox
        assert executor._slow_turns is not None
        executor._slow_turns._look_at(worker)
        assert worker.turn_of is None
        end(executor)

    run(scenario)
    assert reports == []


def test_a_dispatch_is_told_of_once_a_minute() -> None:
    reports: list[str] = []

    def scenario(platform: ControlledPlatform) -> None:
        def hold(message: int) -> int:
            platform.sleep(10)
            return message

        executor = watched(platform, 1, reports)
        # 100 seconds, and then 20 of another dispatch.
        results_of(dispatched(range(10), hold, executor, name="first"))
        results_of(dispatched(range(2), hold, executor, name="second"))
        end(executor)

    run(scenario)
    assert reports == ["first", "first", "second"]


def test_it_sleeps_while_all_workers_are_parked() -> None:
    def scenario(platform: ControlledPlatform) -> int:
        executor = watched(platform, 2, [])
        results_of(dispatched(range(5), str, executor))
        platform.sleep(10)
        steps = len(platform.schedule)
        platform.sleep(3600)
        steps = len(platform.schedule) - steps
        end(executor)
        return steps

    assert run(scenario) < 10
