import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, Subject

from rxwow.errors import InvalidArgumentError, InvalidRequestError, MissingBackpressureError
from rxwow.streams.backpressure import (
    on_backpressure_buffer,
    on_backpressure_drop,
    on_backpressure_error,
    on_backpressure_latest,
)
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, Subscription
from rxwow.testing import ControlledPlatform, explore
from tests.streams.probe import BatchProbe, Log, Probe
from tests.streams.sources import SourceError
from tests.streams.test_boundary import Manual
from tests.streams.test_schedules import Controlled, each, join

Operator = Callable[[Observable[Any]], Flowable[Any]]

OPERATORS: dict[str, tuple[Callable[[], Operator], int, str]] = {
    "buffer": (lambda: on_backpressure_buffer(3), 3, "error"),
    "buffer, oldest": (lambda: on_backpressure_buffer(3, on_overflow="drop_oldest"), 3, "oldest"),
    "buffer, latest": (lambda: on_backpressure_buffer(3, on_overflow="drop_latest"), 3, "latest"),
    "drop": (on_backpressure_drop, 0, "latest"),
    "latest": (on_backpressure_latest, 1, "oldest"),
    "error": (on_backpressure_error, 0, "error"),
}

every_operator = pytest.mark.parametrize("name", OPERATORS)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.integers(1, 4)),
        st.tuples(st.just("send"), st.integers(1, 6)),
        st.tuples(st.just("batch"), st.integers(1, 6)),
    ),
    max_size=20,
)


class Model:
    """What the operators promise, in plain words."""

    def __init__(self, capacity: int, on_overflow: str) -> None:
        self.capacity = capacity
        self.on_overflow = on_overflow
        self.demand = 0
        self.waiting: deque[int] = deque()
        self.emitted: list[int] = []
        self.dropped: list[int] = []
        self.failed = False

    def request(self, n: int) -> None:
        self.demand += n
        while self.waiting and self.demand:
            self.demand -= 1
            self.emitted.append(self.waiting.popleft())

    def send(self, item: int) -> None:
        if self.failed:
            return
        if self.demand:
            self.demand -= 1
            self.emitted.append(item)
        elif len(self.waiting) < self.capacity:
            self.waiting.append(item)
        elif self.on_overflow == "oldest":
            self.waiting.append(item)
            self.dropped.append(self.waiting.popleft())
        elif self.on_overflow == "latest":
            self.dropped.append(item)
        else:
            self.failed = True


@every_operator
@pytest.mark.parametrize("probe_type", [Probe, BatchProbe], ids=["singly", "in batches"])
@pytest.mark.parametrize("plain", [False, True], ids=["flowable", "observable"])
@given(steps=steps, fails=st.booleans())
def test_as_the_model_says(
    name: str, probe_type: type[Probe], plain: bool, steps: list[tuple[str, int]], fails: bool
) -> None:
    make, capacity, on_overflow = OPERATORS[name]
    model = Model(capacity, on_overflow)
    manual, subject = Manual(), Subject[int]()
    probe = probe_type()
    source: Observable[Any] = subject if plain else manual.flowable
    make()(source).subscribe(probe)
    assert manual.requests == []
    sent = 0
    if not plain:
        # It sends nothing before it is asked.
        steps = [("request", 1), *steps]
    for what, n in steps:
        if what == "request":
            model.request(n)
            probe.request(n)
        else:
            items = range(sent, sent + n)
            sent += n
            if what == "batch" and not plain:
                manual.send_batch(items)
            else:
                for item in items:
                    subject.on_next(item) if plain else manual.send(item)
            for item in items:
                model.send(item)
        assert probe.items == model.emitted
        assert bool(probe.errors) == (model.failed and not model.waiting)
        assert getattr(probe.subscription, "dropped", None) == len(model.dropped)
    if not plain:
        assert manual.requests == [UNBOUNDED]
        assert manual.cancels == (1 if model.failed else 0)
    error = SourceError()
    target: Any = subject if plain else manual.subscriber
    target.on_error(error) if fails else target.on_completed()
    model.request(UNBOUNDED)
    probe.request(UNBOUNDED)
    assert probe.items == model.emitted
    if model.failed:
        assert [type(each) for each in probe.errors] == [MissingBackpressureError]
    else:
        assert probe.errors == ([error] if fails else [])
    assert probe.completions == (0 if fails or model.failed else 1)
    probe.check()


@every_operator
def test_nothing_is_lost_or_kept_from_a_subscriber_that_asks_for_one_at_a_time(name: str) -> None:
    """In a batch each item finds the demand that the one before it has brought."""
    source, probe = Manual(), Probe(1, lambda _: probe.request(1))
    source.flowable.pipe(OPERATORS[name][0]()).subscribe(probe)
    source.send_batch(range(50))
    source.complete()
    assert (probe.items, probe.completions) == (list(range(50)), 1)
    probe.check()


@every_operator
def test_batches_stay_batches_when_all_is_asked_for(name: str) -> None:
    source, probe = Manual(), BatchProbe(UNBOUNDED)
    source.flowable.pipe(OPERATORS[name][0]()).subscribe(probe)
    source.send_batch(range(50))
    assert probe.batches == [50]


@every_operator
def test_plain_observable_never_waits(name: str) -> None:
    """It sends all from the thread that asks for nothing, on which "block" would wait for ever."""
    subject, probe = Subject[int](), Probe()
    OPERATORS[name][0]()(subject).subscribe(probe)
    for number in range(1000):
        subject.on_next(number)
    subject.on_completed()
    probe.request(UNBOUNDED)
    expected: dict[str, list[int]] = {
        "buffer": [0, 1, 2],
        "buffer, oldest": [997, 998, 999],
        "buffer, latest": [0, 1, 2],
        "drop": [],
        "latest": [999],
        "error": [],
    }
    assert probe.items == expected[name]
    assert probe.ended


@every_operator
def test_cancel_lets_go(name: str) -> None:
    source, probe = Manual(), Probe(1)
    source.flowable.pipe(OPERATORS[name][0]()).subscribe(probe)
    source.send(1)
    probe.cancel()
    probe.cancel()
    source.send(2, 3)
    source.complete()
    probe.request(5)
    assert (probe.items, probe.ended, source.cancels) == ([1], False, 1)


@every_operator
def test_cancel_before_the_first_request_asks_for_nothing(name: str) -> None:
    source, probe = Manual(), Probe()
    source.flowable.pipe(OPERATORS[name][0]()).subscribe(probe)
    probe.cancel()
    probe.request(1)
    assert (source.requests, source.cancels) == ([], 1)


@every_operator
def test_cancel_inside_on_subscribe_means_that_nobody_subscribes(name: str) -> None:
    class Cancelling(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.cancel()

    source = Manual()
    source.flowable.pipe(OPERATORS[name][0]()).subscribe(Cancelling())
    assert source.subscriptions == 0


@every_operator
def test_invalid_request_ends_the_stream(name: str) -> None:
    source, probe = Manual(), Probe()
    source.flowable.pipe(OPERATORS[name][0]()).subscribe(probe)
    probe.subscription.request(0)
    assert [type(error) for error in probe.errors] == [InvalidRequestError]
    assert (source.requests, source.cancels) == ([], 1)


@every_operator
def test_source_that_raises_in_subscribe_is_an_error(name: str) -> None:
    error = SourceError()

    def publish(*_: Any) -> Subscription:
        raise error

    probe = Probe()
    source: Flowable[int] = Flowable(publish)
    source.pipe(OPERATORS[name][0]()).subscribe(probe)
    assert probe.errors == [error]


@every_operator
def test_endless_source_ends_with_its_subscriber(name: str) -> None:
    """Asked for everything on this thread, it comes back because it is cancelled."""

    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    probe = Probe(0, lambda item: probe.cancel() if item == 9 else None)
    Flowable.from_iterable(endless).pipe(OPERATORS[name][0]()).subscribe(probe)
    probe.request(100)
    assert probe.items == list(range(10))


# What is dropped.


def test_what_was_asked_for_is_not_dropped_while_it_waits_to_be_emitted() -> None:
    """Sent from inside on_next: 2 and 3 were asked for, 4 is dropped for 5."""
    source, probe = Manual(), Probe(3, lambda item: source.send(2, 3, 4, 5) if item == 1 else None)
    source.flowable.pipe(on_backpressure_latest()).subscribe(probe)
    source.send(1)
    assert probe.items == [1, 2, 3]
    probe.request(1)
    assert probe.items == [1, 2, 3, 5]


def test_dropped_items_are_handed_over_on_the_thread_that_sends(log: Log) -> None:
    dropped: list[tuple[int, int]] = []

    def on_dropped(item: int) -> None:
        dropped.append((item, threading.get_ident()))

    source, probe = Manual(), Probe(1)
    source.flowable.pipe(on_backpressure_drop(on_dropped)).subscribe(probe)
    thread = threading.Thread(target=source.send, args=(1, 2, 3))
    thread.start()
    ident = thread.ident
    thread.join()
    assert (probe.items, dropped) == ([1], [(2, ident), (3, ident)])
    assert log.messages == []


def test_on_dropped_that_raises_ends_the_stream() -> None:
    error = SourceError()

    def fail(_: int) -> None:
        raise error

    source, probe = Manual(), Probe(1)
    source.flowable.pipe(on_backpressure_drop(fail)).subscribe(probe)
    source.send(1, 2, 3)
    assert (probe.items, probe.errors, source.cancels) == ([1], [error], 1)


def test_keyboard_interrupt_in_on_dropped_goes_on() -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    source, probe = Manual(), Probe(1)
    source.flowable.pipe(on_backpressure_drop(interrupt)).subscribe(probe)
    source.send(1)
    with pytest.raises(KeyboardInterrupt):
        source.send(2)
    assert (probe.items, probe.errors, source.cancels) == ([1], [], 1)


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        (on_backpressure_drop(), "on_backpressure_drop()"),
        (on_backpressure_latest(), "on_backpressure_latest()"),
        (
            on_backpressure_buffer(1, on_overflow="drop_oldest"),
            "on_backpressure_buffer(1, on_overflow='drop_oldest')",
        ),
    ],
)
def test_first_dropped_item_is_logged(operator: Operator, call: str, log: Log) -> None:
    source, probe = Manual(), Probe(1)
    source.flowable.pipe(operator).subscribe(probe)
    source.send(1, 2, 3, 4)
    assert log.messages == [f"{call}: the source sends more than is asked for; items are dropped"]


def test_errors_name_the_operator_and_what_to_do() -> None:
    def error_of(operator: Operator) -> str:
        source, probe = Manual(), Probe()
        source.flowable.pipe(operator).subscribe(probe)
        source.send(1, 2)
        probe.request(1)
        (error,) = probe.errors
        assert source.cancels == 1
        return str(error)

    assert error_of(on_backpressure_buffer(1)).endswith(
        "; ask for more, or use a bigger capacity in on_backpressure_buffer(1, on_overflow='error'), or "
        "on_overflow='drop_oldest' or 'drop_latest'"
    )
    assert error_of(on_backpressure_error()).endswith(
        "; ask for more before it is sent, or replace on_backpressure_error() by on_backpressure_buffer(), "
        "on_backpressure_latest() or on_backpressure_drop()"
    )


def test_buffer_holds_256_items_by_default_and_all_when_told() -> None:
    for operator, kept in ((on_backpressure_buffer(), 256), (on_backpressure_buffer(UNBOUNDED), 1000)):
        subject, probe = Subject[int](), Probe()
        operator(subject).subscribe(probe)
        for number in range(1000):
            subject.on_next(number)
        probe.request(UNBOUNDED)
        assert probe.items == list(range(kept))


@pytest.mark.parametrize("value", [0, -1, True, None, 1.5], ids=repr)
def test_bad_capacity_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="capacity must be a whole number of at least 1"):
        on_backpressure_buffer(value)


@pytest.mark.parametrize("value", ["block", "buffer", "", None, [], 3], ids=repr)
def test_bad_overflow_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        on_backpressure_buffer(1, on_overflow=value)
    assert str(raised.value) == f"on_overflow must be one of 'error', 'drop_oldest', 'drop_latest', not {value!r}"


def test_bad_callback_and_source_are_refused() -> None:
    callback: Any = 5
    source: Any = [1, 2]
    with pytest.raises(InvalidArgumentError, match="on_dropped must be a function of the dropped item, or None"):
        on_backpressure_drop(callback)
    with pytest.raises(InvalidArgumentError, match="source must be an Observable"):
        on_backpressure_latest()(source)


# Under control.


@pytest.fixture(scope="session")
def seeds(soak: bool) -> Sequence[int]:
    return range(10_000 if soak else 300)


def test_each_item_is_emitted_or_dropped_once(seeds: Sequence[int]) -> None:
    """Even from a source that sends from two threads at a time."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber, subject = Controlled(platform), Subject[int]()
        dropped: list[int] = []
        on_backpressure_drop(dropped.append)(subject).subscribe(subscriber)
        send = subscriber.subscription._accept
        join(platform, each(send, [1, 2, 3]), each(send, [4, 5, 6]), each(subscriber.request, [1, 2]))
        assert sorted([*subscriber.items, *dropped]) == [1, 2, 3, 4, 5, 6]
        assert subscriber.subscription.dropped == len(dropped)

    explore(scenario, seeds)


def test_latest_is_never_lost(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        source, subscriber = Manual(), Controlled(platform)
        source.flowable.pipe(on_backpressure_latest()).subscribe(subscriber)

        def feed() -> None:
            source.send_batch([1, 2])
            source.send(3, 4)
            source.send_batch([5, 6])
            source.complete()

        join(platform, feed, each(subscriber.request, [1, 1, 1]))
        subscriber.request(1)
        subscriber.ended.wait()
        assert subscriber.items == sorted(subscriber.items)
        assert subscriber.items[-1] == 6
        assert subscriber.subscription.dropped == 6 - len(subscriber.items)
        assert subscriber.ends == ["completed"]

    explore(scenario, seeds)


def test_source_is_asked_once_whatever_threads_do(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        source, subscriber = Manual(), Controlled(platform)
        source.flowable.pipe(on_backpressure_drop()).subscribe(subscriber)
        join(platform, each(subscriber.request, [1, 1]), each(subscriber.request, [1, 1]))
        assert source.requests == [UNBOUNDED]

    explore(scenario, seeds)
