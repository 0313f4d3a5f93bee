"""The real executor under random schedules: whatever threads do, order, bound and books hold, and nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import reactivex

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from rxwow.execution.dispatch import Dispatch
from rxwow.execution.statistics import DispatchStatistics
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.testing import ControlledPlatform, ControlledThreadPool, run

KINDS = ("plain", "slow", "async", "future", "observable", "generator")


class Refusal(Exception):
    """What a handler of these scenarios fails with."""


@dataclass
class Plan:
    """What one scenario does, drawn from its seed."""

    messages: int
    keys: int
    workers: int
    max_in_flight: int
    throughput: int
    kinds: list[str]
    failures: set[int]
    on_failure: str
    demand: int
    asks_outside: bool
    ending: str
    ends_after: int

    @staticmethod
    def draw(random: Random) -> Plan:
        messages = random.randint(0, 24)
        return Plan(
            messages=messages,
            keys=random.randint(1, 6),
            workers=random.randint(1, 3),
            max_in_flight=random.choice([1, 2, 3, 15, 16, 17, 40]),
            throughput=random.choice([1, 2, 16]),
            kinds=random.sample(KINDS, random.randint(1, 6)),
            failures={random.randrange(24) for _ in range(random.choice([0, 0, 1, 3]))},
            on_failure=random.choice(["fail", "skip", "retry"]),
            demand=random.choice([1, 2, UNBOUNDED]),
            asks_outside=random.random() < 0.25,
            ending=random.choice(["complete", "complete", "cancel", "dispose", "drain", "cancel inside"]),
            ends_after=random.randint(0, 12),
        )


@dataclass
class Record:
    """What was seen; every controlled step is taken by one thread at a time, so it needs no lock."""

    started: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    active: Counter[int] = field(default_factory=Counter)
    finished: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    attempts: Counter[int] = field(default_factory=Counter)
    skipped: list[int] = field(default_factory=list)


class Taker(Subscriber[Any]):
    """Takes results within its demand, and checks that signals are serial and end with the last."""

    def __init__(self, platform: ControlledPlatform, plan: Plan) -> None:
        self._platform = platform
        self._plan = plan
        self._inside = False
        self.subscription: Subscription
        self.taken: list[Any] = []
        self.end: str | Exception | None = None
        self.ended = platform.event()
        self.enough = platform.event()

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if not self._plan.asks_outside:
            subscription.request(self._plan.demand)

    def on_next(self, value: Any) -> None:
        assert not self._inside, "two signals at a time"
        assert self.end is None, "a result after the end"
        self._inside = True
        self._platform.point("on_next")
        self.taken.append(value)
        if len(self.taken) > self._plan.ends_after:
            self.enough.set()
            if self._plan.ending == "cancel inside":
                self.subscription.cancel()
        self._inside = False
        if self._plan.demand != UNBOUNDED and not self._plan.asks_outside:
            self.subscription.request(1)

    def on_error(self, error: Exception) -> None:
        self._finish(error)

    def on_completed(self) -> None:
        self._finish("completed")

    def _finish(self, end: str | Exception) -> None:
        assert not self._inside
        assert self.end is None, "two ends"
        self.end = end
        self.enough.set()
        self.ended.set()


class Handlers:
    """One handler that does each of `KINDS`, by its message."""

    def __init__(self, platform: ControlledPlatform, plan: Plan, record: Record, pool: ControlledThreadPool) -> None:
        self._platform = platform
        self._plan = plan
        self._record = record
        self._pool = pool
        self._by_kind: dict[str, Callable[[int], Any]] = {
            "plain": self._finish,
            "slow": self._slow,
            "async": self._waiting,
            "future": lambda message: pool.submit(self._finish, message),
            "observable": lambda message: reactivex.defer(lambda _: reactivex.of(self._finish(message))),
            "generator": self._generating,
        }

    def __call__(self, message: int) -> Any:
        key, record = message % self._plan.keys, self._record
        assert not record.active[key], f"two handlers of key {key}"
        record.active[key] += 1
        if not record.attempts[message]:
            record.started[key].append(message)
        record.attempts[message] += 1
        self._platform.point("handler")
        return self._by_kind[self._plan.kinds[message % len(self._plan.kinds)]](message)

    def _finish(self, message: int) -> int:
        self._record.active[message % self._plan.keys] -= 1
        return self._outcome(message)

    def _outcome(self, message: int) -> int:
        plan, record = self._plan, self._record
        if message in plan.failures and not (plan.on_failure == "retry" and record.attempts[message] > 2):
            raise Refusal(message)
        record.finished.append(message)
        return message

    def _slow(self, message: int) -> int:
        # Virtual time; without it all turns take none, and one worker is as good as two.
        self._platform.sleep(0.001 * (1 + message % 2))
        return self._finish(message)

    async def _waiting(self, message: int) -> int:
        try:
            await asyncio.sleep(message % 3 * 0.001)
        except asyncio.CancelledError:
            self._record.active[message % self._plan.keys] -= 1
            raise
        return self._finish(message)

    async def _generating(self, message: int) -> AsyncIterator[int]:
        try:
            await asyncio.sleep(message % 2 * 0.001)
            yield self._outcome(message)
            await asyncio.sleep(message % 3 * 0.001)
        finally:
            self._record.active[message % self._plan.keys] -= 1


def scenario(platform: ControlledPlatform) -> None:
    plan = Plan.draw(platform.random)
    record = Record()
    pool = ControlledThreadPool(platform, max_workers=2)
    executor = KeyedExecutor(plan.workers, max_in_flight=plan.max_in_flight, throughput=plan.throughput)
    taker = Taker(platform, plan)

    def decide(message: int, error: Exception) -> Any:
        assert isinstance(error, Refusal), error
        if plan.on_failure == "skip":
            record.skipped.append(message)
            return SKIP
        return Retry(0.01) if plan.on_failure == "retry" else FAIL

    flowable = Flowable.from_iterable(range(plan.messages)).pipe(
        keyed_dispatch(
            lambda message: message % plan.keys,
            Handlers(platform, plan, record, pool),
            executor=executor,
            on_failure=decide,
            on_discard=record.discarded.append,
        )
    )
    flowable.subscribe(taker)
    books = watch(executor)
    if plan.asks_outside:
        for _ in range(plan.messages):
            taker.subscription.request(plan.demand)
            platform.point("asked")
        taker.subscription.request(1)
    stop(plan, executor, taker)
    executor.dispose()
    executor.wait_closed()
    pool.shutdown()
    check(plan, record, taker, books)


def watch(executor: KeyedExecutor) -> Callable[[], DispatchStatistics | None]:
    """Return the books of the dispatch, also after its end; one that has ended already has none to show."""
    with executor._lock:
        dispatches: list[Dispatch] = list(executor._dispatches)
    return lambda: dispatches[0].statistics() if dispatches else None


def stop(plan: Plan, executor: KeyedExecutor, taker: Taker) -> None:
    if plan.ending == "complete":
        taker.ended.wait()
        return
    if plan.messages:
        taker.enough.wait(timeout=1)
    if plan.ending == "cancel":
        taker.subscription.cancel()
    elif plan.ending == "dispose":
        executor.dispose()
    elif plan.ending == "drain":
        assert executor.drain(timeout=60), "the drain did not end"


def check(plan: Plan, record: Record, taker: Taker, books: Callable[[], DispatchStatistics | None]) -> None:
    for key, started in record.started.items():
        assert started == sorted(started), f"key {key} out of order: {started}"
    # What has emitted all and whose completion was cut off is discarded, so it may end in both ways.
    several = ("observable", "generator")
    whole = [message for message in record.finished if plan.kinds[message % len(plan.kinds)] not in several]
    for key in range(plan.keys):
        taken = [message for message in taker.taken if message % plan.keys == key]
        assert taken == sorted(taken), f"results of key {key} out of order: {taken}"
    ends = Counter(whole) + Counter(record.discarded)
    assert not [message for message, count in ends.items() if count > 1], "a message ended twice"
    statistics = books()
    if statistics is not None:
        window = statistics.window
        assert window.in_flight == 0, statistics
        assert window.peak_in_flight <= plan.max_in_flight
        assert window.admitted == window.succeeded + window.skipped + window.failed + window.discarded
        assert window.discarded == len(record.discarded)
    if plan.ending == "complete":
        fails = plan.on_failure == "fail" and any(message < plan.messages for message in plan.failures)
        assert isinstance(taker.end, Refusal) if fails else taker.end == "completed", taker.end
        if not fails:
            assert sorted(taker.taken) == sorted(set(range(plan.messages)) - set(record.skipped))
    elif plan.ending == "drain":
        assert not isinstance(taker.end, ExecutorClosedError)


@pytest.mark.seeds(600, soak=10_000)
def test_nothing_is_found_in_the_real_code(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")
    run(scenario, seed)
