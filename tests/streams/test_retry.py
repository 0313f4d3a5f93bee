"""retry, against RxPY's own; delays on virtual time."""

import asyncio
import contextvars
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from rxwow.errors import InvalidArgumentError
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.streams.retrying import retry
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Probe
from tests.streams.sources import SourceError
from tests.streams.test_schedules import Controlled, join
from tests.streams.test_timeout import CountingScheduler, PlatformScheduler, join_threads_since

both_ways = pytest.mark.parametrize("probe_class", [Probe, BatchProbe], ids=["singly", "in batches"])

Script = list[tuple[int, bool]]
"""For each attempt, how many items it brings and whether it fails; further attempts are like the last."""


def scripted(script: Script, pulled: list[Any] | None = None) -> Callable[[], Iterator[Any]]:
    """Return what makes the iterator of the next attempt; errors are told apart by the number of the attempt."""
    attempt = iter(range(10_000))

    def iterate() -> Iterator[Any]:
        number = next(attempt)
        length, fails = script[min(number, len(script) - 1)]
        for item in range(length):
            if pulled is not None:
                pulled.append((number, item))
            yield (number, item)
        if fails:
            raise SourceError(number)

    return iterate


def drain(observable: Any) -> tuple[list[Any], list[str]]:
    items: list[Any] = []
    ends: list[str] = []
    observable.subscribe(items.append, lambda error: ends.append(repr(error)), lambda: ends.append("completed"))
    return items, ends


scripts = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=5)


@both_ways
@given(script=scripts, attempts=st.integers(1, 6), requests=st.lists(st.integers(1, 5), max_size=8))
def test_same_items_and_end_as_rxpy_however_they_are_asked_for(
    probe_class: type[Probe], script: Script, attempts: int, requests: list[int]
) -> None:
    iterate = scripted(script)
    rxpy = reactivex.defer(lambda _: reactivex.from_iterable(iterate())).pipe(operators.retry(attempts))
    expected, end = drain(rxpy)
    assert drain(retry(attempts)(Flowable.from_iterable(scripted(script)))) == (expected, end)

    pulled: list[Any] = []
    probe = probe_class()
    retry(attempts)(Flowable.from_iterable(scripted(script, pulled))).subscribe(probe)
    assert pulled == []
    for n in requests:
        probe.request(n)
        assert probe.items == pulled == expected[: probe.requested]
    probe.request(UNBOUNDED)
    assert probe.items == expected
    assert [*map(repr, probe.errors), *["completed"] * probe.completions] == end
    probe.check()


@given(script=scripts, attempts=st.integers(1, 6))
def test_plain_observable_is_given_demand(script: Script, attempts: int) -> None:
    iterate, again = scripted(script), scripted(script)
    source = reactivex.defer(lambda _: reactivex.from_iterable(iterate()))
    rxpy = reactivex.defer(lambda _: reactivex.from_iterable(again())).pipe(operators.retry(attempts))
    assert drain(retry(attempts)(source)) == drain(rxpy)


@given(
    script=st.lists(st.tuples(st.integers(0, 2), st.just(True)), min_size=1, max_size=8),
    delay=st.sampled_from([0.5, 1.0, 3.0]),
    factor=st.sampled_from([1, 2.0, 3]),
    longest=st.sampled_from([0.0, 2.0, 60.0]),
)
def test_delays_grow_and_begin_anew_after_an_item(script: Script, delay: float, factor: float, longest: float) -> None:
    scheduler = TestScheduler()
    subscribed: list[float] = []
    iterate = scripted(script)

    def make() -> Iterator[Any]:
        subscribed.append(scheduler.to_seconds(scheduler.now))
        return iterate()

    probe = Probe(UNBOUNDED)
    source = Flowable.from_iterable(make)
    retry(len(script), delay=delay, factor=factor, longest=longest, scheduler=scheduler)(source).subscribe(probe)
    # Not `start`: it takes many actions at the same time, as of a delay of 0, to be a spin and moves its clock.
    scheduler.advance_to(10_000)
    expected = [0.0]
    grown = delay
    for length, _ in script[:-1]:
        grown = delay if length else grown
        expected.append(expected[-1] + min(longest, grown))
        grown *= factor
    # The first failure in a row waits for `delay`, with or without items before it.
    if script[0][0] == 0 and len(script) > 1:
        assert subscribed[1] == min(longest, delay)
    assert subscribed == expected
    assert [error.args for error in probe.errors] == [(len(script) - 1,)]
    probe.check()


def test_delay_that_is_too_large_to_compute_is_the_longest() -> None:
    scheduler = TestScheduler()
    subscribed: list[float] = []

    def make() -> Iterator[Any]:
        subscribed.append(scheduler.to_seconds(scheduler.now))
        raise SourceError

    probe = Probe(1)
    retry(delay=1, factor=1e300, longest=2, scheduler=scheduler)(Flowable.from_iterable(make)).subscribe(probe)
    scheduler.advance_to(8)
    assert subscribed == [0.0, 1.0, 3.0, 5.0, 7.0]
    probe.cancel()


@both_ways
@pytest.mark.parametrize("length", [0, 1])
def test_retrying_without_end_keeps_the_stack_flat_and_can_be_cancelled(probe_class: type[Probe], length: int) -> None:
    probe = probe_class()
    depths: list[int] = []
    attempts = 5_000

    def make() -> Iterator[int]:
        depth, frame = 0, sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        depths.append(depth)
        if len(depths) == attempts:
            probe.cancel()
        yield from range(length)
        raise SourceError

    retry()(Flowable.from_iterable(make)).subscribe(probe)
    probe.request(UNBOUNDED)
    assert len(depths) == attempts
    assert max(depths) <= depths[0] + 20
    assert not probe.ended
    assert len(probe.items) == length * (attempts - 1)
    probe.check()


def test_source_that_fails_while_it_is_subscribed_is_cancelled_from_there() -> None:
    probe = Probe()
    subscriptions = 0

    def publish(subscriber: Subscriber[Any], _: Any) -> Subscription:
        nonlocal subscriptions
        subscriptions += 1
        if subscriptions == 10_000:
            probe.cancel()
        return Flowable.throw(SourceError())._publish(subscriber, None)

    retry()(Flowable(publish)).subscribe(probe)
    assert subscriptions == 10_000
    assert not probe.ended


def test_source_that_raises_in_subscribe_is_tried_again() -> None:
    tries = iter([SourceError(), SourceError(), None])

    def publish(subscriber: Subscriber[Any], scheduler: Any) -> Subscription:
        error = next(tries)
        if error is not None:
            raise error
        return Flowable.from_iterable([1])._publish(subscriber, scheduler)

    assert retry(3)(Flowable(publish)).run() == 1


@pytest.mark.parametrize("end", ["cancel", "invalid request"])
def test_end_while_a_delay_is_waited_for(end: str) -> None:
    scheduler = CountingScheduler()
    subscribed: list[int] = []

    def make() -> Iterator[int]:
        subscribed.append(1)
        raise SourceError

    probe = Probe(1)
    retry(delay=5, scheduler=scheduler)(Flowable.from_iterable(make)).subscribe(probe)
    assert (scheduler.waiting, len(subscribed)) == (1, 1)
    if end == "cancel":
        probe.cancel()
    else:
        probe.subscription.request(-1)
        assert len(probe.errors) == 1
    assert scheduler.waiting == 0
    scheduler.advance_by(100)
    assert len(subscribed) == 1


def test_demand_of_the_delay_is_asked_of_the_fresh_subscription() -> None:
    scheduler = TestScheduler()
    probe = Probe(3)
    script = [(1, True), (50, False)]
    retry(delay=5, scheduler=scheduler)(Flowable.from_iterable(scripted(script))).subscribe(probe)
    probe.request(2)
    assert probe.items == [(0, 0)]
    scheduler.advance_by(5)
    assert probe.items == [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]
    probe.check()


def test_what_a_source_sends_after_its_end_is_not_emitted() -> None:
    subscribers: list[Subscriber[int]] = []

    def publish(subscriber: Subscriber[int], _: Any) -> Subscription:
        subscribers.append(subscriber)
        return Flowable.never()._publish(subscriber, None)

    probe = Probe(10)
    retry(2)(Flowable(publish)).subscribe(probe)
    subscribers[0].on_next(1)
    subscribers[0].on_error(SourceError())
    subscribers[0].on_next(2)
    subscribers[0].on_completed()
    subscribers[0].on_error(SourceError())
    subscribers[1].on_next(3)
    subscribers[1].on_completed()
    assert (probe.items, probe.completions, probe.errors) == ([1, 3], 1, [])


def test_what_has_come_and_waits_is_not_asked_for_again() -> None:
    """A source may send and fail while the subscriber is busy with an item."""
    subscribers: list[Subscriber[int]] = []
    pulled: list[int] = []

    def publish(subscriber: Subscriber[int], scheduler: Any) -> Subscription:
        subscribers.append(subscriber)
        source: Flowable[int] = Flowable.never()
        if len(subscribers) == 2:
            source = Flowable.from_iterable(pulled.append(item) or item for item in range(10, 20))  # type: ignore[func-returns-value]
        return source._publish(subscriber, scheduler)

    def on_item(item: int) -> None:
        if item == 1:
            subscribers[0].on_next(2)
            subscribers[0].on_error(SourceError())

    probe = Probe(3, on_item)
    retry()(Flowable(publish)).subscribe(probe)
    subscribers[0].on_next(1)
    assert (probe.items, pulled) == ([1, 2, 10], [10])


def test_nothing_is_held_after_a_cancel() -> None:
    """Not even what a source sent that it was not asked for."""

    class Item:
        pass

    subscribers: list[Subscriber[Item]] = []

    def publish(subscriber: Subscriber[Item], _: Any) -> Subscription:
        subscribers.append(subscriber)
        return Flowable.never()._publish(subscriber, None)

    probe = Probe()
    retry()(Flowable(publish)).subscribe(probe)
    item = Item()
    held = weakref.ref(item)
    subscribers[0].on_next(item)
    del item
    assert held() is not None
    assert probe.items == []
    probe.cancel()
    assert held() is None


def test_cancel_before_the_source_has_given_its_subscription() -> None:
    subject: Subject[int] = Subject()
    probe = Probe()

    def publish(subscriber: Subscriber[int], scheduler: Any) -> Subscription:
        probe.cancel()
        return Flowable.from_observable(subject)._publish(subscriber, scheduler)

    retry()(Flowable(publish)).subscribe(probe)
    assert subject.observers == []


def test_source_that_is_awaited_finds_its_loop_and_context_again() -> None:
    """Also when a timer's thread subscribes it."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    found: list[Any] = []
    tries = iter([True, True, False])

    async def items() -> AsyncIterator[int]:
        found.append((asyncio.get_running_loop(), variable.get()))
        yield 1
        if next(tries):
            raise SourceError

    async def main() -> asyncio.AbstractEventLoop:
        variable.set("mine")
        got = [item async for item in retry(delay=0.001)(Flowable.from_async_iterable(items))]
        assert got == [1, 1, 1]
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert found == [(loop, "mine")] * 3


def test_default_scheduler_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    script = [(1, True), (2, True), (0, False)]
    assert retry(delay=0.001)(Flowable.from_iterable(scripted(script))).run() == (1, 1)
    waiting = threading.Event()
    probe = Probe(1)

    def make() -> Iterator[int]:
        waiting.set()
        raise SourceError

    retry(delay=600, longest=600)(Flowable.from_iterable(make)).subscribe(probe)
    assert waiting.wait(PATIENCE_S)
    probe.cancel()
    join_threads_since(before)


@pytest.mark.seeds(150, soak=10_000)
def test_requests_failures_and_cancel_at_the_same_time(seed: int) -> None:
    """As many items as were requested, each attempt from its start, whoever asks while a source fails."""

    def scenario(platform: ControlledPlatform) -> None:
        random = platform.random
        timers = PlatformScheduler(platform)
        script = [(random.randrange(4), True) for _ in range(4)] + [(20, False)]
        pulled: list[Any] = []
        iterate = scripted(script, pulled)
        expected = [(number, item) for number, (length, _) in enumerate(script) for item in range(length)]
        delay = random.choice([0.0, 1.0])
        source = Flowable.from_iterable(iterate, blocking=random.random() < 0.5)
        subscriber = Controlled(platform)
        retry(delay=delay, scheduler=timers)(source).subscribe(subscriber)

        def ask() -> None:
            for _ in range(4):
                subscriber.request(random.randrange(1, 3))

        cancels = random.random() < 0.3
        actions: list[Callable[[], object]] = [ask, ask]
        if cancels:
            actions.append(subscriber.subscription.cancel)
        # Two threads ask, so what they have asked for is counted by themselves.
        counted: list[int] = []
        request = subscriber.subscription.request

        def counting(n: int) -> None:
            counted.append(n)
            request(n)

        subscriber.request = counting  # type: ignore[method-assign]
        subscriber.requested = UNBOUNDED
        join(platform, *actions)
        platform.sleep(100)
        assert subscriber.items == expected[: len(subscriber.items)]
        assert len(pulled) <= sum(counted)
        if not cancels:
            assert len(subscriber.items) == min(sum(counted), len(expected))
            subscriber.subscription.request(100)
            subscriber.ended.wait()
            assert (subscriber.items, subscriber.ends) == (expected, ["completed"])
        timers.join()

    run(scenario, seed)


@pytest.mark.seeds(40, soak=2000)
def test_cancel_stops_a_retry_without_end_on_another_thread(seed: int) -> None:
    """One that went on would reach the step limit of the run, or leave the thread that subscribes there for ever."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        subscribed = platform.event()
        take = subscriber.on_subscribe

        def on_subscribe(subscription: Subscription) -> None:
            take(subscription)
            subscribed.set()

        subscriber.on_subscribe = on_subscribe  # type: ignore[method-assign]

        def subscribe() -> None:
            retry()(Flowable.throw(SourceError())).subscribe(subscriber)

        def cancel() -> None:
            subscribed.wait()
            subscriber.subscription.cancel()

        join(platform, subscribe, cancel)
        assert subscriber.ends == []

    run(scenario, seed)


@pytest.mark.parametrize("attempts", [0, -1, 1.0, "1", True], ids=repr)
def test_attempts_must_be_a_count(attempts: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="attempts must be a whole number of at least 1, or None"):
        retry(attempts)


@pytest.mark.parametrize("name", ["delay", "longest"])
@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan"), "1", None], ids=repr)
def test_seconds_must_be_finite(name: str, seconds: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a number of seconds of at least 0"):
        retry(**{name: seconds})


@pytest.mark.parametrize("factor", [0.5, float("inf"), float("nan"), "2", None], ids=repr)
def test_factor_must_not_shrink(factor: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="factor must be a number of at least 1"):
        retry(factor=factor)


def test_scheduler_must_be_one() -> None:
    with pytest.raises(InvalidArgumentError, match="scheduler must be"):
        retry(scheduler="now")  # type: ignore[arg-type]
