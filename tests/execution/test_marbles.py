"""keyed_dispatch in RxPY's virtual time and marble diagrams: what comes, and when, compared as values."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.testing import ReactiveTest
from reactivex.testing.recorded import Recorded

from rxwow import SKIP, Backoff, KeyedExecutor, keyed_dispatch
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.testing import ControlledPlatform, DeterministicExecutor, run
from rxwow.testing.marbles import controlled_marbles
from rxwow.testing.scheduler import ControlledTestScheduler

on_next, on_error, on_completed = ReactiveTest.on_next, ReactiveTest.on_error, ReactiveTest.on_completed
subscribe = ReactiveTest.subscribe

ANSWERS: Mapping[str | float, str] = {"a": "a!", "A": "A!", "b": "b!", "B": "B!"}


def key(letter: str) -> str:
    """Upper and lower case of a letter are messages of one key."""
    return letter.lower()


async def answer(letter: str) -> str:
    """Take 4 seconds for each a, and 1 for all else."""
    await asyncio.sleep(4 if letter in "aA" else 1)
    return f"{letter}!"


def is_odd(number: int) -> bool:
    return number % 2 == 1


def twice(number: int) -> int:
    return 2 * number


def refuse(letter: str) -> str:
    raise ValueError(f"no {letter}")


# Marble strings for what goes in and for what is to come out.


@pytest.mark.seeds(20, soak=2000)
def test_a_plain_handler_takes_no_time(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, exp = controlled_marbles()
        source = hot("   -1-2---3--|")
        expected = exp(" -2-4---6--|")
        results = start(source.pipe(keyed_dispatch(is_odd, twice, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_half_a_second_is_half_a_second(seed: int) -> None:
    async def handler(letter: str) -> str:
        await asyncio.sleep(0.5)
        return letter

    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, exp = controlled_marbles(timespan=0.1)
        source = hot("   --a-A----b-------|")
        expected = exp(" -------a----A-b--|")
        results = start(source.pipe(keyed_dispatch(key, handler, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_a_slow_key_holds_up_its_own_messages_only(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, exp = controlled_marbles()
        source = hot("   -a-A--b---B-----|")
        expected = exp(" -----a-b-A-B----|", ANSWERS)
        results = start(source.pipe(keyed_dispatch(key, answer, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_one_worker_is_enough_for_handlers_that_wait(seed: int) -> None:
    with DeterministicExecutor(workers=1, seed=seed) as executor:
        start, cold, _, exp = controlled_marbles()
        source = cold("  -a-A--b---B-----|")
        expected = exp(" -----a-b-A-B----|", ANSWERS)
        results = start(source.pipe(keyed_dispatch(key, answer, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_the_end_of_the_source_waits_for_what_was_received(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, exp = controlled_marbles()
        source = hot("   -a-b|")
        expected = exp(" ----b(a,|)", ANSWERS)
        results = start(source.pipe(keyed_dispatch(key, answer, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_an_observable_of_results_is_a_marble_string_too(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, cold, hot, exp = controlled_marbles()
        source = hot("   -a-A--------b---------|")
        # A comes while a's answer, six seconds long, is on its way.
        reply = cold("   --1--2|")
        expected = exp(" ---1--2--1--2-1--2----|")
        results = start(source.pipe(keyed_dispatch(key, lambda _: reply, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_a_handler_that_raises_ends_the_stream_then_and_there(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, exp = controlled_marbles()
        source = hot("   -b--x-b-|")
        expected = exp(" --b-#", ANSWERS, ValueError("no x"))

        def handler(letter: str) -> Any:
            return refuse(letter) if letter == "x" else answer(letter)

        results = start(source.pipe(keyed_dispatch(key, handler, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_a_source_that_fails(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, exp = controlled_marbles()
        source = hot("   -b--#", error=OSError("line is dead"))
        expected = exp(" --b-#", ANSWERS, OSError("line is dead"))
        results = start(source.pipe(keyed_dispatch(key, answer, executor=executor)))
    assert results == expected


@pytest.mark.seeds(20, soak=2000)
def test_a_retry_comes_after_its_backoff_and_holds_up_its_own_key_only(seed: int) -> None:
    attempts: list[tuple[float, str]] = []
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        start, _, hot, exp = controlled_marbles(scheduler)

        def handler(letter: str) -> str:
            attempts.append((scheduler.clock, letter))
            return refuse(letter) if letter == "a" and len(attempts) < 5 else letter

        # a is tried at 1, after 2 s at 3, after 4 s at 7; b comes in between, and A waits.
        source = hot("   -a-A-b---b--|")
        expected = exp(" -----b---b-----(a,A,|)")
        backoff = Backoff(attempts=4, delay=2, factor=2)
        results = start(source.pipe(keyed_dispatch(key, handler, executor=executor, on_failure=backoff)))
    assert [attempt for attempt in attempts if attempt[1] != "b"] == [
        (201, "a"),
        (203, "a"),
        (207, "a"),
        (215, "a"),
        (215, "A"),
    ]
    assert results == expected


# Recorded messages, as RxPY's own tests have them.


@pytest.mark.seeds(20, soak=2000)
def test_handlers_may_return_what_runs_on_the_scheduler(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        source = scheduler.create_hot_observable(
            on_next(150, "early"), on_next(210, "a1"), on_next(215, "a2"), on_next(217, "b1"), on_completed(300)
        )

        def handler(message: str) -> Observable[str]:
            return reactivex.timer(10.0, scheduler=scheduler).pipe(ops.map(lambda _: message))

        def create() -> Observable[str]:
            return source.pipe(keyed_dispatch(lambda message: message[0], handler, executor=executor))

        results = scheduler.start(create)
    assert results.messages == [on_next(220, "a1"), on_next(227, "b1"), on_next(230, "a2"), on_completed(300)]
    assert source.subscriptions == [subscribe(200, 300)]


@pytest.mark.seeds(20, soak=2000)
def test_a_failure_disposes_the_source_when_it_happens(seed: int) -> None:
    discarded: list[tuple[float, str]] = []
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        source = scheduler.create_hot_observable(on_next(210, "a"), on_next(211, "A"), on_next(400, "b"))

        async def handler(letter: str) -> str:
            await asyncio.sleep(3)
            return refuse(letter)

        dispatch = keyed_dispatch(
            key, handler, executor=executor, on_discard=lambda item: discarded.append((scheduler.clock, item))
        )
        results = scheduler.start(lambda: source.pipe(dispatch))
    assert results.messages == [on_error(213, ValueError("no a"))]
    assert source.subscriptions == [subscribe(200, 213)]
    assert discarded == [(213, "A")]


@pytest.mark.seeds(20, soak=2000)
def test_what_is_unfinished_at_the_end_of_the_test_is_discarded(seed: int) -> None:
    discarded: list[tuple[float, str]] = []
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        source = scheduler.create_hot_observable(on_next(210, "b"), on_next(998, "a"), on_next(999, "A"))
        dispatch = keyed_dispatch(
            key, answer, executor=executor, on_discard=lambda item: discarded.append((scheduler.clock, item))
        )
        results = scheduler.start(lambda: source.pipe(dispatch))
    assert results.messages == [on_next(211, "b!")]
    assert sorted(discarded) == [(1000, "A"), (1000, "a")]


@pytest.mark.seeds(20, soak=2000)
def test_the_scheduler_of_the_subscription_reaches_the_source_and_what_comes_after(seed: int) -> None:
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        # Neither of the two says on which scheduler, so both run on the one that start() subscribes with.
        source = reactivex.from_marbles("-a--b---|", timespan=10.0)
        dispatch = keyed_dispatch(key, answer, executor=executor)
        results = scheduler.start(lambda: source.pipe(dispatch, ops.delay(2.0)))
    assert results.messages == [on_next(216, "a!"), on_next(243, "b!"), on_completed(282)]


@pytest.mark.seeds(20, soak=2000)
@pytest.mark.parametrize("merged", [False, True])
def test_sources_that_emit_with_a_lock_held(seed: int, merged: bool) -> None:
    # The worker that fails disposes the source while its action may be in the middle of an emission.
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        source = reactivex.hot("-(a,b,c)-d-|", 1.0, 200.0, scheduler=scheduler)
        if merged:
            source = reactivex.merge(source, reactivex.hot("--(e,f)--|", 1.0, 200.0, scheduler=scheduler))
        results = scheduler.start(lambda: source.pipe(keyed_dispatch(key, refuse, executor=executor)))
    [only] = results.messages
    assert only.time == 201
    assert str(only.value) in {"OnError(no a)", "OnError(no b)", "OnError(no c)"}


# Demand.


class Throttled(Subscriber[Any]):
    """Takes one result every ten seconds, and records when it came."""

    def __init__(self, scheduler: ControlledTestScheduler) -> None:
        self.observer = scheduler.create_observer()
        self._scheduler = scheduler

    def on_subscribe(self, subscription: Subscription) -> None:
        reactivex.interval(10.0, scheduler=self._scheduler).pipe(ops.take(4)).subscribe(
            lambda _: subscription.request(1)
        )

    def on_next(self, value: Any) -> None:
        self.observer.on_next(value)

    def on_error(self, error: Exception) -> None:
        self.observer.on_error(error)

    def on_completed(self) -> None:
        self.observer.on_completed()


@pytest.mark.seeds(20, soak=2000)
def test_results_come_as_they_are_asked_for(seed: int) -> None:
    handled: list[tuple[float, str]] = []
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        scheduler = ControlledTestScheduler()
        subscriber = Throttled(scheduler)

        async def handler(letter: str) -> str:
            handled.append((scheduler.clock, letter))
            await asyncio.sleep(7 if letter == "b" else 5)
            return letter

        source = reactivex.from_marbles("-a-b-c-d-|", 1.0, scheduler=scheduler)
        dispatch = keyed_dispatch(key, handler, executor=executor, max_in_flight=2)
        source.pipe(dispatch).subscribe(subscriber)
        scheduler.start()
    assert subscriber.observer.messages == [
        on_next(15, "a"),
        on_next(20, "b"),
        on_next(30, "c"),
        on_next(40, "d"),
        on_completed(40),
    ]
    # Nothing is asked of the source before the first request; a place in the window is free when a result was taken.
    assert sorted(handled) == [(10, "a"), (10, "b"), (15, "c"), (20, "d")]


# Seeds.


def messages_of(seed: int) -> list[str]:
    """Return what comes of five messages whose results are due at the same time."""
    with DeterministicExecutor(workers=2, seed=seed) as executor:
        start, _, hot, _ = controlled_marbles()
        source = hot("-(a,b,c,d,e)----------|")

        async def handler(letter: str) -> str:
            await asyncio.sleep(3)
            return letter

        return list(map(str, start(source.pipe(keyed_dispatch(key, handler, executor=executor)))))


def test_what_is_due_at_one_time_comes_in_an_order_that_follows_from_the_seed() -> None:
    runs = [messages_of(seed) for seed in range(20)]
    assert runs == [messages_of(seed) for seed in range(20)]
    expected = [*(f"OnNext({letter})@204.0" for letter in "abcde"), "OnCompleted()@222.0"]
    assert all(sorted(messages) == sorted(expected) for messages in runs)
    assert len({tuple(messages) for messages in runs}) > 5


@pytest.mark.seeds(20, soak=2000)
def test_it_works_in_a_scenario_with_an_executor_of_its_own(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> list[Recorded[Any]]:
        platform.sleep(0.125)
        with KeyedExecutor(workers=2) as executor:
            start, _, hot, exp = controlled_marbles(timespan=0.1)
            source = hot("   -x--b---b|")
            expected = exp(" ----b---b|")
            dispatch = keyed_dispatch(key, lambda n: n if n == "b" else refuse(n), executor=executor, on_failure=SKIP)
            assert start(source.pipe(dispatch)) == expected
            return expected

    assert len(run(scenario, seed)) == 3


def test_an_hour_of_virtual_time_takes_none() -> None:
    with DeterministicExecutor(workers=2, seed=1) as executor:
        scheduler = ControlledTestScheduler()
        source = scheduler.create_cold_observable(on_next(3600, "a"), on_completed(7200))
        results = scheduler.start(lambda: source.pipe(keyed_dispatch(key, answer, executor=executor)), disposed=9999)
    assert results.messages == [on_next(3804, "a!"), on_completed(7400)]
