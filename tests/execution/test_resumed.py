"""What comes back after a wait is a message like any other: it takes its part of the turn and of the batch."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex.subject import Subject

from rxwow import Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.execution.turn import MOST_MESSAGES_A_BATCH
from rxwow.execution.worker import DRAIN_TIME
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.streams.probe import BatchProbe, Probe

A_MILLISECOND = 0.001


def same(number: Any) -> Any:
    return number


class Retried:
    """A handler that takes its time, and fails at first; all its second attempts are due at `DUE_AT`."""

    DUE_AT = 1.0

    def __init__(self, platform: ControlledPlatform, first: float, second: float) -> None:
        self._platform = platform
        self._times = [second, first]
        self._failed: set[int] = set()

    def __call__(self, number: int) -> float:
        self._platform.sleep(self._times[number not in self._failed])
        if number not in self._failed:
            self._failed.add(number)
            raise ValueError("at first")
        return self._platform.monotonic()

    def decide(self, _: int, __: Exception) -> Retry:
        return Retry(self.DUE_AT - self._platform.monotonic())


@pytest.mark.seeds(10, soak=1000)
def test_retries_that_are_due_together_let_timers_between_them(seed: int) -> None:
    late: list[float] = []

    async def tick(platform: ControlledPlatform) -> None:
        await asyncio.sleep(Retried.DUE_AT - A_MILLISECOND)
        while platform.monotonic() < Retried.DUE_AT + 0.05:
            due = platform.monotonic() + A_MILLISECOND
            await asyncio.sleep(A_MILLISECOND)
            late.append(platform.monotonic() - due)

    def scenario(platform: ControlledPlatform) -> None:
        handler = Retried(platform, A_MILLISECOND, A_MILLISECOND)
        with KeyedExecutor(workers=1) as executor:
            ticks = keyed_dispatch(same, tick, executor=executor)
            Flowable.from_iterable([platform]).pipe(ticks).subscribe(Probe(demand=1))
            retried = keyed_dispatch(same, handler, executor=executor, on_failure=handler.decide)
            Flowable.from_iterable(range(40)).pipe(retried).run()

    run(scenario, seed)
    # The message during which the time was over is handled to its end.
    assert max(late) <= DRAIN_TIME + 2 * A_MILLISECOND


@pytest.mark.seeds(10, soak=1000)
@pytest.mark.parametrize("first", [A_MILLISECOND, 0.0], ids=["fails late", "fails at once"])
def test_the_result_of_a_slow_retry_does_not_wait_for_the_other_retries(seed: int, first: float) -> None:
    held: list[float] = []

    def scenario(platform: ControlledPlatform) -> None:
        handler = Retried(platform, first, A_MILLISECOND)

        def take(finished: float) -> None:
            held.append(platform.monotonic() - finished)

        with KeyedExecutor(workers=1) as executor:
            retried = keyed_dispatch(same, handler, executor=executor, on_failure=handler.decide)
            Flowable.from_iterable(range(150)).pipe(retried).subscribe(Probe(demand=UNBOUNDED, on_item=take))

    run(scenario, seed)
    assert len(held) == 150
    # Attempts that fail at once make the handler look fast, until the first batch of those that don't.
    assert sum(time > 0 for time in held) < (1 if first else MOST_MESSAGES_A_BATCH)


@given(throughput=st.integers(1, 20))
@settings(max_examples=20)
def test_an_attempt_is_one_of_the_throughput_messages_of_its_turn(throughput: int) -> None:
    # F28, for a turn that begins with a retry.
    order: list[str] = []

    def scenario(platform: ControlledPlatform) -> None:
        failed = False

        def handler(message: str) -> None:
            nonlocal failed
            if message == "hot 0" and not failed:
                failed = True
                raise ValueError("at first")
            order.append(message)
            if message == "blocks":
                # Until the retry is due, so that the turn which it begins has the cold messages behind it.
                platform.sleep(1.0)

        hot = [f"hot {number}" for number in range(2 * throughput)]
        cold = [f"cold {number}" for number in range(10 * throughput)]
        with KeyedExecutor(workers=1, throughput=throughput, max_in_flight=300) as executor:
            dispatch = keyed_dispatch(
                lambda message: message.split()[0], handler, executor=executor, on_failure=lambda *_: Retry(0.1)
            )
            Flowable.from_iterable([*hot, "blocks", *cold]).pipe(dispatch).run()

    run(scenario, seed=throughput)
    begin = order.index("hot 0")
    assert order[begin : begin + throughput] == [f"hot {number}" for number in range(throughput)]
    assert "cold" in order[begin + throughput]


def test_what_comes_back_together_is_settled_in_batches() -> None:
    gate = Gate()
    futures: dict[int, Future[int]] = {number: Future() for number in range(1000)}
    with KeyedExecutor(workers=1, max_in_flight=1000) as executor:
        probe = BatchProbe(demand=UNBOUNDED)
        Flowable.from_iterable(range(1000)).pipe(
            keyed_dispatch(same, lambda number: futures[number], executor=executor)
        ).subscribe(probe)
        # The only worker has begun all waits before it comes to the gate.
        holds = Probe(demand=1)
        Flowable.from_iterable(["gate"]).pipe(keyed_dispatch(same, gate, executor=executor)).subscribe(holds)
        gate.wait_for_arrivals(1)
        for number, future in futures.items():
            future.set_result(number)
        gate.let_go()
        probe.wait_for_end()
    assert probe.items == list(range(1000))
    assert max(probe.batches) <= MOST_MESSAGES_A_BATCH


@pytest.mark.seeds(20, soak=1000)
def test_what_was_over_before_the_end_is_not_discarded_by_it(seed: int) -> None:
    discarded: list[Any] = []

    def scenario(platform: ControlledPlatform) -> None:
        subject: Subject[int] = Subject()
        busy = platform.event()

        def keep_busy(_: int) -> None:
            busy.set()
            platform.sleep(1.0)

        with KeyedExecutor(workers=1) as executor:
            probe = Probe(demand=UNBOUNDED)
            waits = keyed_dispatch(same, lambda _: subject, executor=executor, on_discard=discarded.append)
            Flowable.from_iterable(["waits"]).pipe(waits).subscribe(probe)
            (dispatch,) = executor._dispatches
            Flowable.from_iterable([0]).pipe(keyed_dispatch(same, keep_busy, executor=executor)).subscribe(Probe(1))
            busy.wait()
            # The worker learns of both when it is no longer busy: from the mailbox of this, from its loop of that.
            subject.on_next(1)
            subject.on_completed()
            probe.cancel()
        assert probe.items == [1]
        window = dispatch.statistics().window
        assert (window.succeeded, window.discarded, window.in_flight) == (1, 0, 0)

    run(scenario, seed)
    assert discarded == []
