"""timeout, on virtual time: RxPY's TestScheduler, or threads under control."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc, operators
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.scheduler import Scheduler
from reactivex.subject import Subject
from reactivex.testing import ReactiveTest, TestScheduler

from rxwow.errors import InvalidArgumentError, InvalidRequestError
from rxwow.platform import PRODUCTION, Platform
from rxwow.streams.emitter import Emitter
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.streams.timing import timeout
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Probe
from tests.streams.sources import SourceError
from tests.streams.test_schedules import Controlled, join

both_ways = pytest.mark.parametrize("probe_class", [Probe, BatchProbe], ids=["singly", "in batches"])


class Latent(Emitter[int]):
    """Delivers each item some time after it was asked for it and has delivered the one before."""

    def __init__(self, subscriber: Subscriber[int], scheduler: Scheduler, latencies: list[int]) -> None:
        super().__init__(subscriber, PRODUCTION)
        self._scheduler = scheduler
        self._latencies = iter(latencies)
        self._left = len(latencies)
        self._ready: list[int] = []
        self._next = 0
        self._owed = 0
        self._busy = False
        self.cancelled = False

    def request(self, n: int) -> None:
        super().request(n)
        self._owed += n
        self._work()

    def _work(self) -> None:
        if self._busy or self._owed == 0 or self._left == 0:
            return
        self._busy = True
        self._scheduler.schedule_relative(float(next(self._latencies)), self._finish_item)

    def _finish_item(self, *_: Any) -> None:
        self._busy = False
        self._owed -= 1
        self._left -= 1
        self._ready.append(self._next)
        self._next += 1
        self.wake()
        if self._left == 0:
            self.complete()
        self._work()

    def _has_items(self) -> bool:
        return bool(self._ready)

    def _emit(self, limit: int) -> int:
        items, self._ready = self._ready[:limit], self._ready[limit:]
        return self._deliver(items) if items else 0

    def _stop(self) -> None:
        self.cancelled = True


class CountingScheduler(TestScheduler):
    """Counts the timers that were set; nothing else in these tests sets one on it."""

    timers = 0

    def schedule_relative(self, *args: Any, **keywords: Any) -> abc.DisposableBase:
        self.timers += 1
        return super().schedule_relative(*args, **keywords)

    @property
    def waiting(self) -> int:
        return sum(not item.is_cancelled() for item, _ in self._queue.items)


class PlatformScheduler(Scheduler):
    """Timers on threads of a platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.threads: list[Any] = []

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        return self.schedule_relative(0.0, action, state)

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        raise NotImplementedError

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        disposed = self._platform.event()

        def wait() -> None:
            if not disposed.wait(timeout=float(duetime)):
                action(self, state)

        thread = self._platform.thread(wait, "timer")
        self.threads.append(thread)
        thread.start()
        return Disposable(disposed.set)

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


def join_threads_since(before: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{thread.name} is still alive"


def latent(scheduler: Scheduler, latencies: list[int]) -> tuple[Flowable[int], list[Latent]]:
    made: list[Latent] = []

    def publish(subscriber: Subscriber[int], _: Any) -> Subscription:
        emitter = Latent(subscriber, scheduler, latencies)
        made.append(emitter)
        if not latencies:
            emitter.complete()
        emitter.start()
        return emitter

    return Flowable(publish), made


def model(latencies: list[int], requests: list[tuple[int, int]], seconds: float) -> tuple[list[Any], str]:
    """Return the items with their times, and the end, of a source whose subscriber takes no time."""
    asked = [at for at, n in requests for _ in range(n)]
    emitted: list[Any] = []
    now = 0.0
    for number, latency in enumerate(latencies):
        if number == len(asked):
            return emitted, "goes on"
        owed_since = max(now, asked[number])
        if latency > seconds:
            return emitted, f"times out at {owed_since + seconds:g}"
        now = owed_since + latency
        emitted.append((number, now))
    return emitted, "completes"


@both_ways
@given(
    latencies=st.lists(st.integers(1, 9), max_size=8),
    pauses=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=6),
    whole_seconds=st.integers(0, 8),
)
def test_times_out_when_an_item_that_is_owed_does_not_come(
    probe_class: type[Probe], latencies: list[int], pauses: list[tuple[int, int]], whole_seconds: int
) -> None:
    # Half a second more, so that no item comes at the very moment of a timeout.
    seconds = whole_seconds + 0.5
    scheduler = TestScheduler()
    times: list[float] = []
    probe = probe_class(on_item=lambda _: times.append(scheduler.to_seconds(scheduler.now)))
    ended_at: list[float] = []
    on_error = probe.on_error

    def note(error: Exception) -> None:
        ended_at.append(scheduler.to_seconds(scheduler.now))
        on_error(error)

    probe.on_error = note  # type: ignore[method-assign]
    source, made = latent(scheduler, latencies)
    timeout(seconds, scheduler=scheduler)(source).subscribe(probe)
    requests: list[tuple[int, int]] = []
    at = 0
    for pause, n in pauses:
        at += pause
        requests.append((at, n))
        scheduler.schedule_absolute(float(at), lambda *_, n=n: probe.request(n))
    scheduler.start()
    emitted, end = model(latencies, requests, seconds)
    assert list(zip(probe.items, times, strict=True)) == emitted
    if end == "goes on":
        assert not probe.ended
    elif end == "completes":
        assert (probe.completions, probe.errors) == (1, [])
    else:
        assert [type(error) for error in probe.errors] == [TimeoutError]
        assert f"times out at {ended_at[0]:g}" == end
        assert made[0].cancelled
    probe.check()


@given(
    gaps=st.lists(st.integers(1, 9), max_size=8),
    end=st.sampled_from(["completes", "fails", "goes on"]),
    whole_seconds=st.integers(0, 8),
    with_other=st.booleans(),
)
def test_does_for_a_plain_observer_what_rxpy_does(
    gaps: list[int], end: str, whole_seconds: int, with_other: bool
) -> None:
    def messages(rxpy: bool) -> list[Any]:
        scheduler = TestScheduler()
        time = 0
        sent = []
        for number, gap in enumerate(gaps):
            time += gap
            sent.append(ReactiveTest.on_next(time, number))
        if end != "goes on":
            last = time + 1
            sent.append(ReactiveTest.on_completed(last) if end == "completes" else ReactiveTest.on_error(last, "no"))
        source = scheduler.create_cold_observable(sent)
        other = scheduler.create_cold_observable(ReactiveTest.on_next(3, "other"), ReactiveTest.on_completed(4))
        seconds = whole_seconds + 0.5
        if rxpy:
            timed = source.pipe(operators.timeout(seconds, other if with_other else None))
        elif with_other:
            timed = timeout(seconds, other=other)(source)
        else:
            timed = timeout(seconds)(source)
        return scheduler.start(lambda: timed, disposed=1000).messages

    ours, theirs = messages(False), messages(True)
    assert [(one.time, one.value.kind) for one in ours] == [(one.time, one.value.kind) for one in theirs]
    assert [one.value.value for one in ours if one.value.kind == "N"] == [
        one.value.value for one in theirs if one.value.kind == "N"
    ]


@both_ways
def test_other_is_asked_for_what_is_left(probe_class: type[Probe]) -> None:
    scheduler = TestScheduler()
    source, _ = latent(scheduler, [1, 1, 100])
    other: Flowable[int] = Flowable.from_iterable(range(10, 20))
    probe = probe_class(5)
    timeout(2, other=other, scheduler=scheduler)(source).subscribe(probe)
    scheduler.start()
    assert probe.items == [0, 1, 10, 11, 12]
    probe.request(2)
    assert probe.items[-2:] == [13, 14]
    # It has no time limit, and what the source sends late is not emitted.
    scheduler.advance_by(1000)
    assert (len(probe.items), probe.ended) == (7, False)
    probe.request(UNBOUNDED)
    assert (probe.items[-1], probe.completions) == (19, 1)
    probe.check()


def test_what_comes_after_a_timeout_is_dropped() -> None:
    """Also from a source that doesn't stop when it is cancelled."""
    subscribers: list[Subscriber[int]] = []

    def publish(subscriber: Subscriber[int], _: Any) -> Subscription:
        subscribers.append(subscriber)
        return Flowable.never()._publish(subscriber, None)

    scheduler = TestScheduler()
    probe = Probe(3)
    timeout(1, other=Flowable.from_iterable(iter([7, 8])), scheduler=scheduler)(Flowable(publish)).subscribe(probe)
    subscribers[0].on_next(1)
    scheduler.advance_by(0.5)
    subscribers[0].on_next(2)
    scheduler.advance_by(2)
    assert probe.items == [1, 2, 7]
    subscribers[0].on_next(3)
    subscribers[0].on_error(SourceError())
    subscribers[0].on_completed()
    assert (probe.items, probe.ended) == ([1, 2, 7], False)
    probe.request(2)
    assert (probe.items, probe.completions) == ([1, 2, 7, 8], 1)


@both_ways
def test_other_that_fails_at_once_or_is_endless(probe_class: type[Probe]) -> None:
    for other, errors in ((Flowable.throw(SourceError()), 1), (Flowable.never(), 0)):
        scheduler = TestScheduler()
        probe = probe_class(1)
        timeout(1, other=other, scheduler=scheduler)(Flowable.never()).subscribe(probe)
        scheduler.start()
        assert len(probe.errors) == errors
        probe.check()


def test_subscriber_that_is_slow_does_not_time_out_its_source() -> None:
    """Neither between its requests nor while it is busy with an item, on the thread that would bring the next."""
    scheduler = TestScheduler()
    probe = Probe(3, on_item=lambda _: scheduler.sleep(60.0))
    source: Flowable[int] = Flowable.from_iterable(iter(range(100)))
    timeout(1, scheduler=scheduler)(source).subscribe(probe)
    scheduler.advance_by(600)
    probe.request(3)
    scheduler.advance_by(600)
    assert (probe.items, probe.ended) == (list(range(6)), False)
    probe.check()


@pytest.mark.seeds(60, soak=3000)
def test_subscriber_that_is_slow_while_timers_run_on_other_threads(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        timers = PlatformScheduler(platform)

        class Slow(Controlled):
            def on_next(self, value: Any) -> None:
                platform.sleep(platform.random.choice([0, 5]))
                super().on_next(value)

        def items() -> Iterator[int]:
            for number in range(4):
                platform.sleep(0.5)
                yield number

        slow = Slow(platform)
        timeout(1, scheduler=timers)(Flowable.from_iterable(items, blocking=True)).subscribe(slow)
        slow.request(2)
        platform.sleep(20)
        slow.request(5)
        slow.ended.wait()
        assert (slow.items, slow.ends) == ([0, 1, 2, 3], ["completed"])
        timers.join()

    run(scenario, seed)


def test_one_timer_serves_many_items() -> None:
    scheduler = CountingScheduler()
    subject: Subject[int] = Subject()
    probe = Probe(UNBOUNDED)
    timeout(10, scheduler=scheduler)(subject).subscribe(probe)
    for number in range(1000):
        scheduler.advance_by(1)
        subject.on_next(number)
        assert scheduler.waiting == 1
    assert (len(probe.items), probe.ended) == (1000, False)
    assert scheduler.timers <= 1000 / 9 + 1


@pytest.mark.parametrize("end", ["completed", "error", "cancel", "invalid request"])
def test_no_timer_is_left_after_the_end(end: str) -> None:
    scheduler = CountingScheduler()
    subject: Subject[int] = Subject()
    probe = Probe(5)
    timeout(10, scheduler=scheduler)(subject).subscribe(probe)
    subject.on_next(1)
    assert scheduler.waiting == 1
    if end == "completed":
        subject.on_completed()
    elif end == "error":
        subject.on_error(SourceError())
    elif end == "cancel":
        probe.cancel()
    else:
        probe.subscription.request(0)
        assert isinstance(probe.errors[0], InvalidRequestError)
    assert scheduler.waiting == 0
    assert subject.observers == []
    probe.cancel()
    probe.request(1)
    assert scheduler.waiting == 0


def test_no_timer_before_a_request() -> None:
    scheduler = CountingScheduler()
    asked: list[int] = []
    probe = Probe()

    def items() -> Iterator[int]:
        asked.append(1)
        yield 1

    timeout(10, scheduler=scheduler)(Flowable.from_iterable(items)).subscribe(probe)
    assert (scheduler.timers, asked) == (0, [])
    probe.request(1)
    assert (probe.items, asked) == ([1], [1])


def test_silence_is_measured_from_the_subscription_where_that_comes_after_the_request() -> None:
    scheduler = TestScheduler()
    source, _ = latent(scheduler, [5])

    def publish(subscriber: Subscriber[int], subscribed: Any) -> Subscription:
        scheduler.sleep(100.0)
        return source._publish(subscriber, subscribed)

    probe = Probe(1)
    timeout(6, scheduler=scheduler)(Flowable(publish)).subscribe(probe)
    scheduler.start()
    assert (probe.items, probe.errors) == ([0], [])


def test_scheduler_that_raises_ends_the_stream() -> None:
    class Broken(TestScheduler):
        def schedule_relative(self, *_: Any, **__: Any) -> abc.DisposableBase:
            raise SourceError

    probe = Probe(1)
    timeout(1, scheduler=Broken())(Flowable.never()).subscribe(probe)
    assert [type(error) for error in probe.errors] == [SourceError]


def test_source_that_raises_in_subscribe_is_an_error() -> None:
    def publish(*_: Any) -> Subscription:
        raise SourceError

    probe = Probe(1)
    timeout(1, scheduler=TestScheduler())(Flowable(publish)).subscribe(probe)
    assert [type(error) for error in probe.errors] == [SourceError]


def test_subscribe_time_scheduler_is_used_and_one_that_waits_is_not() -> None:
    scheduler = TestScheduler()
    probe = Probe(1)
    timeout(1)(Flowable.never()).subscribe(probe, scheduler=scheduler)
    scheduler.start()
    assert [type(error) for error in probe.errors] == [TimeoutError]

    ended = threading.Event()
    probe = Probe(1)
    probe.on_error = lambda error: ended.set()  # type: ignore[method-assign]
    timeout(0.01)(Flowable.never()).subscribe(probe, scheduler=CurrentThreadScheduler.singleton())
    assert ended.wait(20)


def test_default_scheduler_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(TimeoutError, match=r"no item within 0\.01 s"):
        timeout(0.01)(Flowable.never()).run()
    assert timeout(600)(Flowable.from_iterable([1, 2])).run() == 2
    probe = Probe(1)
    timeout(600)(Flowable.never()).subscribe(probe)
    probe.cancel()
    join_threads_since(before)


class Race:
    """A source, its timeout, the requests and perhaps a cancel, each on a thread."""

    def __init__(self, platform: ControlledPlatform) -> None:
        class Timed(Controlled):
            last_item_at = 0.0

            def on_next(self, value: Any) -> None:
                self.last_item_at = platform.monotonic()
                super().on_next(value)

            def on_error(self, error: Exception) -> None:
                assert platform.monotonic() >= self.last_item_at + 1
                super().on_error(error)

        self.platform = platform
        self.random = platform.random
        self.timers = PlatformScheduler(platform)
        self.subject: Subject[int] = Subject()
        self.subscriber = Timed(platform)
        self.cancels = self.random.random() < 0.3
        source = Flowable.from_observable(self.subject)
        if self.random.random() < 0.5:
            timed = timeout(1, other=Flowable.from_iterable([100, 101]), scheduler=self.timers)(source)
        else:
            timed = timeout(1, scheduler=self.timers)(source)
        timed.subscribe(self.subscriber)

    def send(self) -> None:
        for number in range(4):
            self.platform.sleep(self.random.choice([0, 0.9, 1, 1.1]))
            self.subject.on_next(number)
        if self.random.random() < 0.5:
            self.subject.on_completed()

    def ask(self) -> None:
        for _ in range(6):
            self.subscriber.request(1)
            self.platform.sleep(self.random.choice([0, 1]))

    def cancel(self) -> None:
        if self.cancels:
            self.platform.sleep(self.random.choice([0, 1, 2]))
            self.subscriber.subscription.cancel()


@pytest.mark.seeds(150, soak=10_000)
def test_items_timer_requests_and_cancel_at_the_same_time(seed: int) -> None:
    """At most one end, no item after it, none lost before it, and no timer left."""

    def scenario(platform: ControlledPlatform) -> None:
        race = Race(platform)
        join(platform, race.send, race.ask, race.cancel)
        # Long enough for whatever is still owed.
        platform.sleep(10)
        race.timers.join()
        subscriber = race.subscriber
        of_source = [item for item in subscriber.items if item < 100]
        assert of_source == list(range(len(of_source)))
        assert subscriber.items == of_source + [100, 101][: len(subscriber.items) - len(of_source)]
        assert len(subscriber.ends) <= 1
        if subscriber.ends or race.cancels:
            assert race.subject.observers == []
        else:
            # Nothing is owed, or the end would have come.
            assert len(subscriber.items) == subscriber.requested

    run(scenario, seed)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "1", None, True], ids=repr)
def test_seconds_must_be_above_zero(seconds: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="seconds must be"):
        timeout(seconds)


def test_other_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="other must be an Observable"):
        timeout(1, other=[1])  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="scheduler must be"):
        timeout(1, scheduler="now")  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="observable must be"):
        timeout(1)([1])  # type: ignore[arg-type]


def test_plain_observable_is_given_demand() -> None:
    probe = Probe(2)
    timeout(1, other=reactivex.of(1), scheduler=TestScheduler())(reactivex.of(1, 2, 3)).subscribe(probe)
    assert probe.items == [1, 2]
