import itertools
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import reactivex
from reactivex import operators
from reactivex.observer import Observer
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler, NewThreadScheduler
from reactivex.testing import ReactiveTest, TestScheduler

from rxwow.streams.flowable import Flowable
from tests.streams.probe import PATIENCE_S, Log, Probe, wait_until_ended
from tests.streams.sources import SourceError

on_next, on_completed, on_error = ReactiveTest.on_next, ReactiveTest.on_completed, ReactiveTest.on_error


def numbers(log: list[str]) -> Iterator[int]:
    """Endless, and says when it is closed."""
    try:
        yield from itertools.count()
    finally:
        log.append("closed")


def test_callbacks_get_everything() -> None:
    got: list[Any] = []
    Flowable.from_iterable([1, 2]).subscribe(got.append, got.append, lambda: got.append("completed"))
    assert got == [1, 2, "completed"]


def test_observer_gets_everything() -> None:
    got: list[Any] = []
    Flowable.from_iterable([1, 2]).subscribe(Observer(got.append, got.append, lambda: got.append("completed")))
    assert got == [1, 2, "completed"]


def test_subscriber_gets_what_it_asks_for_and_the_handle_cancels() -> None:
    closed: list[str] = []
    probe = Probe(2)
    handle = Flowable.from_iterable(lambda: numbers(closed)).subscribe(probe)
    assert probe.items == [0, 1]
    handle.dispose()
    handle.dispose()
    probe.request(1)
    assert (probe.items, closed) == ([0, 1], ["closed"])


@pytest.mark.parametrize("scheduler", [None, CurrentThreadScheduler.singleton()], ids=["none", "current thread"])
def test_rxpy_operator_stops_an_endless_source_on_the_same_thread(scheduler: Any) -> None:
    """F51: the operator disposes a subscription that `subscribe` has not returned yet."""
    closed: list[str] = []
    got: list[Any] = []
    plain = reactivex.Observable.pipe(Flowable.from_iterable(lambda: numbers(closed)), operators.take(3))
    plain.subscribe(got.append, on_completed=lambda: got.append("completed"), scheduler=scheduler)
    assert (got, closed) == ([0, 1, 2, "completed"], ["closed"])


def test_items_come_in_the_virtual_time_of_the_subscription() -> None:
    scheduler = TestScheduler()
    results = scheduler.start(lambda: Flowable.from_iterable([1, 2]))
    assert results.messages == [on_next(200, 1), on_next(200, 2), on_completed(200)]


def test_subscription_disposed_in_virtual_time_before_it_emits() -> None:
    scheduler = TestScheduler()
    pulled: list[int] = []
    got: list[Any] = []
    source = Flowable.from_iterable(map(pulled.append, [1]))
    source.subscribe(got.append, scheduler=scheduler).dispose()
    scheduler.start()
    assert (got, pulled) == ([], [])


def test_timed_operators_use_the_subscribe_time_scheduler() -> None:
    scheduler = TestScheduler()
    results = scheduler.start(lambda: Flowable.from_iterable([1, 2]).pipe(operators.delay(10)))
    assert [message.time for message in results.messages] == [210, 210, 210]


def test_error_in_virtual_time() -> None:
    error = SourceError()
    scheduler = TestScheduler()
    results = scheduler.start(lambda: Flowable.throw(error))
    assert results.messages == [on_error(200, error)]


def test_rxpy_subscription_emits_on_its_scheduler() -> None:
    threads: list[int] = []
    ended = threading.Event()
    Flowable.from_iterable([1, 2]).subscribe(
        lambda _: threads.append(threading.get_ident()), on_completed=ended.set, scheduler=NewThreadScheduler()
    )
    assert ended.wait(PATIENCE_S)
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_dispose_of_an_rxpy_subscription_closes_the_source() -> None:
    closed: list[str] = []
    came, goes_on = threading.Event(), threading.Event()

    def on_item(_: int) -> None:
        came.set()
        assert goes_on.wait(PATIENCE_S)

    handle = Flowable.from_iterable(lambda: numbers(closed), blocking=True).subscribe(on_item)
    assert came.wait(PATIENCE_S)
    handle.dispose()
    goes_on.set()
    wait_until_ended(prefix="rxwow-source")
    assert closed == ["closed"]


@pytest.mark.parametrize("scheduler", [None, ImmediateScheduler()], ids=["none", "immediate"])
def test_observer_that_raises_is_logged_once_and_gets_no_error(scheduler: Any, log: Log) -> None:
    """F90: one route, with and without an error callback; the error callback is for the source's errors."""
    closed: list[str] = []
    errors: list[Exception] = []

    def on_item(_: int) -> None:
        raise SourceError

    for on_error_callback in (errors.append, None):
        Flowable.from_iterable(lambda: numbers(closed)).subscribe(on_item, on_error_callback, scheduler=scheduler)
    assert (errors, closed) == ([], ["closed"] * 2)
    assert log.levels == ["ERROR"] * 2


def test_error_without_a_callback_is_logged_and_not_taken_for_completion(log: Log) -> None:
    """F91."""
    completed: list[bool] = []
    Flowable.throw(SourceError("lost")).subscribe(print, on_completed=lambda: completed.append(True))
    assert completed == []
    (record,) = log.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "lost"


def test_first_use_on_many_threads_at_once() -> None:
    """F97: the trampoline belongs to each thread."""
    start = threading.Barrier(16)
    got: list[list[int]] = [[] for _ in range(16)]

    def subscribe(number: int) -> None:
        start.wait(PATIENCE_S)
        Flowable.from_iterable(range(100)).subscribe(got[number].append)

    threads = [threading.Thread(target=subscribe, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert got == [list(range(100))] * 16


def test_source_subscribed_while_another_is_subscribed_is_emitted_when_that_is_done() -> None:
    """What a publisher subscribes on behalf of an RxPY observer may be disposed by it too."""
    order: list[str] = []

    def publish(subscriber: Any, scheduler: Any) -> Any:
        subscription = Flowable.from_iterable([1])._publish(subscriber, scheduler)
        order.append("subscribed")
        return subscription

    Flowable[int](publish).subscribe(lambda _: order.append("emitted"))
    assert order == ["subscribed", "emitted"]


def test_run_while_another_is_subscribed_does_not_wait_for_itself() -> None:
    """The inner `run()` stands before the trampoline that its source would be put off to."""
    got: list[Any] = []

    def publish(subscriber: Any, scheduler: Any) -> Any:
        last = Flowable.from_iterable([1, 2]).run()
        return Flowable.from_iterable([last])._publish(subscriber, scheduler)

    Flowable[int](publish).subscribe(got.append)
    assert got == [2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Flowable.from_iterable([1]),
        lambda: Flowable.from_async_iterable(lambda: None),  # type: ignore[arg-type, return-value]
        lambda: Flowable.from_observable(reactivex.of(1)),
        Flowable.empty,
        Flowable.never,
        lambda: Flowable.throw(SourceError()),
    ],
    ids=["iterable", "async iterable", "observable", "empty", "never", "throw"],
)
def test_static_sources_make_flowables(make: Any) -> None:
    threads = set(threading.enumerate())
    assert isinstance(make(), Flowable)
    assert set(threading.enumerate()) <= threads
