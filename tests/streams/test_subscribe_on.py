import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex.disposable import Disposable
from reactivex.scheduler import (
    CurrentThreadScheduler,
    EventLoopScheduler,
    ImmediateScheduler,
    NewThreadScheduler,
    ThreadPoolScheduler,
    VirtualTimeScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler
from reactivex.testing import ReactiveTest, TestScheduler

from rxwow.errors import InvalidArgumentError, InvalidRequestError, RxwowError
from rxwow.streams.boundary import observe_on
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, Subscription
from rxwow.streams.subscribing import subscribe_on
from rxwow.testing import ControlledPlatform, explore
from tests.streams.probe import BatchProbe, Probe
from tests.streams.sources import SourceError, loop_on_a_thread
from tests.streams.test_boundary import Manual, Steps, Threads, failing
from tests.streams.test_schedules import Controlled, each, join


def late(demand: int = 0, accepts: float = float("inf")) -> tuple[Manual, Steps, Probe]:
    source, steps, probe = Manual(), Steps(accepts), Probe(demand)
    source.flowable.pipe(subscribe_on(steps)).subscribe(probe)
    return source, steps, probe


both_ways = pytest.mark.parametrize("probe_type", [Probe, BatchProbe], ids=["singly", "in batches"])


@both_ways
@given(
    length=st.integers(0, 60),
    requests=st.lists(st.integers(1, 20), max_size=10),
    fails=st.booleans(),
    cancels=st.booleans(),
)
def test_same_items_as_the_source(
    probe_type: type[Probe], length: int, requests: list[int], fails: bool, cancels: bool
) -> None:
    error = SourceError() if fails else None
    scheduler = VirtualTimeScheduler()
    probe = probe_type()
    Flowable.from_iterable(failing(length, error)).pipe(subscribe_on(scheduler)).subscribe(probe)
    for n in requests:
        before = list(probe.items)
        probe.request(n)
        assert probe.items == before
        scheduler.start()
        assert probe.items == list(range(min(probe.requested, length)))
    if cancels:
        probe.cancel()
    asked = probe.requested
    probe.request(UNBOUNDED)
    scheduler.start()
    if cancels and not probe.ended:
        assert probe.items == list(range(min(asked, length)))
    else:
        assert probe.items == list(range(length))
        assert probe.errors == ([error] if error else [])
        assert probe.completions == (0 if error else 1)
    probe.check()


def test_in_virtual_time_the_source_is_subscribed_when_the_scheduler_says() -> None:
    scheduler = TestScheduler()
    cold = scheduler.create_cold_observable(ReactiveTest.on_next(10, "a"), ReactiveTest.on_completed(20))

    class Late(Steps):
        def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
            return scheduler.schedule_relative(50, action, state)

    result = scheduler.start(lambda: subscribe_on(Late())(cold))
    assert result.messages == [ReactiveTest.on_next(260, "a"), ReactiveTest.on_completed(270)]
    assert [(each.subscribe, each.unsubscribe) for each in cold.subscriptions] == [(250, 270)]


def test_request_before_the_subscription_is_kept() -> None:
    source, steps, probe = late(2)
    probe.request(3)
    assert (source.subscriptions, steps.scheduled) == (0, 1)
    steps.run()
    assert (source.subscriptions, source.requests, steps.scheduled) == (1, [5], 1)


def test_nothing_is_asked_before_the_first_request() -> None:
    source, steps, _ = late()
    steps.run()
    assert (source.subscriptions, source.requests) == (1, [])


def test_requests_share_an_action() -> None:
    source, steps, probe = late()
    steps.run()
    for n in (1, 2, 3):
        probe.request(n)
    assert (source.requests, steps.scheduled) == ([], 2)
    steps.run()
    assert (source.requests, steps.scheduled) == ([6], 2)


def test_requests_inside_on_next_on_the_scheduler_need_no_action() -> None:
    """F93: and the stack stays flat."""
    steps = Steps()
    probe = Probe(1, lambda _: probe.request(1))
    Flowable.from_iterable(range(100_000)).pipe(subscribe_on(steps)).subscribe(probe)
    steps.run()
    assert (len(probe.items), probe.completions, steps.scheduled) == (100_000, 1, 1)
    probe.check()


def test_demand_adds_up_to_unbounded() -> None:
    source, steps, probe = late(UNBOUNDED)
    probe.request(UNBOUNDED)
    steps.run()
    assert source.requests == [UNBOUNDED]


def test_cancel_before_the_subscription_means_that_nobody_subscribes() -> None:
    source, steps, probe = late(1)
    probe.cancel()
    steps.run()
    probe.request(1)
    steps.run()
    assert (source.subscriptions, steps.scheduled) == (0, 1)


def test_cancel_inside_on_subscribe_schedules_nothing() -> None:
    class Cancelling(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.cancel()

    source, steps = Manual(), Steps()
    source.flowable.pipe(subscribe_on(steps)).subscribe(Cancelling())
    assert (source.subscriptions, steps.scheduled) == (0, 0)


def test_cancel_goes_to_the_source_at_once() -> None:
    source, steps, probe = late(1)
    steps.run()
    probe.cancel()
    probe.cancel()
    source.send(1)
    assert (source.cancels, probe.items) == (1, [])


def test_invalid_request_before_the_subscription_ends_the_stream() -> None:
    source, steps, probe = late()
    probe.subscription.request(0)
    steps.run()
    assert [type(error) for error in probe.errors] == [InvalidRequestError]
    assert source.subscriptions == 0


def test_source_that_raises_in_subscribe_is_an_error() -> None:
    error = SourceError()

    def publish(*_: Any) -> Subscription:
        raise error

    probe, steps = Probe(), Steps()
    source: Flowable[int] = Flowable(publish)
    source.pipe(subscribe_on(steps)).subscribe(probe)
    assert probe.errors == []
    steps.run()
    assert probe.errors == [error]


@pytest.mark.parametrize("accepts", [0, 1])
def test_scheduler_that_refuses_ends_the_stream_and_says_so(accepts: int) -> None:
    source, steps, probe = late(accepts=accepts)
    steps.run()
    probe.request(1)
    (error,) = probe.errors
    assert isinstance(error, RxwowError)
    assert str(error).startswith("subscribe_on could not schedule on <tests.streams.test_boundary.Steps object at ")
    assert (source.subscriptions, source.cancels, source.requests) == (accepts, accepts, [])


def test_keyboard_interrupt_while_scheduling_goes_on_and_ends_the_stream() -> None:
    class Interrupted(Steps):
        def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
            if self.scheduled:
                raise KeyboardInterrupt
            return super().schedule(action, state)

    source, steps, probe = Manual(), Interrupted(), Probe()
    source.flowable.pipe(subscribe_on(steps)).subscribe(probe)
    steps.run()
    with pytest.raises(KeyboardInterrupt):
        probe.request(1)
    assert (source.subscriptions, source.cancels, source.requests) == (1, 1, [])


@pytest.mark.parametrize("value", [None, 5, EventLoopScheduler], ids=repr)
def test_bad_schedulers_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="scheduler must be a scheduler of RxPY"):
        subscribe_on(value)


# Real schedulers.


@pytest.mark.parametrize("make", [EventLoopScheduler, NewThreadScheduler, lambda: ThreadPoolScheduler(4)])
@both_ways
def test_source_is_pulled_on_the_scheduler(make: Callable[[], abc.SchedulerBase], probe_type: type[Probe]) -> None:
    scheduler = make()
    pulled_on: set[int] = set()

    def iterate() -> Iterator[int]:
        for number in range(500):
            pulled_on.add(threading.get_ident())
            yield number

    probe = probe_type()
    try:
        Flowable.from_iterable(iterate).pipe(subscribe_on(scheduler)).subscribe(probe)
        for _ in range(50):
            probe.request(10)
        probe.request(1)
        probe.wait_for_end()
    finally:
        if isinstance(scheduler, EventLoopScheduler):
            scheduler.dispose()
        if isinstance(scheduler, ThreadPoolScheduler):
            scheduler.executor.shutdown()
    assert (probe.items, probe.completions) == (list(range(500)), 1)
    assert threading.get_ident() not in pulled_on | set(probe.threads)
    if isinstance(scheduler, EventLoopScheduler):
        assert len(pulled_on) == 1
    probe.check()


@pytest.mark.parametrize("make", [CurrentThreadScheduler, ImmediateScheduler, CurrentThreadScheduler.singleton])
def test_scheduler_of_the_calling_thread(make: Callable[[], abc.SchedulerBase]) -> None:
    probe = Probe(1, lambda _: probe.request(1))
    Flowable.from_iterable(range(1000)).pipe(subscribe_on(make())).subscribe(probe)
    assert (probe.items, probe.completions) == (list(range(1000)), 1)
    probe.check()


def test_async_source_runs_on_the_loop_of_the_scheduler() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def numbers() -> AsyncIterator[int]:
        loops.append(asyncio.get_running_loop())
        yield 1

    with loop_on_a_thread() as loop:
        probe = Probe(UNBOUNDED)
        Flowable.from_async_iterable(numbers).pipe(subscribe_on(AsyncIOThreadSafeScheduler(loop))).subscribe(probe)
        probe.wait_for_end()
    assert (probe.items, loops) == ([1], [loop])


def test_plain_observable_that_is_held_up_on_the_scheduler_is_let_go_by_a_request() -> None:
    """Its requests can't wait for the thread that it holds up."""
    scheduler = EventLoopScheduler()
    probe = Probe()
    try:
        subscribe_on(scheduler)(reactivex.range(1000)).subscribe(probe)
        for _ in range(100):
            probe.request(10)
            probe.wait_for_items(probe.requested)
        probe.wait_for_end()
    finally:
        scheduler.dispose()
    assert (probe.items, probe.completions) == (list(range(1000)), 1)
    probe.check()


@pytest.mark.parametrize("demand", [1, UNBOUNDED])
def test_from_observable_that_blocks_is_let_go_by_what_is_asked_on_the_scheduler(demand: int) -> None:
    """What is asked for on the very thread that is held up needn't wait for it."""

    def send(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None) -> abc.DisposableBase:
        for number in range(1000):
            observer.on_next(number)
        observer.on_completed()
        return Disposable()

    scheduler = EventLoopScheduler()
    probe = Probe(demand, lambda _: probe.request(1))
    try:
        Flowable.from_observable(reactivex.create(send), capacity=1).pipe(subscribe_on(scheduler)).subscribe(probe)
        probe.wait_for_end()
    finally:
        scheduler.dispose()
    assert (probe.items, probe.completions) == (list(range(1000)), 1)
    probe.check()


def test_between_two_schedulers() -> None:
    """Everything is pulled on the first and emitted on the second, replenishing included."""
    pulled_on: set[int] = set()

    def iterate() -> Iterator[int]:
        for number in range(2000):
            pulled_on.add(threading.get_ident())
            yield number

    first, second = EventLoopScheduler(), EventLoopScheduler()
    probe = Probe(UNBOUNDED)
    try:
        Flowable.from_iterable(iterate).pipe(subscribe_on(first), observe_on(second, prefetch=16)).subscribe(probe)
        probe.wait_for_end()
    finally:
        first.dispose()
        second.dispose()
    assert probe.items == list(range(2000))
    assert len(pulled_on) == len(set(probe.threads)) == 1
    assert pulled_on.isdisjoint(probe.threads)


def test_plain_observer() -> None:
    got: list[Any] = []
    source = Flowable.from_iterable(range(5)).pipe(subscribe_on(ImmediateScheduler()))
    source.subscribe(got.append, on_completed=lambda: got.append("completed"))
    assert got == [0, 1, 2, 3, 4, "completed"]


# Under control.


@pytest.fixture(scope="session")
def seeds(soak: bool) -> Sequence[int]:
    return range(10_000 if soak else 300)


def test_source_is_asked_and_emits_on_the_scheduler_alone(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform)

        class There(Controlled):
            def _signal(self, got: list[Any], value: Any) -> None:
                assert threading.get_ident() in threads.busy
                super()._signal(got, value)
                if value in {1, 3}:
                    self.request(1)

        def iterate() -> Iterator[int]:
            for number in range(8):
                assert threading.get_ident() in threads.busy
                yield number

        subscriber = There(platform)
        Flowable.from_iterable(iterate).pipe(subscribe_on(threads)).subscribe(subscriber)
        join(platform, each(subscriber.request, [1, 2]), each(subscriber.request, [1, 1, 2]))
        subscriber.ended.wait()
        threads.join()
        assert (subscriber.items, subscriber.ends) == (list(range(8)), ["completed"])

    explore(scenario, seeds)


def test_cancel_at_any_time_closes_the_source_or_never_subscribes_it(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform)
        subscriber = Controlled(platform)
        opened = closed = 0

        def iterate() -> Iterator[int]:
            nonlocal opened, closed
            opened += 1
            try:
                yield from range(8)
            finally:
                closed += 1

        Flowable.from_iterable(iterate).pipe(subscribe_on(threads)).subscribe(subscriber)
        join(platform, each(subscriber.request, [1, 2]), subscriber.subscription.cancel)
        threads.join()
        assert opened == closed <= 1
        assert subscriber.items == list(range(len(subscriber.items)))
        assert subscriber.ends == []
        assert subscriber.subscription._finished

    explore(scenario, seeds)


def test_scheduler_that_refuses_at_any_time_never_hangs_the_stream(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform, accepts=platform.random.randint(0, 3))
        subscriber = Controlled(platform)
        source = Flowable.from_iterable([0, 1, 2, 3])
        source.pipe(subscribe_on(threads)).subscribe(subscriber)
        join(platform, each(subscriber.request, [1] * 2), each(subscriber.request, [1] * 2))
        subscriber.ended.wait()
        threads.join()
        (end,) = subscriber.ends
        assert end == "completed" or "subscribe_on could not schedule" in str(end)
        assert subscriber.items == list(range(len(subscriber.items)))
        assert subscriber.subscription._finished

    explore(scenario, seeds)
