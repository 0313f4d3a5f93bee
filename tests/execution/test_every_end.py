"""Every way to end a dispatch, from every place, with handlers of every kind: each message ends once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Hashable, Iterator
from random import Random
from typing import Any

import pytest
import reactivex

from rxwow import FAIL, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.execution import ExecutionHook
from rxwow.execution.dispatch import Dispatch
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, ControlledThreadPool, run
from tests.streams.probe import Probe

ENDS = (
    "cancel in handler",
    "cancel in coroutine",
    "cancel in on_next",
    "cancel on a thread",
    "dispose in handler",
    "dispose in coroutine",
    "dispose in on_next",
    "dispose in on_discard",
    "dispose on a thread",
    "drain",
    "drain that times out",
    "handler fails",
    "key fails",
    "source fails",
    "observer fails",
)


class Failure(Exception):
    """What these scenarios fail with."""


class FailureList(ExecutionHook):
    def __init__(self, failed: list[int]) -> None:
        self._failed = failed

    def message_failed(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
        self._failed.append(item)


class Scenario:
    def __init__(self, platform: ControlledPlatform, end: str, seed: int) -> None:
        self.platform = platform
        self.end = end
        self.random = random = Random(seed)
        self.at = random.randrange(40)
        self.kinds = random.sample(["plain", "slow", "async", "future", "observable", "retry"], random.randint(1, 6))
        self.received: list[int] = []
        self.finished: list[int] = []
        self.failed: list[int] = []
        self.discarded: list[int] = []
        self.begun: Counter[int] = Counter()
        self.ended_by_call = False
        self.executor = KeyedExecutor(random.randint(1, 3), max_in_flight=random.choice([1, 2, 16, 40]))
        self.executor.add_hook(FailureList(self.failed))
        self.pool = ControlledThreadPool(platform, max_workers=2)
        demand = random.choice([3, UNBOUNDED])
        self.probe = Probe(demand=demand, on_item=self.on_item)
        self.endless_demand = demand == UNBOUNDED

    def numbers(self) -> Iterator[int]:
        for number in range(40):
            if self.end == "source fails" and number == self.at:
                raise Failure(number)
            yield number

    def key(self, number: int) -> int:
        self.received.append(number)
        if self.end == "key fails" and number == self.at:
            raise Failure(number)
        return number % 5

    def on_item(self, number: int) -> None:
        self.platform.point("on_next")
        if number >= self.at:
            if self.end == "observer fails":
                raise Failure(number)
            self.stop("on_next")
        if not self.endless_demand:
            self.probe.request(1)

    def stop(self, place: str) -> None:
        if self.end == f"cancel in {place}":
            self.probe.cancel()
        elif self.end == f"dispose in {place}":
            self.executor.dispose()

    def on_discard(self, number: int) -> None:
        self.discarded.append(number)
        self.platform.point("on_discard")
        self.stop("on_discard")

    def handler(self, number: int) -> Any:
        self.begun[number] += 1
        self.platform.point("handler")
        if number == self.at:
            self.stop("handler")
            if self.end == "handler fails":
                raise Failure(number)
            if self.end == "dispose in on_discard":
                self.probe.cancel()
        kind = self.kinds[number % len(self.kinds)]
        if kind == "retry" and self.begun[number] < 3:
            raise Failure("again")
        if kind == "async" or (number == self.at and "coroutine" in self.end):
            return self.coroutine(number)
        if kind == "future":
            return self.pool.submit(self.finish, number)
        if kind == "observable":
            return reactivex.defer(lambda _: reactivex.of(self.finish(number)))
        if kind == "slow":
            self.platform.sleep(0.002)
        return self.finish(number)

    def finish(self, number: int) -> int:
        self.finished.append(number)
        return number

    async def coroutine(self, number: int) -> int:
        await asyncio.sleep(number % 2 * 0.001)
        if number == self.at:
            self.stop("coroutine")
        return self.finish(number)

    def decide(self, number: int, error: Exception) -> Any:
        return Retry(0.01) if str(error) == "again" else FAIL

    def __call__(self) -> None:
        Flowable.from_iterable(self.numbers).pipe(
            keyed_dispatch(
                self.key, self.handler, executor=self.executor, on_failure=self.decide, on_discard=self.on_discard
            )
        ).subscribe(self.probe)
        with self.executor._lock:
            dispatches: list[Dispatch] = list(self.executor._dispatches)
        for _ in range(self.random.randrange(40)):
            self.platform.point("waits")
        drained = None
        if self.end == "cancel on a thread":
            self.probe.cancel()
        elif self.end == "dispose on a thread":
            self.executor.dispose()
        elif self.end == "drain that times out":
            drained = self.executor.drain(timeout=0.001 * self.random.randrange(8))
        else:
            drained = self.executor.drain(timeout=60)
        self.executor.dispose()
        self.executor.wait_closed()
        self.pool.shutdown()
        self.check(dispatches, drained)

    def check(self, dispatches: list[Dispatch], drained: bool | None) -> None:
        self.probe.check()
        exact = {n for n in self.received if self.kinds[n % len(self.kinds)] not in ("observable", "future")}
        ends = Counter(self.finished) + Counter(self.discarded) + Counter(self.failed)
        assert exact <= set(ends), f"lost: {exact - set(ends)}"
        doubled = {n: c for n, c in ends.items() if c > 1 and n in exact}
        assert not doubled, f"ended more than once: {doubled}"
        assert max(Counter(self.discarded).values(), default=1) == 1
        assert set(self.received) <= set(self.finished) | set(self.discarded) | set(self.failed)
        for dispatch in dispatches:
            books = dispatch.statistics()
            window = books.window
            assert window.in_flight == 0, books
            assert window.admitted == window.succeeded + window.skipped + window.failed + window.discarded
            assert window.discarded == len(self.discarded), (books, self.discarded)
        if self.end == "drain" and dispatches:
            assert drained
            assert self.probe.completions == 1
        assert len(self.probe.errors) + self.probe.completions <= 1


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.seeds(60, soak=1500)
def test_every_end(end: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")
    run(lambda platform: Scenario(platform, end, seed)(), seed)
