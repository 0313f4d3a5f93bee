"""ControlledTestScheduler: RxPY's virtual time, and that of controlled threads, are one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.testing import ReactiveTest, TestScheduler
from reactivex.testing.recorded import Recorded

from rxwow.errors import InvalidArgumentError, UsageError
from rxwow.testing import (
    ControlledPlatform,
    LivelockError,
    Replay,
    ScheduleFailure,
    UncontrolledThreadError,
    run,
)
from rxwow.testing.marbles import controlled_marbles
from rxwow.testing.scheduler import ControlledTestScheduler

on_next, on_completed = ReactiveTest.on_next, ReactiveTest.on_completed

Log = list[tuple[float, str]]


def noting(log: Log, what: str) -> Callable[..., None]:
    """Return an action that writes down that it ran, and when."""

    def action(scheduler: Any, _: Any = None) -> None:
        log.append((scheduler.clock, what))

    return action


# What RxPY's does, this does too.

OPERATORS: list[Callable[[TestScheduler], Callable[[Observable[int]], Observable[Any]]]] = [
    lambda _: ops.delay(7.0),
    lambda _: ops.debounce(15.0),
    lambda _: ops.throttle_first(20.0),
    lambda _: ops.sample(25.0),
    lambda _: ops.buffer_with_time(30.0),
    lambda _: ops.timeout(90.0),
    lambda _: ops.take_until(reactivex.timer(333.0)),
    lambda _: ops.flat_map(lambda n: reactivex.interval(10.0 + n).pipe(ops.take(3))),
    ops.observe_on,
    lambda _: ops.scan(lambda a, b: a + b),
]


@given(
    st.lists(st.tuples(st.integers(1, 1100), st.integers(0, 5)), max_size=12),
    st.booleans(),
    st.lists(st.sampled_from(OPERATORS), max_size=3),
    st.integers(0, 1000),
)
def test_the_same_test_gives_the_same_messages(
    items: list[tuple[int, int]],
    is_hot: bool,
    operators: list[Callable[[TestScheduler], Callable[[Observable[int]], Observable[Any]]]],
    seed: int,
) -> None:
    def messages(scheduler: TestScheduler) -> tuple[list[Recorded[Any]], list[Any]]:
        recorded = [on_next(time, value) for time, value in items]
        source = scheduler.create_hot_observable(recorded) if is_hot else scheduler.create_cold_observable(recorded)

        def create() -> Observable[Any]:
            piped: Observable[Any] = source
            for operator in operators:
                piped = piped.pipe(operator(scheduler))
            return piped

        return scheduler.start(create).messages, source.subscriptions

    assert run(lambda platform: messages(ControlledTestScheduler()), seed) == messages(TestScheduler())


def test_actions_run_when_they_are_due_and_in_the_order_in_which_they_were_scheduled() -> None:
    def scenario(_: ControlledPlatform) -> Log:
        log: Log = []
        scheduler = ControlledTestScheduler()
        scheduler.schedule_absolute(30.0, noting(log, "third"))
        scheduler.schedule_relative(timedelta(seconds=10), noting(log, "first"))
        scheduler.schedule_relative(10, noting(log, "second"))
        scheduler.schedule_absolute(datetime.fromtimestamp(30, tz=UTC), noting(log, "fourth"))
        scheduler.schedule_absolute(20.0, noting(log, "disposed")).dispose()
        scheduler.schedule(noting(log, "at once"))
        scheduler.start()
        scheduler.schedule_absolute(5.0, noting(log, "late"))
        scheduler.start()
        assert scheduler.now == datetime.fromtimestamp(scheduler.clock, tz=UTC)
        return log

    # TestScheduler.start stays until 1000 s, when it disposes of what it has subscribed to.
    assert run(scenario) == [
        (0, "at once"),
        (10, "first"),
        (10, "second"),
        (30, "third"),
        (30, "fourth"),
        (1000, "late"),
    ]


def test_a_periodic_action_runs_until_it_is_disposed() -> None:
    def scenario(_: ControlledPlatform) -> Log:
        log: Log = []
        scheduler = ControlledTestScheduler()
        periodic = scheduler.schedule_periodic(15.0, lambda state: log.append((scheduler.clock, "again")))
        scheduler.schedule_absolute(50.0, lambda *_: periodic.dispose())
        scheduler.start()
        return log

    assert run(scenario) == [(15, "again"), (30, "again"), (45, "again")]


def test_its_time_begins_when_it_is_made() -> None:
    def scenario(platform: ControlledPlatform) -> float:
        platform.sleep(500)
        scheduler = ControlledTestScheduler()
        assert scheduler.clock == 0
        results = scheduler.start(lambda: reactivex.timer(10.0))
        assert results.messages == [on_next(210, 0), on_completed(210)]
        return platform.monotonic()

    assert run(scenario) == 1500


# With threads.


@pytest.mark.seeds(50, soak=5000)
def test_threads_and_actions_have_one_clock(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> Log:
        log: Log = []
        scheduler = ControlledTestScheduler()

        async def on_a_loop() -> None:
            for _ in range(3):
                await asyncio.sleep(0.7)
                log.append((scheduler.clock, "loop"))

        def on_a_thread() -> None:
            platform.sleep(1.5)
            log.append((scheduler.clock, "thread"))

        loop = platform.event_loop()
        threads = [
            platform.thread(lambda: loop.run_until_complete(on_a_loop()), "loop"),
            platform.thread(on_a_thread, "thread"),
        ]
        for thread in threads:
            thread.start()
        for time in (0.5, 1.0, 2.0):
            scheduler.schedule_absolute(time, noting(log, "action"))
        scheduler.start(disposed=3.0)
        return log

    assert run(scenario, seed) == [
        (0.5, "action"),
        (0.7, "loop"),
        (1, "action"),
        (1.4, "loop"),
        (1.5, "thread"),
        (2, "action"),
        (2.1, "loop"),
    ]


@pytest.mark.seeds(50, soak=5000)
def test_what_a_thread_schedules_runs_on_the_starting_thread_when_it_is_due(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> Log:
        log: Log = []
        scheduler = ControlledTestScheduler()
        main = threading.get_ident()

        def action(*_: Any) -> None:
            assert threading.get_ident() == main
            log.append((scheduler.clock, "scheduled"))

        def schedule() -> None:
            # Each is due before anything that the scheduler knows of, and the last when it knows of nothing.
            for delay in (2.0, 3.0, 2000.0):
                platform.sleep(delay)
                scheduler.schedule(action)
                scheduler.schedule_relative(1.0, action)

        platform.thread(schedule, "other").start()
        scheduler.start()
        return log

    assert run(scenario, seed) == [(time, "scheduled") for time in (2, 3, 5, 6, 2005, 2006)]


@pytest.mark.seeds(20, soak=2000)
def test_advancing_lets_threads_get_as_far_as_they_do_by_that_time(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        log: Log = []
        scheduler = ControlledTestScheduler()

        def work() -> None:
            for _ in range(4):
                platform.sleep(10)
                log.append((scheduler.clock, "worked"))
                scheduler.schedule_relative(2.0, noting(log, "followed"))

        platform.thread(work, "worker").start()
        scheduler.advance_to(10)
        assert (scheduler.clock, log) == (10, [(10, "worked")])
        scheduler.advance_by(1.5)
        assert (scheduler.clock, log) == (11.5, [(10, "worked")])
        scheduler.advance_by(timedelta(seconds=11))
        assert (scheduler.clock, log[1:]) == (22.5, [(12, "followed"), (20, "worked"), (22, "followed")])
        # Nothing is run while it sleeps; what was due then comes after.
        scheduler.sleep(10)
        assert (scheduler.clock, log[4:]) == (32.5, [(30, "worked")])
        scheduler.advance_to(32.5)
        assert log[5:] == [(32.5, "followed")]
        with pytest.raises(InvalidArgumentError, match=r"time must be a time to come; it is 32\.5 already, not 30"):
            scheduler.advance_to(30)

    run(scenario, seed)


def test_an_advance_may_be_stopped_and_does_not_nest() -> None:
    def scenario(_: ControlledPlatform) -> Log:
        log: Log = []
        scheduler = ControlledTestScheduler()

        def nested(*_: Any) -> None:
            scheduler.advance_to(50)
            log.append((scheduler.clock, "nested"))

        scheduler.schedule_absolute(1.0, nested)
        scheduler.schedule_absolute(2.0, lambda *_: scheduler.stop())
        scheduler.schedule_absolute(2.0, noting(log, "not run"))
        scheduler.advance_to(100)
        log.append((scheduler.clock, "stopped"))
        return log

    assert run(scenario) == [(1, "nested"), (2, "stopped")]


@pytest.mark.seeds(30, soak=3000)
def test_no_thread_comes_between_while_an_action_holds_a_lock_of_rxpy(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> list[str]:
        order: list[str] = []
        lock = threading.RLock()
        scheduler = ControlledTestScheduler()

        def emit(*_: Any) -> None:
            with lock:
                for _repeated in range(5):
                    platform.point("emitting")
                order.append("emitted")

        def dispose() -> None:
            platform.point("disposing")
            with lock:
                order.append("disposed")

        for number in range(2):
            platform.thread(dispose, f"worker-{number}").start()
        scheduler.schedule(emit)
        scheduler.schedule(emit)
        scheduler.start(disposed=300)
        return order

    platform = ControlledPlatform(seed, patience=1.0)
    order = platform.run(scenario)
    assert sorted(order) == ["disposed", "disposed", "emitted", "emitted"]
    assert ControlledPlatform(chooser=Replay(platform.choices)).run(scenario) == order


def test_threads_do_come_between_two_actions_of_one_time() -> None:
    def scenario(platform: ControlledPlatform) -> str:
        order: list[str] = []
        scheduler = ControlledTestScheduler()
        for number in range(2):
            platform.thread(lambda: order.append("w"), f"worker-{number}").start()
        for _ in range(2):
            scheduler.schedule(lambda *_: order.append("a"))
        scheduler.start()
        return "".join(order)

    assert {run(scenario, seed) for seed in range(200)} == {"aaww", "awaw", "awwa", "waaw", "wawa", "wwaa"}


# What can't be.


def test_it_needs_a_controlled_run() -> None:
    with pytest.raises(UsageError, match=r"make it in a `with DeterministicExecutor\(\.\.\.\)` block"):
        ControlledTestScheduler()
    with pytest.raises(UsageError, match="ControlledTestScheduler"):
        controlled_marbles()


def test_only_controlled_threads_may_schedule() -> None:
    def scenario(_: ControlledPlatform) -> None:
        scheduler = ControlledTestScheduler()

        def schedule() -> None:
            with pytest.raises(UncontrolledThreadError):
                scheduler.schedule(lambda *_: None)

        stranger = threading.Thread(target=schedule, name="stranger")
        stranger.start()
        stranger.join()
        scheduler.start()

    with pytest.raises(ScheduleFailure, match="'stranger' used a controlled lock") as caught:
        run(scenario)
    assert isinstance(caught.value.__cause__, UncontrolledThreadError)


def test_an_action_that_repeats_itself_without_end_is_found() -> None:
    def scenario(_: ControlledPlatform) -> None:
        scheduler = ControlledTestScheduler()

        def again(*_: Any) -> None:
            scheduler.schedule(again)

        scheduler.schedule(again)
        scheduler.start()

    with pytest.raises(ScheduleFailure) as caught:
        run(scenario, step_limit=1000)
    assert isinstance(caught.value.__cause__, LivelockError)


def test_what_an_action_raises_comes_out_of_start_and_the_rest_can_go_on() -> None:
    def scenario(_: ControlledPlatform) -> Log:
        log: Log = []
        scheduler = ControlledTestScheduler()

        def fail(*_: Any) -> Disposable:
            raise ZeroDivisionError

        scheduler.schedule_absolute(10.0, fail)
        scheduler.schedule_absolute(20.0, noting(log, "after"))
        with pytest.raises(ZeroDivisionError):
            scheduler.advance_to(100)
        assert scheduler.clock == 10
        scheduler.advance_to(100)
        return log

    assert run(scenario) == [(20, "after")]


def test_marbles_are_recorded_at_whole_nanoseconds() -> None:
    def scenario(_: ControlledPlatform) -> list[Recorded[Any]]:
        start, cold, hot, exp = controlled_marbles(timespan=1 / 3)
        source = reactivex.merge(cold("---a---b|"), hot("x--y---|"))
        expected = [*exp("---y"), *exp("---a"), *exp("-------b|")]
        assert start(source) == expected
        return exp("-------#", error=ValueError("seven"))

    [last] = run(scenario)
    assert (last.time, str(last.value)) == (202.333333333, "OnError(seven)")
