import asyncio
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, operators
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler, NewThreadScheduler
from reactivex.subject import Subject

from rxwow.errors import InvalidArgumentError, MissingBackpressureError, RxwowError
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import allow_waiting, forbid_waiting
from rxwow.streams.observables import ObservableSubscription, from_observable
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe
from tests.streams.sources import SourceError

KEEPING = [OverflowStrategy.BLOCK, OverflowStrategy.BUFFER, OverflowStrategy.DROP_LATEST, OverflowStrategy.DROP_OLDEST]


def subscribed(on_overflow: Any, capacity: int = 3, demand: int = 0) -> tuple[Subject[Any], Probe]:
    subject: Subject[Any] = Subject()
    probe = Probe(demand)
    from_observable(subject, on_overflow=on_overflow, capacity=capacity).subscribe(probe)
    return subject, probe


def send(subject: Subject[Any], count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        subject.on_next(number)


def on_a_thread(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def joined(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


# What fits.


@pytest.mark.parametrize("strategy", KEEPING)
def test_what_exceeds_the_demand_waits(strategy: OverflowStrategy) -> None:
    """F39: it comes when demand returns, and then the end."""
    subject, probe = subscribed(strategy, capacity=3, demand=1)
    send(subject, 4)
    assert probe.items == [0]
    subject.on_completed()
    assert not probe.ended
    probe.request(2)
    assert probe.items == [0, 1, 2]
    probe.request(1)
    assert (probe.items, probe.completions) == ([0, 1, 2, 3], 1)
    probe.check()


@pytest.mark.parametrize("strategy", list(OverflowStrategy))
def test_unbounded_demand_never_overflows(strategy: OverflowStrategy) -> None:
    subject, probe = subscribed(strategy, capacity=1, demand=UNBOUNDED)
    send(subject, 1000)
    subject.on_completed()
    assert (len(probe.items), probe.completions) == (1000, 1)


@given(
    strategy=st.sampled_from(OverflowStrategy),
    capacity=st.integers(1, 5),
    steps=st.lists(st.one_of(st.just(0), st.integers(1, 4)), max_size=40),
)
def test_strategy_matches_its_model(strategy: OverflowStrategy, capacity: int, steps: list[int]) -> None:
    """A step of 0 sends an item, any other requests as many; the model is a list and a number."""
    forbid_waiting(threading.get_ident(), "the test")
    try:
        subject, probe = subscribed(strategy, capacity)
        waiting: list[int] = []
        emitted: list[int] = []
        demand = dropped = sent = 0
        failed = False
        room = 0 if strategy is OverflowStrategy.ERROR else capacity
        for step in steps:
            if step:
                probe.request(step)
                demand += step
            else:
                subject.on_next(sent)
                if not failed and len(waiting) < room + demand:
                    waiting.append(sent)
                elif strategy is OverflowStrategy.DROP_OLDEST:
                    dropped += 1
                    waiting = [*waiting[1:], sent]
                elif strategy is OverflowStrategy.DROP_LATEST:
                    dropped += 1
                else:
                    failed = True
                sent += 1
            emitted += waiting[:demand]
            waiting, demand = waiting[demand:], demand - len(waiting[:demand])
            assert probe.items == emitted
            assert bool(probe.errors) is (failed and not waiting)
            assert isinstance(probe.subscription, ObservableSubscription)
            assert probe.subscription.dropped == dropped
        probe.check()
    finally:
        allow_waiting(threading.get_ident())


# What does not.


def test_buffer_fails_beyond_its_capacity_after_the_items_that_it_kept() -> None:
    subject, probe = subscribed("buffer", capacity=3)
    send(subject, 5)
    assert not probe.ended
    assert subject.observers == []
    probe.request(2)
    assert (probe.items, probe.ended) == ([0, 1], False)
    probe.request(1)
    assert probe.items == [0, 1, 2]
    assert isinstance(probe.errors[0], MissingBackpressureError)
    assert "the source sent more than the 3 items that the buffer behind it holds" in str(probe.errors[0])
    assert "a bigger capacity" in str(probe.errors[0])


def test_error_fails_at_the_first_item_beyond_the_demand() -> None:
    subject, probe = subscribed("error", demand=2)
    send(subject, 3)
    assert probe.items == [0, 1]
    assert [type(error) for error in probe.errors] == [MissingBackpressureError]
    assert subject.observers == []


def test_error_counts_an_item_as_taken_only_when_it_was_asked_for() -> None:
    """One that is sent from inside `on_next` exceeds a demand of one, however early the drainer notices."""
    subject, probe = subscribed("error", demand=1)
    probe.on_item = lambda _: subject.on_next(1)
    subject.on_next(0)
    assert probe.items == [0]
    assert [type(error) for error in probe.errors] == [MissingBackpressureError]


@pytest.mark.parametrize(("strategy", "kept"), [("drop_latest", [0, 1, 2]), ("drop_oldest", [7, 8, 9])])
def test_dropped_items_are_counted_and_logged_once(strategy: str, kept: list[int], log: Log) -> None:
    subject, probe = subscribed(strategy, capacity=3)
    send(subject, 10)
    probe.request(UNBOUNDED)
    assert probe.items == kept
    assert isinstance(probe.subscription, ObservableSubscription)
    assert probe.subscription.dropped == 7
    assert log.levels == ["WARNING"]


def test_block_holds_up_the_thread_that_sends_until_there_is_demand() -> None:
    """F04, F14: more is never kept than the capacity, however fast the source."""
    subject, probe = subscribed("block", capacity=3)
    sent = itertools.count()
    last = 0

    def flood() -> None:
        nonlocal last
        for _ in range(1000):
            last = next(sent)
            subject.on_next(last)
        subject.on_completed()

    thread = on_a_thread(flood)
    for n in range(1, 30):
        probe.request(n)
        probe.wait_for_items(probe.requested)
        # What was emitted, what waits, and the one that its thread is held up with.
        assert last <= probe.requested + 3
    probe.request(UNBOUNDED)
    probe.wait_for_end()
    assert joined(thread)
    assert probe.items == list(range(1000))
    probe.check()


@pytest.mark.parametrize("end", ["cancel", "invalid request"])
def test_end_lets_a_thread_go_that_is_held_up(end: str) -> None:
    subject, probe = subscribed("block", capacity=1)
    sending = threading.Event()

    def send_two() -> None:
        subject.on_next(0)
        sending.set()
        subject.on_next(1)

    thread = on_a_thread(send_two)
    assert sending.wait(PATIENCE_S)
    if end == "cancel":
        probe.cancel()
    else:
        probe.subscription.request(0)
    assert joined(thread)
    assert probe.items == []


@pytest.mark.parametrize("end", ["on_error", "on_completed"])
def test_end_of_the_source_lets_threads_go_that_are_held_up(end: str) -> None:
    """It takes a source that breaks RxPY's contract: it ends on one thread while it sends on another."""
    send_item: list[Callable[[int], None]] = []

    def subscribe(observer: Any, _: Any) -> Any:
        send_item.append(observer.on_next)
        ends.append(getattr(observer, end))
        return Disposable()

    ends: list[Callable[..., None]] = []
    probe = Probe()
    from_observable(Observable(subscribe), capacity=1).subscribe(probe)
    send_item[0](0)
    thread = on_a_thread(lambda: send_item[0](1))
    ends[0](*[SourceError()] * (end == "on_error"))
    assert joined(thread)
    probe.request(5)
    assert (probe.items, probe.ended) == ([0], True)


def test_worker_is_never_held_up() -> None:
    subject, probe = subscribed("block", capacity=2)
    forbid_waiting(threading.get_ident(), "a worker")
    try:
        send(subject, 3)
    finally:
        allow_waiting(threading.get_ident())
    probe.request(UNBOUNDED)
    assert probe.items == [0, 1]
    assert isinstance(probe.errors[0], MissingBackpressureError)
    assert "can't hold up the thread" in str(probe.errors[0])


def test_thread_with_a_running_loop_is_never_held_up() -> None:
    async def main() -> Probe:
        subject, probe = subscribed("block", capacity=2)
        send(subject, 3)
        probe.request(UNBOUNDED)
        return probe

    probe = asyncio.run(main())
    assert probe.items == [0, 1]
    assert [type(error) for error in probe.errors] == [MissingBackpressureError]


def test_thread_that_is_emitting_is_never_held_up() -> None:
    """It would wait for itself: what it waits for is asked for when `on_next` returns."""
    subject, probe = subscribed("block", capacity=2, demand=1)
    probe.on_item = lambda item: send(subject, 3, start=1) if item == 0 else None
    subject.on_next(0)
    probe.request(UNBOUNDED)
    assert probe.items == [0, 1, 2]
    assert [type(error) for error in probe.errors] == [MissingBackpressureError]


# Ends and errors.


def test_error_of_the_source_comes_after_what_waits() -> None:
    error = SourceError()
    subject, probe = subscribed("buffer")
    send(subject, 2)
    subject.on_error(error)
    probe.request(1)
    assert (probe.items, probe.errors) == ([0], [])
    probe.request(1)
    assert (probe.items, probe.errors) == ([0, 1], [error])


def test_error_that_is_no_exception_is_wrapped() -> None:
    subject, probe = subscribed("buffer")
    subject.on_error("a text")  # type: ignore[arg-type]
    assert [type(error) for error in probe.errors] == [RxwowError]


def test_subscribe_that_raises_is_the_error() -> None:
    error = SourceError()

    class Raising(Observable[int]):
        def subscribe(self, *_: Any, **__: Any) -> Any:
            raise error

    probe = Probe()
    from_observable(Raising()).subscribe(probe)
    assert probe.errors == [error]


def test_interrupt_in_subscribe_goes_on_and_cancels() -> None:
    def subscribe(_: Any, __: Any) -> Any:
        raise KeyboardInterrupt

    probe = Probe()
    with pytest.raises(KeyboardInterrupt):
        from_observable(Observable(subscribe)).subscribe(probe)
    probe.request(1)
    assert not probe.ended


@pytest.mark.parametrize("end", ["cancel", "error", "completion", "invalid request"])
def test_source_is_disposed_once_at_every_end(end: str) -> None:
    disposed: list[str] = []
    observers: list[Any] = []

    def subscribe(observer: Any, _: Any) -> Any:
        observers.append(observer)
        return Disposable(lambda: disposed.append(end))

    probe = Probe(1)
    from_observable(Observable(subscribe)).subscribe(probe)
    if end == "cancel":
        probe.cancel()
    elif end == "error":
        observers[0].on_error(SourceError())
    elif end == "completion":
        observers[0].on_completed()
    else:
        probe.subscription.request(0)
    assert disposed == [end]


def test_dispose_that_raises_is_logged(log: Log) -> None:
    def dispose() -> None:
        raise SourceError

    probe = Probe()
    from_observable(Observable(lambda _, __: Disposable(dispose))).subscribe(probe)
    probe.cancel()
    assert log.levels == ["ERROR"]


def test_cancel_inside_on_subscribe_subscribes_to_nothing() -> None:
    class Cancelling(Probe):
        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            self.cancel()

    subscriptions: list[str] = []

    def subscribe(_: Any, __: Any) -> Any:
        subscriptions.append("subscribed")
        return Disposable()

    from_observable(Observable(subscribe)).subscribe(Cancelling())
    assert subscriptions == []


# Cancel of a source that sends from inside subscribe.


def endless(observer: Any, _: Any) -> Any:
    for number in itertools.count():
        observer.on_next(number)


@pytest.mark.parametrize(
    "source",
    [reactivex.create(endless), reactivex.create(endless).pipe(operators.map(lambda n: n)), reactivex.repeat_value(1)],
    ids=["in subscribe", "in subscribe, with an operator", "in the trampoline"],
)
@pytest.mark.parametrize("from_where", ["on_next", "another thread"])
def test_cancel_stops_a_source_that_never_returns(source: Observable[int], from_where: str) -> None:
    """F51: within one item."""
    probe = Probe(UNBOUNDED)
    due, cancelled = threading.Event(), threading.Event()

    def on_item(_: int) -> None:
        if len(probe.items) == 5:
            if from_where == "on_next":
                probe.cancel()
            else:
                due.set()
                assert cancelled.wait(PATIENCE_S)

    def cancel() -> None:
        assert due.wait(PATIENCE_S)
        probe.cancel()
        cancelled.set()

    probe.on_item = on_item
    thread = on_a_thread(cancel) if from_where == "another thread" else None
    from_observable(source).subscribe(probe)
    assert thread is None or joined(thread)
    assert len(probe.items) == 5
    assert not probe.ended


def test_cancel_in_the_trampoline_is_a_dispose_and_no_exception() -> None:
    """RxPY's own way is taken where there is one; its sources and operators need not expect an exception."""
    seen: list[Exception] = []
    stopped: list[str] = []

    def subscribe(observer: Any, _: Any) -> Any:
        def send(*_: Any) -> None:
            while not stopped and not seen:
                try:
                    observer.on_next(0)
                except Exception as error:  # noqa: BLE001 - whatever comes is wrong
                    seen.append(error)

        CurrentThreadScheduler.singleton().schedule(send)
        return Disposable(lambda: stopped.append("disposed"))

    probe = Probe(UNBOUNDED, lambda _: probe.cancel())
    from_observable(Observable(subscribe)).subscribe(probe)
    assert (probe.items, seen, stopped) == ([0], [], ["disposed"])


def test_cancel_disposes_the_source_while_an_item_is_taken_elsewhere() -> None:
    """§3.5: on the thread that cancels, and not when `on_next` has come back."""
    disposed, inside = threading.Event(), threading.Event()
    observers: list[Any] = []

    def subscribe(observer: Any, _: Any) -> Any:
        observers.append(observer)
        return Disposable(disposed.set)

    def on_item(_: Any) -> None:
        inside.set()
        assert disposed.wait(PATIENCE_S)

    probe = Probe(UNBOUNDED, on_item)
    from_observable(Observable(subscribe)).subscribe(probe)
    thread = on_a_thread(lambda: observers[0].on_next(0))
    assert inside.wait(PATIENCE_S)
    probe.cancel()
    assert disposed.is_set()
    assert joined(thread)


# Sources that break the contract.


def test_sources_that_send_at_the_same_time_are_put_in_order() -> None:
    """F96: nothing lost, nothing twice, one signal at a time, the order of each sender kept."""
    subject, probe = subscribed("block", capacity=16, demand=UNBOUNDED)
    start = threading.Barrier(8)

    def flood(sender: int) -> None:
        start.wait(PATIENCE_S)
        for number in range(500):
            subject.on_next((sender, number))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [on_a_thread(lambda sender=sender: flood(sender)) for sender in range(8)]  # type: ignore[misc]
        assert all(joined(thread) for thread in threads)
    finally:
        sys.setswitchinterval(interval)
    assert len(probe.items) == 4000
    for sender in range(8):
        assert [number for of, number in probe.items if of == sender] == list(range(500))
    probe.check()


def test_items_sent_from_inside_on_next_come_after_it() -> None:
    """F96."""
    subject, probe = subscribed("buffer", capacity=10, demand=UNBOUNDED)
    probe.on_item = lambda item: subject.on_next(item + 1) if item < 5 else None
    subject.on_next(0)
    assert probe.items == [0, 1, 2, 3, 4, 5]
    probe.check()


def test_items_after_the_end_are_passed_over() -> None:
    observers: list[Any] = []

    class Raw(Observable[int]):
        def subscribe(self, on_next: Any = None, on_error: Any = None, on_completed: Any = None, **_: Any) -> Any:
            observers.append((on_next, on_error, on_completed))
            return Disposable()

    probe = Probe(UNBOUNDED)
    from_observable(Raw()).subscribe(probe)
    on_next, on_error, on_completed = observers[0]
    on_next(0)
    on_completed()
    on_next(1)
    on_error(SourceError())
    on_completed()
    assert (probe.items, probe.errors, probe.completions) == ([0], [], 1)
    probe.check()


# How it is subscribed.


def test_subscribe_time_scheduler_reaches_the_source() -> None:
    schedulers: list[Any] = []
    scheduler = NewThreadScheduler()

    def subscribe(observer: Any, given: Any) -> Any:
        schedulers.append(given)
        return Disposable()

    flowable = from_observable(Observable(subscribe))
    flowable.subscribe(Probe(), scheduler=scheduler)
    flowable.subscribe(print, scheduler=scheduler)
    assert schedulers == [scheduler, scheduler]


def test_rxpy_subscription_of_more_than_the_capacity_does_not_wait_for_itself() -> None:
    """The demand of an observer is there before the source sends, though its thread is the one that sends."""

    def subscribe(observer: Any, _: Any) -> Any:
        for number in range(1000):
            observer.on_next(number)

    for source in (reactivex.range(1000), reactivex.create(subscribe)):
        items: list[int] = []
        from_observable(source).subscribe(items.append)
        assert items == list(range(1000))


def test_run_inside_a_trampoline_does_not_wait_for_itself() -> None:
    results: list[int] = []
    reactivex.of(1).subscribe(lambda _: results.append(from_observable(reactivex.range(1000)).run()))
    assert results == [999]


def test_run_may_hold_up_a_thread_whose_loop_stands_still() -> None:
    """As in a notebook: the loop of the thread waits in `run()` anyway, and the demand comes from elsewhere."""

    class Asking(Probe):
        """Asks for the rest from another thread."""

        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            on_a_thread(self.ask)

        def ask(self) -> None:
            for _ in range(1000):
                self.request(1)

    probe = Asking()

    def publish(subscriber: Any, scheduler: Any) -> Any:
        from_observable(reactivex.range(1000), capacity=2).subscribe(probe)
        return Flowable.from_iterable([1])._publish(subscriber, scheduler)

    async def main() -> object:
        return Flowable(publish).run()

    assert asyncio.run(main()) == 1
    probe.wait_for_items(1000)
    assert probe.errors == []


def test_flowable_is_returned_as_it_is() -> None:
    flowable = Flowable.from_iterable([1])
    assert from_observable(flowable) is flowable
    assert Flowable.from_observable(flowable, on_overflow="error") is flowable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_overflow": "wait"}, "on_overflow must be one of 'block', .* not 'wait'"),
        ({"capacity": 0}, "capacity must be a whole number of at least 1, not 0"),
        ({"capacity": True}, "capacity must be"),
        ({"capacity": 1.5}, "capacity must be"),
    ],
)
@pytest.mark.parametrize("observable", [reactivex.empty(), Flowable.empty()], ids=["plain", "Flowable"])
def test_wrong_options_are_refused(observable: Any, arguments: Any, message: str) -> None:
    """F73: zero is refused, not taken for the default; F107: options are checked even where they are not needed."""
    with pytest.raises(InvalidArgumentError, match=message):
        from_observable(observable, **arguments)


def test_what_is_no_observable_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"observable must be an Observable, not \[1\]"):
        from_observable([1])  # type: ignore[arg-type]


def test_what_waits_is_handed_on_in_one_batch() -> None:
    subject: Subject[int] = Subject()
    probe = BatchProbe()
    from_observable(subject, on_overflow="buffer", capacity=10).subscribe(probe)
    send(subject, 10)
    probe.request(7)
    probe.request(7)
    assert probe.batches == [7, 3]
