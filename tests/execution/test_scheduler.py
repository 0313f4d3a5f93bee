"""KeyedScheduler: a full scheduler of RxPY on the workers of an executor."""

import contextvars
import gc
import itertools
import logging
import threading
import weakref
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
import reactivex
from reactivex import abc, operators
from reactivex.disposable import BooleanDisposable
from reactivex.scheduler import CatchScheduler, VirtualTimeScheduler

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError, InvalidArgumentError
from rxwow.execution.scheduler import KeyedScheduler
from rxwow.testing import ControlledPlatform, DeterministicExecutor, run
from tests.execution.collecting import PATIENCE, Collector

# RxPY's types can't infer those of a lambda.
ops: Any = operators


def divide_by_zero(*_: Any) -> None:
    raise ZeroDivisionError


def test_actions_of_a_key_run_in_the_order_in_which_they_become_due() -> None:
    with DeterministicExecutor() as executor:
        keyed = KeyedScheduler(executor).for_key("ann")
        seen: list[tuple[str, float]] = []
        done = executor.platform.event()

        def note(_: abc.SchedulerBase, what: Any) -> None:
            seen.append((what, executor.platform.monotonic()))
            if what == "last":
                done.set()

        keyed.schedule_relative(3, note, "third")
        keyed.schedule_relative(timedelta(seconds=2), note, "second")
        keyed.schedule_absolute(datetime.fromtimestamp(3, UTC), note, "fourth")
        keyed.schedule_relative(4, note, "last")
        keyed.schedule(note, "first")
        keyed.schedule_relative(-5, note, "at once")
        done.wait()
    assert seen == [("first", 0), ("at once", 0), ("second", 2), ("third", 3), ("fourth", 3), ("last", 4)]


class Timeline:
    """Schedules actions at random, also from inside others, disposes some, and notes which ran when."""

    def __init__(self, platform: ControlledPlatform, random: Random, scheduler: KeyedScheduler) -> None:
        self._platform = platform
        self._random = random
        self._scheduler = scheduler
        self._running: set[int] = set()
        self.scheduled = 0
        self.sent = 0
        self.taken: dict[int, list[int]] = defaultdict(list)
        self.ran: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self.disposed: set[int] = set()

    def schedule_five(self) -> None:
        for _ in range(5):
            self.schedule(0)

    def schedule(self, depth: int) -> None:
        key = self._random.randrange(2)
        delay = self._random.choice([0, 0, 1, 1, 2])
        number = self.scheduled
        self.scheduled += 1
        due = self._platform.monotonic() + delay

        def act(_: abc.SchedulerBase, __: Any) -> None:
            assert key not in self._running
            self._running.add(key)
            assert self._platform.monotonic() >= due
            assert number not in self.disposed
            self.ran[key].append((due, number))
            if depth < 2 and self._random.random() < 0.3:
                self.schedule(depth + 1)
            self._platform.point("acts")
            self._running.discard(key)

        disposable = self._scheduler.for_key(key).schedule_relative(delay, act)
        if self._random.random() < 0.15:
            disposable.dispose()
            if (due, number) not in self.ran[key]:
                self.disposed.add(number)

    def send_five(self) -> None:
        """Take five messages to the actions of a key."""
        key = self._random.randrange(2)
        first = self.sent
        self.sent += 5

        def take(message: int) -> None:
            assert key not in self._running
            self._running.add(key)
            self.taken[key].append(message)
            self._platform.point("takes")
            self._running.discard(key)

        source = Flowable.from_iterable(range(first, self.sent))
        source.pipe(ops.observe_on(self._scheduler.for_key(key))).subscribe(take)

    def check(self) -> None:
        assert sorted(itertools.chain(*self.taken.values())) == list(range(self.sent))
        for of_key in self.taken.values():
            # Each five keep their order; two subscriptions are two streams.
            for first in range(0, self.sent, 5):
                mine = [message for message in of_key if first <= message < first + 5]
                assert mine == sorted(mine)
        for ran in self.ran.values():
            dues = [due for due, _ in ran]
            assert dues == sorted(dues)
        assert sum(map(len, self.ran.values())) + len(self.disposed) == self.scheduled


@pytest.mark.seeds(150, soak=10_000)
def test_actions_of_a_key_are_serial_and_in_order_and_none_is_early(seed: int) -> None:
    """Immediate and timed actions and messages, from several threads and from inside actions, some of them disposed."""

    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        with KeyedExecutor(random.randint(1, 3), throughput=random.choice([1, 2, 16])) as executor:
            timeline = Timeline(platform, random, KeyedScheduler(executor))
            threads = [platform.thread(timeline.schedule_five, f"scheduling {number}") for number in range(2)]
            threads += [platform.thread(timeline.send_five, f"sending {number}") for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # Longer than any chain of them takes.
            platform.event().wait(timeout=30)
        timeline.check()

    run(scenario, seed)


def test_equal_due_times_run_in_the_order_scheduled() -> None:
    with DeterministicExecutor(workers=3) as executor:
        keyed = KeyedScheduler(executor).for_key(1)
        seen: list[int] = []
        due = executor.platform.now() + timedelta(seconds=1)

        def note(_: abc.SchedulerBase, number: int | None) -> None:
            assert number is not None
            seen.append(number)

        for number in range(50):
            keyed.schedule_absolute(due, note, number)
        executor.platform.event().wait(timeout=2)
    assert seen == list(range(50))


def test_keys_and_actions_without_a_key_run_side_by_side() -> None:
    with KeyedExecutor(2) as executor:
        scheduler = KeyedScheduler(executor)
        for pair in ((scheduler.for_key("a"), scheduler.for_key("b")), (scheduler, scheduler)):
            meeting = threading.Barrier(3)

            def meet(*_: Any, meeting: threading.Barrier = meeting) -> None:
                meeting.wait(PATIENCE)

            for each in pair:
                each.schedule(meet)
            meeting.wait(PATIENCE)


def test_what_is_disposed_does_not_run_and_leaves_nothing_behind() -> None:
    class Held:
        pass

    with DeterministicExecutor() as executor:
        keyed = KeyedScheduler(executor).for_key(1)
        ran: list[Any] = []
        gone = []
        for delay in (1, 5_000):
            held = Held()
            gone.append(weakref.ref(held))
            keyed.schedule_relative(delay, lambda _, state: ran.append(state), held).dispose()
            del held
        many = [keyed.schedule_relative(5_000, lambda *_: None) for _ in range(1_000)]
        for each in many:
            each.dispose()
        gc.collect()
        assert [each() for each in gone] == [None] * 2
        source: Any = keyed._actions._source  # type: ignore[attr-defined]
        assert len(source._timers) < 100
    assert ran == []


def test_a_disposable_that_an_action_returns_is_disposed_with_it() -> None:
    with DeterministicExecutor() as executor:
        scheduler = KeyedScheduler(executor)
        ran = executor.platform.event()
        disposed = BooleanDisposable()

        def action(*_: Any) -> Any:
            ran.set()
            return disposed

        scheduled = scheduler.schedule(action)
        ran.wait()
        executor.platform.event().wait(timeout=1)
        assert not disposed.is_disposed
        scheduled.dispose()
        assert disposed.is_disposed


def test_an_action_that_raises_is_logged_and_no_worker_dies(caplog: pytest.LogCaptureFixture) -> None:
    with DeterministicExecutor(workers=1) as executor:
        keyed = KeyedScheduler(executor).for_key("ann")
        after = executor.platform.event()
        with caplog.at_level(logging.WARNING, "rxwow.execution"):
            keyed.schedule(divide_by_zero)
            keyed.schedule(lambda *_: after.set())
            after.wait()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "KeyedScheduler skipped a message of key 'ann' that failed")
    ]


def test_catch_scheduler_sees_the_error() -> None:
    with DeterministicExecutor() as executor:
        caught: list[Exception] = []
        done = executor.platform.event()

        def catch(error: Exception) -> bool:
            caught.append(error)
            done.set()
            return True

        CatchScheduler(KeyedScheduler(executor).for_key(1), catch).schedule(divide_by_zero)
        done.wait()
    assert [type(error) for error in caught] == [ZeroDivisionError]


def test_an_action_runs_in_the_context_in_which_it_was_scheduled() -> None:
    name = contextvars.ContextVar("name", default="none")
    seen: list[str] = []
    with DeterministicExecutor() as executor:
        scheduler = KeyedScheduler(executor)

        def schedule(each: str) -> None:
            name.set(each)
            scheduler.schedule(lambda *_: seen.append(name.get()))

        for each in ("ann", "bob"):
            contextvars.copy_context().run(schedule, each)
    assert sorted(seen) == ["ann", "bob"]
    assert name.get() == "none"


def test_periodic_actions_pass_their_state_on() -> None:
    with DeterministicExecutor() as executor:
        keyed = KeyedScheduler(executor).for_key(1)
        seen: list[tuple[int, float]] = []
        done = executor.platform.event()

        def count(state: int | None) -> int:
            assert state is not None
            seen.append((state, executor.platform.monotonic()))
            if state == 3:
                done.set()
            return state + 1

        periodic = keyed.schedule_periodic(2.0, count, 1)
        done.wait()
        periodic.dispose()
        executor.platform.event().wait(timeout=10)
    assert seen == [(1, 2), (2, 4), (3, 6)]


def test_works_wherever_rxpy_takes_a_scheduler() -> None:
    with DeterministicExecutor() as executor:
        keyed = KeyedScheduler(executor).for_key(1)

        def result(observable: reactivex.Observable[Any]) -> Any:
            return Flowable.from_observable(observable.pipe(ops.to_list())).run()

        numbers = reactivex.of(1, 2, 3)
        assert result(reactivex.timer(5.0, scheduler=keyed)) == [0]
        assert result(reactivex.interval(5.0, scheduler=keyed).pipe(ops.take(3))) == [0, 1, 2]
        assert result(numbers.pipe(ops.observe_on(keyed))) == [1, 2, 3]
        assert result(numbers.pipe(ops.subscribe_on(keyed))) == [1, 2, 3]
        assert result(numbers.pipe(ops.delay(5.0, scheduler=keyed))) == [1, 2, 3]
        assert result(numbers.pipe(ops.debounce(5.0, scheduler=keyed))) == [3]
        assert result(reactivex.never().pipe(ops.timeout(5.0, reactivex.of(9), scheduler=keyed))) == [9]
        assert result(numbers.pipe(ops.buffer_with_time(5.0, scheduler=keyed))) == [[1, 2, 3]]
        elapsed = executor.platform.monotonic()
    assert 30 <= elapsed < 45


def test_a_drain_ends_it_after_the_dispatches_and_drops_what_is_not_due() -> None:
    with DeterministicExecutor() as executor:
        scheduler = KeyedScheduler(executor)
        ran: list[str] = []
        scheduler.schedule(lambda *_: ran.append("due"))
        scheduler.schedule_relative(60, lambda *_: ran.append("later"))
        assert executor.drain()
        with pytest.raises(ExecutorClosedError, match="schedule while it is open"):
            scheduler.schedule(lambda *_: None)
        assert executor.platform.monotonic() < 60
    assert ran == ["due"]


def test_a_closed_executor_is_told_at_the_first_action() -> None:
    executor = KeyedExecutor(1)
    executor.dispose()
    scheduler = KeyedScheduler(executor)
    for delay in (0, 1):
        with pytest.raises(ExecutorClosedError):
            scheduler.schedule_relative(delay, lambda *_: None)


def test_making_one_starts_nothing() -> None:
    with KeyedExecutor(1) as executor:
        KeyedScheduler(executor).for_key(1)
        assert executor.statistics().dispatches == ()
        assert not executor.statistics().workers[0].started


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="executor must be"):
        KeyedScheduler(3)  # type: ignore[arg-type]
    with KeyedExecutor(1) as executor, pytest.raises(InvalidArgumentError, match="key must be hashable"):
        KeyedScheduler(executor).for_key([])  # type: ignore[arg-type]


def test_the_observable_that_a_handler_returns_is_given_the_scheduler_of_the_subscription() -> None:
    virtual = VirtualTimeScheduler()
    with DeterministicExecutor() as executor:
        collector = Collector(1)
        operator = keyed_dispatch(str, lambda _: reactivex.timer(3_600.0), executor=executor)
        Flowable.from_iterable([1]).pipe(operator).subscribe(collector, scheduler=virtual)
        executor.platform.event().wait(timeout=1)
        assert collector.taken == []
        virtual.start()
        executor.drain()
        assert collector.taken == [0]
        assert virtual.clock >= 3_600
