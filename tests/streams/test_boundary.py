import asyncio
import itertools
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

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
    TimeoutScheduler,
    VirtualTimeScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOScheduler, AsyncIOThreadSafeScheduler
from reactivex.scheduler.scheduler import Scheduler
from reactivex.testing import ReactiveTest, TestScheduler

from rxwow.errors import InvalidArgumentError, InvalidRequestError, RxwowError
from rxwow.platform import Platform
from rxwow.streams.boundary import MOST_ITEMS_AN_ACTION, _Boundary, limit_rate, observe_on
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription
from rxwow.testing import ControlledPlatform, explore, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe
from tests.streams.sources import SourceError, loop_on_a_thread
from tests.streams.test_emitter import Queue
from tests.streams.test_schedules import Controlled, each, join


class Manual(Subscription):
    """A source that the test sends by hand; it notes what it is asked for."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.cancels = 0
        self.subscriptions = 0
        self.subscriber: Any = None
        self.flowable: Flowable[Any] = Flowable(self._publish)

    def _publish(self, subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
        self.subscriptions += 1
        self.subscriber = subscriber
        subscriber.on_subscribe(self)
        return self

    def request(self, n: int) -> None:
        self.requests.append(n)

    def cancel(self) -> None:
        self.cancels += 1

    def send(self, *items: Any) -> None:
        for item in items:
            self.subscriber.on_next(item)

    def send_batch(self, items: Sequence[Any]) -> None:
        assert isinstance(self.subscriber, BatchSubscriber)
        self.subscriber.on_next_batch(items)

    def complete(self) -> None:
        self.subscriber.on_completed()

    def fail(self, error: Exception) -> None:
        self.subscriber.on_error(error)


class Steps(Scheduler):
    """A scheduler whose actions the test runs one by one; after `accepts` of them it refuses more."""

    def __init__(self, accepts: float = float("inf")) -> None:
        self.actions: list[Any] = []
        self.scheduled = 0
        self._accepts = accepts

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        if self.scheduled >= self._accepts:
            raise SourceError("no more")
        self.scheduled += 1
        self.actions.append(action)
        return Disposable()

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        raise NotImplementedError

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        raise NotImplementedError

    def step(self) -> None:
        self.actions.pop(0)(self, None)

    def run(self) -> None:
        while self.actions:
            self.step()


class Threads(Scheduler):
    """A controlled thread for each action, of which `accepts` are accepted; `busy` says where they are at work."""

    def __init__(self, platform: Platform, accepts: float = float("inf")) -> None:
        self._platform = platform
        self._accepts = accepts
        self._threads: list[Any] = []
        self.busy: set[int] = set()

    @property
    def now(self) -> datetime:
        raise NotImplementedError

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        if len(self._threads) >= self._accepts:
            raise SourceError("no more")

        def act() -> None:
            self.busy.add(threading.get_ident())
            action(self, state)
            self.busy.remove(threading.get_ident())

        thread = self._platform.thread(act, f"action {len(self._threads)}")
        self._threads.append(thread)
        thread.start()
        return Disposable()

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        raise NotImplementedError

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        raise NotImplementedError

    def join(self) -> None:
        """Wait for all actions, and for those that they schedule."""
        joined = 0
        while joined < len(self._threads):
            self._threads[joined].join()
            joined += 1


def observed(prefetch: int = 4, demand: int = 0, accepts: float = float("inf")) -> tuple[Manual, Steps, Probe]:
    source, steps, probe = Manual(), Steps(accepts), Probe(demand)
    source.flowable.pipe(observe_on(steps, prefetch=prefetch)).subscribe(probe)
    return source, steps, probe


def limited(n: int = 4, demand: int = 0) -> tuple[Manual, Probe]:
    source, probe = Manual(), Probe(demand)
    source.flowable.pipe(limit_rate(n)).subscribe(probe)
    return source, probe


both_ways = pytest.mark.parametrize("probe_type", [Probe, BatchProbe], ids=["singly", "in batches"])


def failing(length: int, error: Exception | None) -> Callable[[], Iterator[int]]:
    def iterate() -> Iterator[int]:
        yield from range(length)
        if error is not None:
            raise error

    return iterate


# The same items.


@both_ways
@given(
    length=st.integers(0, 300),
    prefetch=st.integers(1, 100),
    requests=st.lists(st.integers(1, 90), max_size=10),
    fails=st.booleans(),
    cancels=st.booleans(),
)
def test_same_items_as_the_source(
    probe_type: type[Probe], length: int, prefetch: int, requests: list[int], fails: bool, cancels: bool
) -> None:
    error = SourceError() if fails else None
    scheduler = VirtualTimeScheduler()
    probe = probe_type()
    Flowable.from_iterable(failing(length, error)).pipe(observe_on(scheduler, prefetch=prefetch)).subscribe(probe)
    for n in requests:
        probe.request(n)
        scheduler.start()
        assert probe.items == list(range(min(probe.requested, length)))
    if cancels:
        probe.cancel()
    probe.request(UNBOUNDED)
    scheduler.start()
    if cancels and not probe.ended:
        assert probe.items == list(range(min(sum(requests), length)))
    else:
        assert probe.items == list(range(min(length, probe.requested)))
        assert probe.errors == ([error] if error else [])
        assert probe.completions == (0 if error else 1)
    probe.check()


@both_ways
@given(
    length=st.integers(0, 60),
    n=st.integers(1, 20),
    requests=st.lists(st.integers(1, 20), max_size=10),
    fails=st.booleans(),
)
def test_limit_rate_gives_the_same_items_as_the_source(
    probe_type: type[Probe], length: int, n: int, requests: list[int], fails: bool
) -> None:
    error = SourceError() if fails else None
    probe = probe_type()
    Flowable.from_iterable(failing(length, error)).pipe(limit_rate(n)).subscribe(probe)
    for number in requests:
        probe.request(number)
        assert probe.items == list(range(min(probe.requested, length)))
    probe.request(UNBOUNDED)
    assert (probe.items, probe.errors) == (list(range(length)), [error] if error else [])
    probe.check()


def test_in_virtual_time_items_keep_their_times() -> None:
    scheduler = TestScheduler()
    hot = scheduler.create_hot_observable(
        ReactiveTest.on_next(210, "a"), ReactiveTest.on_next(250, "b"), ReactiveTest.on_completed(300)
    )
    result = scheduler.start(lambda: observe_on(scheduler)(hot))
    assert result.messages == [
        ReactiveTest.on_next(210, "a"),
        ReactiveTest.on_next(250, "b"),
        ReactiveTest.on_completed(300),
    ]


def test_in_virtual_time_the_queue_waits_for_a_busy_scheduler() -> None:
    scheduler = TestScheduler()
    error = SourceError()
    hot = scheduler.create_hot_observable(
        ReactiveTest.on_next(210, "a"), ReactiveTest.on_next(220, "b"), ReactiveTest.on_error(230, error)
    )

    class Late(Steps):
        def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
            return scheduler.schedule_relative(50, action, state)

    result = scheduler.start(lambda: observe_on(Late())(hot))
    assert result.messages == [
        ReactiveTest.on_next(260, "a"),
        ReactiveTest.on_next(260, "b"),
        ReactiveTest.on_error(260, error),
    ]


# What is asked for.


@given(prefetch=st.integers(1, 40), requests=st.lists(st.integers(1, 50), min_size=1, max_size=10))
def test_asks_for_the_prefetch_and_for_three_quarters_of_it_when_taken(prefetch: int, requests: list[int]) -> None:
    source, steps, probe = observed(prefetch)
    replenish = prefetch - prefetch // 4
    assert source.requests == []
    sent = 0
    for n in requests:
        probe.request(n)
        steps.run()
        while sent < sum(source.requests):
            source.send(sent)
            sent += 1
            assert sent - len(probe.items) <= prefetch
            steps.run()
        assert source.requests == [prefetch, *[replenish] * (len(probe.items) // replenish)]
        assert probe.items == list(range(probe.requested))


@given(n=st.integers(1, 40), requests=st.lists(st.integers(1, 50), min_size=1, max_size=10))
def test_limit_rate_asks_for_so_many_and_no_more(n: int, requests: list[int]) -> None:
    source, probe = limited(n)
    assert source.requests == []
    sent = 0
    for number in [*requests, UNBOUNDED]:
        probe.request(number)
        while sent < sum(source.requests) and sent < 1000:
            source.send(sent)
            sent += 1
            assert sum(source.requests) - len(probe.items) <= n
    assert set(source.requests[1:]) == {n - n // 4}
    assert source.requests[0] == n


def test_limit_rate_never_passes_an_unbounded_demand_on() -> None:
    source, probe = limited(8, UNBOUNDED)
    assert source.requests == [8]
    source.send_batch(range(5))
    assert source.requests == [8]
    source.send(5)
    assert source.requests == [8, 6]
    assert probe.items == [0, 1, 2, 3, 4, 5]


def test_source_that_subscribes_late_is_asked_then() -> None:
    """What is requested inside `on_subscribe` comes before there is a source."""
    source, _, _ = observed(4, demand=1)
    assert source.requests == [4]


def test_nothing_is_asked_for_after_the_source_has_ended() -> None:
    source, steps, probe = observed(4, demand=10)
    source.send(1, 2, 3)
    source.complete()
    steps.run()
    assert (source.requests, source.cancels) == ([4], 0)
    assert (probe.items, probe.completions) == ([1, 2, 3], 1)


def test_slow_subscriber_holds_no_more_than_the_prefetch() -> None:
    """100,000 items of 1 kB: at no time are there more than 256 that were taken and not delivered."""
    pulled = delivered = most = 0
    gate = threading.Event()
    full = threading.Event()

    def iterate() -> Iterator[bytes]:
        nonlocal pulled, most
        for _ in range(100_000):
            pulled += 1
            most = max(most, pulled - delivered)
            if pulled == 256:
                full.set()
            yield bytes(1000)

    class Slow(Probe):
        def on_next(self, value: Any) -> None:
            nonlocal delivered
            assert gate.wait(PATIENCE_S)
            delivered += 1

    scheduler = EventLoopScheduler()
    probe = Slow(UNBOUNDED)
    try:
        Flowable.from_iterable(iterate, blocking=True).pipe(observe_on(scheduler)).subscribe(probe)
        assert full.wait(PATIENCE_S)
        assert (pulled, delivered) == (256, 0)
        gate.set()
        probe.wait_for_end()
    finally:
        gate.set()
        scheduler.dispose()
    assert (pulled, delivered, most) == (100_000, 100_000, 256)


# The actions of the scheduler.


def test_an_action_emits_a_batch_and_nobody_acts_for_nothing() -> None:
    source, steps, probe = observed(256)
    source.send(*range(200))
    assert steps.scheduled == 0
    probe.request(1)
    assert steps.scheduled == 1
    probe.request(500)
    source.send(*range(200, 256))
    assert (steps.scheduled, probe.items) == (1, [])
    steps.run()
    assert probe.items == list(range(256))
    assert steps.scheduled == -(-256 // MOST_ITEMS_AN_ACTION)
    source.complete()
    assert (steps.scheduled, probe.completions) == (5, 0)
    steps.run()
    assert probe.completions == 1


def test_other_work_of_the_scheduler_has_its_turn() -> None:
    source, steps, probe = observed(256, demand=UNBOUNDED)
    source.send(*range(3 * MOST_ITEMS_AN_ACTION))
    counts: list[int] = []
    steps.schedule(lambda *_: counts.append(len(probe.items)))
    steps.step()
    steps.schedule(lambda *_: counts.append(len(probe.items)))
    steps.run()
    assert counts == [MOST_ITEMS_AN_ACTION, 2 * MOST_ITEMS_AN_ACTION]


def test_request_for_nothing_that_is_there_schedules_nothing() -> None:
    _, steps, probe = observed(4)
    for _ in range(10):
        probe.request(1)
    assert steps.scheduled == 0


@pytest.mark.parametrize("prefetch", [100, 100_000])
def test_stack_stays_flat_on_a_scheduler_that_acts_at_once(prefetch: int) -> None:
    """F93: 1e5 items under the default recursion limit, although each action is scheduled inside another."""
    source, probe = Manual(), Probe(1, lambda _: probe.request(1))
    source.flowable.pipe(observe_on(ImmediateScheduler(), prefetch=100_000)).subscribe(probe)
    for start in range(0, 100_000, prefetch):
        source.send_batch(range(start, start + prefetch))
    source.complete()
    assert (len(probe.items), probe.completions, probe.errors) == (100_000, 1, [])
    probe.check()


def test_synchronous_source_is_pulled_flat() -> None:
    probe = Probe(1, lambda _: probe.request(1))
    Flowable.from_iterable(range(20_000)).pipe(observe_on(ImmediateScheduler(), prefetch=100)).subscribe(probe)
    assert (len(probe.items), probe.completions) == (20_000, 1)
    probe.check()


@pytest.mark.parametrize(
    "make", [EventLoopScheduler, NewThreadScheduler, lambda: ThreadPoolScheduler(8), TimeoutScheduler]
)
@both_ways
def test_signals_are_serial_on_any_scheduler_with_threads(
    make: Callable[[], abc.SchedulerBase], probe_type: type[Probe]
) -> None:
    scheduler = make()
    main = threading.get_ident()
    probe = probe_type(3, lambda _: probe.request(1))
    try:
        Flowable.from_iterable(range(3000)).pipe(observe_on(scheduler, prefetch=50)).subscribe(probe)
        probe.wait_for_end()
    finally:
        if isinstance(scheduler, EventLoopScheduler):
            scheduler.dispose()
        if isinstance(scheduler, ThreadPoolScheduler):
            scheduler.executor.shutdown()
    assert (probe.items, probe.completions) == (list(range(3000)), 1)
    assert main not in probe.threads
    if isinstance(scheduler, EventLoopScheduler):
        assert len(set(probe.threads)) == 1
    probe.check()


@pytest.mark.parametrize("make", [CurrentThreadScheduler, ImmediateScheduler, CurrentThreadScheduler.singleton])
def test_scheduler_of_the_calling_thread(make: Callable[[], abc.SchedulerBase]) -> None:
    probe = Probe(UNBOUNDED)
    Flowable.from_iterable(range(1000)).pipe(observe_on(make())).subscribe(probe)
    assert (probe.items, probe.completions) == (list(range(1000)), 1)
    assert set(probe.threads) == {threading.get_ident()}
    probe.check()


def test_loop_of_another_thread() -> None:
    with loop_on_a_thread() as loop:
        probe = Probe(UNBOUNDED)
        source = Flowable.from_iterable(range(1000), blocking=True)
        source.pipe(observe_on(AsyncIOThreadSafeScheduler(loop))).subscribe(probe)
        probe.wait_for_end()
        ident = asyncio.run_coroutine_threadsafe(_ident(), loop).result(PATIENCE_S)
    assert (probe.items, set(probe.threads)) == (list(range(1000)), {ident})
    probe.check()


async def _ident() -> int:
    return threading.get_ident()


def test_loop_of_the_calling_thread() -> None:
    async def main() -> list[int]:
        scheduler = AsyncIOScheduler(asyncio.get_running_loop())
        return [number async for number in Flowable.from_iterable(range(1000)).pipe(observe_on(scheduler))]

    assert asyncio.run(main()) == list(range(1000))


def test_async_source_runs_on_the_loop_that_the_subscriber_offers() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def numbers() -> AsyncIterator[int]:
        loops.append(asyncio.get_running_loop())
        yield 1

    with loop_on_a_thread() as loop:
        probe = Probe(UNBOUNDED)
        probe.offered_loop = loop
        Flowable.from_async_iterable(numbers).pipe(limit_rate(4)).subscribe(probe)
        probe.wait_for_end()
    assert loops == [loop]


def test_plain_observable_is_given_demand() -> None:
    assert observe_on(NewThreadScheduler())(reactivex.range(1000)).run() == 999
    assert limit_rate(5)(reactivex.of(1, 2, 3)).run() == 3


def test_plain_observer_gets_everything_and_can_dispose_inside_on_next() -> None:
    got: list[int] = []
    disposable: list[abc.DisposableBase] = []

    def on_next(item: int) -> None:
        got.append(item)
        if item == 2:
            disposable[0].dispose()

    disposable.append(Flowable.from_iterable(range(9)).pipe(observe_on(ImmediateScheduler())).subscribe(on_next))
    assert got == [0, 1, 2]


# The end.


@pytest.mark.parametrize("error", [None, SourceError()])
def test_end_comes_on_the_scheduler_after_the_items(error: Exception | None) -> None:
    source, steps, probe = observed(4, demand=2)
    source.send(1, 2, 3)
    source.complete() if error is None else source.fail(error)
    assert (probe.items, probe.ended) == ([], False)
    steps.run()
    assert (probe.items, probe.ended) == ([1, 2], False)
    probe.request(1)
    assert probe.items == [1, 2]
    steps.run()
    assert (probe.items, probe.errors, probe.completions) == ([1, 2, 3], [error] if error else [], 0 if error else 1)
    probe.check()


def test_end_without_demand_comes_on_the_scheduler() -> None:
    source, steps, probe = observed(4)
    source.complete()
    assert not probe.ended
    steps.run()
    assert (probe.completions, source.requests) == (1, [])


def test_invalid_request_ends_at_once_and_lets_go() -> None:
    source, steps, probe = observed(4, demand=1)
    source.send(1, 2)
    probe.subscription.request(0)
    assert (source.cancels, steps.scheduled) == (1, 1)
    source.send(3)
    steps.run()
    assert [type(error) for error in probe.errors] == [InvalidRequestError]
    assert (probe.items, steps.scheduled) == ([], 1)


class Item:
    """Something that can be seen to be gone."""


def test_cancel_lets_go_of_everything_though_the_scheduler_is_behind() -> None:
    source, steps, probe = observed(4, demand=2)
    item = Item()
    gone = weakref.ref(item)
    source.send(item)
    del item
    subscriber = weakref.ref(probe)
    assert steps.scheduled == 1
    probe.cancel()
    probe.cancel()
    assert (gone(), source.cancels) == (None, 1)
    source.send(2)
    del probe
    assert subscriber() is None
    steps.run()
    assert (steps.scheduled, source.requests) == (1, [4])


def test_cancel_inside_on_next_ends_the_batch() -> None:
    source, steps, probe = observed(4, demand=9)
    probe.on_item = lambda item: probe.cancel() if item == 2 else None
    source.send(1, 2, 3, 4)
    steps.run()
    assert (probe.items, source.cancels, source.requests) == ([1, 2], 1, [4])


def test_cancel_inside_on_subscribe_means_that_nobody_subscribes() -> None:
    class Cancelling(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.cancel()

    source, steps = Manual(), Steps()
    source.flowable.pipe(observe_on(steps)).subscribe(Cancelling())
    assert (source.subscriptions, steps.scheduled) == (0, 0)


def test_source_whose_subscription_comes_after_the_cancel_is_cancelled() -> None:
    class Late(Manual):
        def _publish(self, subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
            probe.cancel()
            return super()._publish(subscriber, _)

    source, probe = Late(), Probe(3)
    source.flowable.pipe(observe_on(Steps())).subscribe(probe)
    assert (source.subscriptions, source.cancels, source.requests) == (1, 1, [])


def test_observer_that_raises_is_logged_and_cancelled(log: Log) -> None:
    source, steps, probe = observed(4, demand=9)

    def on_item(item: int) -> None:
        raise SourceError(item)

    probe.on_item = on_item
    source.send(1, 2)
    steps.run()
    assert (probe.items, probe.errors, source.cancels) == ([1], [], 1)
    assert log.levels == ["ERROR"]


def test_source_that_raises_in_subscribe_is_an_error() -> None:
    error = SourceError()

    def publish(*_: Any) -> Subscription:
        raise error

    probe, steps = Probe(), Steps()
    source: Flowable[int] = Flowable(publish)
    source.pipe(observe_on(steps)).subscribe(probe)
    steps.run()
    assert probe.errors == [error]


# A scheduler that refuses.


@pytest.mark.parametrize("accepts", [0, 1])
def test_scheduler_that_refuses_ends_the_stream_and_says_so(accepts: int) -> None:
    source, steps, probe = observed(200, demand=UNBOUNDED, accepts=accepts)
    source.send_batch(range(100))
    steps.run()
    assert probe.items == list(range(MOST_ITEMS_AN_ACTION if accepts else 0))
    (error,) = probe.errors
    assert isinstance(error, RxwowError)
    assert isinstance(error.__cause__, SourceError)
    assert str(error).startswith("observe_on could not schedule on <tests.streams.test_boundary.Steps object at ")
    assert str(error).endswith(
        "which raised SourceError('no more'); dispose a scheduler after the streams on it have ended, or cancel them "
        "first"
    )
    assert source.cancels == 1
    assert not cast(_Boundary[Any], probe.subscription)._items
    probe.check()


def _disposed_event_loop() -> abc.SchedulerBase:
    scheduler = EventLoopScheduler()
    scheduler.dispose()
    return scheduler


def _shut_down_pool() -> abc.SchedulerBase:
    scheduler = ThreadPoolScheduler(1)
    scheduler.executor.shutdown()
    return scheduler


def _closed_loop() -> abc.SchedulerBase:
    loop = asyncio.new_event_loop()
    loop.close()
    return AsyncIOThreadSafeScheduler(loop)


@pytest.mark.parametrize("make", [_disposed_event_loop, _shut_down_pool, _closed_loop])
def test_schedulers_of_rxpy_that_refuse(make: Callable[[], abc.SchedulerBase]) -> None:
    probe = Probe(UNBOUNDED)
    Flowable.from_iterable(range(3)).pipe(observe_on(make())).subscribe(probe)
    assert [type(error) for error in probe.errors] == [RxwowError]
    assert (probe.items, probe.completions) == ([], 0)


def test_other_work_that_raises_in_the_same_trampoline_ends_the_stream() -> None:
    """RxPY runs what on_next schedules inside our call of `schedule`; what that raises must not be lost."""

    def fail(*_: Any) -> None:
        raise SourceError("other work")

    scheduler = CurrentThreadScheduler()
    source, probe = Manual(), Probe(9, lambda _: scheduler.schedule(fail))
    source.flowable.pipe(observe_on(scheduler)).subscribe(probe)
    source.send(1)
    assert (probe.items, source.cancels) == ([1], 1)
    assert ["other work" in str(error) for error in probe.errors] == [True]
    probe.check()


def test_other_work_that_raises_after_the_end_is_logged(log: Log) -> None:
    def fail(*_: Any) -> None:
        raise SourceError("other work")

    def end(_: Any) -> None:
        scheduler.schedule(fail)
        probe.cancel()

    scheduler = CurrentThreadScheduler()
    source, probe = Manual(), Probe(9, end)
    source.flowable.pipe(observe_on(scheduler)).subscribe(probe)
    source.send(1)
    assert (probe.items, probe.errors, log.levels) == ([1], [], ["WARNING"])


def test_keyboard_interrupt_goes_on_and_ends_the_stream() -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    source, steps, probe = observed(4, demand=9)
    probe.on_item = interrupt
    source.send(1, 2)
    with pytest.raises(KeyboardInterrupt):
        steps.run()
    source.send(3)
    steps.run()
    assert (probe.items, source.cancels) == ([1], 1)


def test_keyboard_interrupt_while_scheduling_goes_on_and_ends_the_stream() -> None:
    class Interrupted(Steps):
        def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
            raise KeyboardInterrupt

    source, probe = Manual(), Probe(9)
    source.flowable.pipe(observe_on(Interrupted())).subscribe(probe)
    with pytest.raises(KeyboardInterrupt):
        source.send(1)
    source.send(2)
    assert (probe.items, source.cancels) == ([], 1)


@pytest.mark.parametrize("value", [0, -1, True, None, 1.5, "4"], ids=repr)
def test_bad_counts_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="prefetch must be a whole number of at least 1"):
        observe_on(ImmediateScheduler(), prefetch=value)
    with pytest.raises(InvalidArgumentError, match="n must be a whole number of at least 1"):
        limit_rate(value)


@pytest.mark.parametrize("value", [None, 5, EventLoopScheduler], ids=repr)
def test_bad_schedulers_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="scheduler must be a scheduler of RxPY"):
        observe_on(value)


# Under control: the source's thread, the scheduler's threads, requests and cancel.


@pytest.fixture(scope="session")
def seeds(soak: bool) -> Sequence[int]:
    return range(10_000 if soak else 300)


def fed(platform: Platform) -> tuple[Flowable[Any], list[Queue]]:
    """Make a Flowable that emits on the threads that put into its queue, or ask it."""
    queues: list[Queue] = []

    def publish(subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
        queues.append(Queue(subscriber, platform))
        queues[0].start()
        return queues[0]

    return Flowable(publish), queues


def test_nothing_is_lost_whatever_threads_do(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform)
        prefetch = platform.random.randint(1, 4)
        on_a_scheduler = platform.random.random() < 0.7
        operator = observe_on(threads, prefetch=prefetch) if on_a_scheduler else limit_rate(prefetch)
        source, queues = fed(platform)
        subscriber = Controlled(platform)
        source.pipe(operator).subscribe(subscriber)
        error = SourceError() if platform.random.random() < 0.5 else None

        def feed() -> None:
            for number in range(6):
                queues[0].put(number)
            queues[0].complete() if error is None else queues[0].fail(error)

        join(platform, feed, each(subscriber.request, [1, 2]), each(subscriber.request, [1, 1, 1]))
        subscriber.ended.wait()
        threads.join()
        assert subscriber.items == list(range(6))
        assert subscriber.ends == [error or "completed"]
        assert (queues[0].releases, queues[0].stops) == (1, 0)

    explore(scenario, seeds)


def test_signals_come_on_the_scheduler_alone(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform)

        class There(Controlled):
            def _signal(self, got: list[Any], value: Any) -> None:
                assert threading.get_ident() in threads.busy
                super()._signal(got, value)

        source, queues = fed(platform)
        subscriber = There(platform)
        source.pipe(observe_on(threads, prefetch=2)).subscribe(subscriber)
        join(platform, each(queues[0].put, range(4)), each(subscriber.request, [1] * 4), queues[0].complete)
        threads.join()

    explore(scenario, seeds)


def test_cancel_at_any_time_lets_go(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform)
        source, queues = fed(platform)
        subscriber = Controlled(platform)
        source.pipe(observe_on(threads, prefetch=3)).subscribe(subscriber)
        boundary = subscriber.subscription
        actions: list[Callable[[], object]] = [
            each(queues[0].put, range(5)),
            each(subscriber.request, [2, 2]),
            boundary.cancel,
        ]
        if platform.random.random() < 0.5:
            actions.append(queues[0].complete)
        if platform.random.random() < 0.3:
            actions.append(lambda: boundary.request(0))
        join(platform, *actions)
        # All has been let go of by now, but for an on_next that is on its way.
        assert not boundary._items
        threads.join()
        assert subscriber.items == list(range(len(subscriber.items)))
        assert len(subscriber.ends) <= 1
        assert boundary._finished
        assert queues[0].releases == 1

    explore(scenario, seeds)


def test_scheduler_that_refuses_at_any_time_never_hangs_the_stream(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform, accepts=platform.random.randint(0, 4))
        source, queues = fed(platform)
        subscriber = Controlled(platform)
        source.pipe(observe_on(threads, prefetch=2)).subscribe(subscriber)

        def feed() -> None:
            for number in range(4):
                queues[0].put(number)
            queues[0].complete()

        join(platform, feed, each(subscriber.request, [1] * 4))
        subscriber.ended.wait()
        threads.join()
        assert subscriber.items == list(range(len(subscriber.items)))
        (end,) = subscriber.ends
        assert end == "completed" or "could not schedule" in str(end)
        assert queues[0].releases == 1

    explore(scenario, seeds)


def test_scheduler_that_acts_and_raises_all_the_same_does_not_make_two_drainers(seeds: Sequence[int]) -> None:
    class Raising(Threads):
        def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
            super().schedule(action, state)
            raise SourceError("all the same")

    def scenario(platform: ControlledPlatform) -> None:
        threads = Raising(platform)
        source, queues = fed(platform)
        subscriber = Controlled(platform)
        source.pipe(observe_on(threads, prefetch=2)).subscribe(subscriber)
        join(platform, each(queues[0].put, range(4)), each(subscriber.request, [2, 2]))
        threads.join()
        assert subscriber.items == list(range(len(subscriber.items)))
        (end,) = subscriber.ends
        assert "all the same" in str(end)
        assert queues[0].releases == 1

    explore(scenario, seeds)


@pytest.mark.seeds(20, soak=2000)
def test_no_more_than_the_prefetch_is_held_whatever_threads_do(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        threads = Threads(platform)
        prefetch = platform.random.randint(1, 5)
        pulled = itertools.count(1)
        subscriber = Controlled(platform)

        def iterate() -> Iterator[int]:
            for number in range(20):
                assert next(pulled) - len(subscriber.items) <= prefetch
                yield number

        source = Flowable.from_iterable(iterate, blocking=True)
        source.pipe(observe_on(threads, prefetch=prefetch)).subscribe(subscriber)
        join(platform, each(subscriber.request, [1] * 10), each(subscriber.request, [2] * 5))
        subscriber.ended.wait()
        threads.join()
        assert subscriber.items == list(range(20))

    run(scenario, seed)
