"""What the probes write down, what they notice, and how they wait."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError, InvalidRequestError, UsageError
from rxwow.platform import PRODUCTION
from rxwow.streams.protocols import UNBOUNDED, Subscription
from rxwow.testing import ControlledPlatform, find_failure, run
from rxwow.testing.news import News
from rxwow.testing.probe import BatchSubscriberProbe, SubscriberProbe
from rxwow.testing.source_probe import SourceProbe

Kind = type[SubscriberProbe[Any]]

each_kind = pytest.mark.parametrize("kind", [SubscriberProbe, BatchSubscriberProbe])


class Asked(Subscription):
    """A subscription that emits nothing, for probes whose signals the test gives."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def request(self, n: int) -> None:
        self.asked.append(n)

    def cancel(self) -> None:
        self.asked.append("cancel")


def subscribed(demand: int = 0, **arguments: Any) -> BatchSubscriberProbe[Any]:
    probe: BatchSubscriberProbe[Any] = BatchSubscriberProbe(demand, **arguments)
    probe.on_subscribe(Asked())
    return probe


def together(platform: Any, *actions: Callable[[], object]) -> None:
    threads = [platform.thread(action, f"t{number}") for number, action in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# SubscriberProbe: what it writes down.


@each_kind
@given(length=st.integers(0, 40), demand=st.integers(0, 5), requests=st.lists(st.integers(1, 9), max_size=9))
def test_items_are_those_that_were_requested(kind: Kind, length: int, demand: int, requests: list[int]) -> None:
    probe = kind(demand)
    Flowable.from_iterable(range(length)).subscribe(probe)
    for n in requests:
        probe.request(n)
    requested = demand + sum(requests)
    assert probe.items == list(range(min(requested, length)))
    assert probe.requested == requested
    assert probe.ended == (requested >= length)
    assert (probe.errors, probe.breaches) == ([], [])
    probe.check()


def test_signals_tell_what_came_and_what_was_asked_in_order() -> None:
    probe: SubscriberProbe[str] = SubscriberProbe(1)
    Flowable.from_iterable("abc").subscribe(probe)
    probe.request(-1)
    probe.cancel()
    assert [(signal.number, signal.name, signal.value) for signal in probe.signals] == [
        (0, "on_subscribe", probe.subscription),
        (1, "request", 1),
        (2, "on_next", "a"),
        (3, "request", -1),
        (4, "on_error", probe.errors[0]),
        (5, "cancel", None),
    ]
    assert isinstance(probe.errors[0], InvalidRequestError)
    assert (probe.requested, probe.cancelled, probe.completions) == (1, True, 0)


def test_signals_tell_the_thread_and_the_time() -> None:
    began = PRODUCTION.monotonic()
    probe: SubscriberProbe[int] = SubscriberProbe()
    Flowable.from_iterable(range(2), blocking=True).subscribe(probe)
    probe.request(2)
    probe.wait_for_end()
    mine = [signal.name for signal in probe.signals if signal.thread == threading.get_ident()]
    assert mine == ["on_subscribe", "request"]
    times = [began, *(signal.time for signal in probe.signals), PRODUCTION.monotonic()]
    assert times == sorted(times)


def test_time_is_virtual_on_a_controlled_platform() -> None:
    def scenario(platform: ControlledPlatform) -> list[float]:
        probe: SubscriberProbe[int] = SubscriberProbe(1, patience=7200)
        source: SourceProbe[int] = SourceProbe()
        source.subscribe(probe)

        def emit_later() -> None:
            platform.sleep(3600)
            source.emit(1)

        platform.thread(emit_later, "source").start()
        probe.wait_for_items(1)
        return [*(signal.time for signal in probe.signals), platform.monotonic()]

    assert run(scenario) == [0, 0, 3600, 3600]


def test_a_batch_is_one_signal() -> None:
    probe: BatchSubscriberProbe[int] = BatchSubscriberProbe()
    Flowable.from_iterable(range(3)).subscribe(probe)
    probe.request(1)
    probe.request(5)
    assert probe.batches == [1, 2]
    assert [signal.value for signal in probe.signals if signal.name == "on_next_batch"] == [[0], [1, 2]]


def test_what_on_item_raises_goes_to_the_source() -> None:
    def fail(item: int) -> None:
        raise ValueError(item)

    probe = subscribed(2, on_item=fail)
    with pytest.raises(ValueError, match="7"):
        probe.on_next(7)
    probe.on_item = None
    probe.on_next(8)
    assert (probe.items, probe.breaches) == ([7, 8], [])


def test_a_source_that_needs_a_loop_gets_the_one_that_is_offered() -> None:
    async def numbers() -> AsyncIterator[Any]:
        yield asyncio.get_running_loop()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        probe: SubscriberProbe[Any] = SubscriberProbe(5, loop=loop)
        Flowable.from_async_iterable(numbers).subscribe(probe)
        probe.wait_for_end()
        assert probe.items == [loop]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# SubscriberProbe: what it notices.


def give_too_much(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_next(1)
    probe.on_next(2)
    probe.on_next(3)


def give_too_large_a_batch(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_next_batch([1, 2, 3])


def give_an_empty_batch(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_next_batch([])


def give_no_error(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_error("no error")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def complete_twice(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_completed()
    probe.on_completed()


def emit_after_an_error(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_error(ValueError())
    probe.on_next(1)


def subscribe_again(probe: BatchSubscriberProbe[Any]) -> None:
    second = Asked()
    probe.on_subscribe(second)
    assert second.asked == ["cancel"]
    assert probe.subscription is not second


def emit_inside(probe: BatchSubscriberProbe[Any]) -> None:
    probe.on_item = lambda item: probe.on_next(item + 1) if item == 1 else None
    probe.on_next(1)


def emit_beside(probe: BatchSubscriberProbe[Any]) -> None:
    def emit(item: int) -> None:
        if item == 1:
            together(PRODUCTION, lambda: probe.on_next(2))

    probe.on_item = emit
    probe.on_next(1)


@pytest.mark.parametrize(
    ("rule", "misbehave"),
    [
        ("1.1", give_too_much),
        ("1.1", give_too_large_a_batch),
        ("1.1", give_an_empty_batch),
        ("1.3", emit_beside),
        ("1.4", give_no_error),
        ("1.7", complete_twice),
        ("1.7", emit_after_an_error),
        ("2.12", subscribe_again),
        ("3.3", emit_inside),
    ],
)
def test_breach_is_noted(rule: str, misbehave: Callable[[BatchSubscriberProbe[Any]], None]) -> None:
    probe = subscribed(2)
    misbehave(probe)
    assert [breach.rule for breach in probe.breaches] == [rule]
    with pytest.raises(AssertionError, match=f"§{rule}: "):
        probe.check()


@pytest.mark.parametrize("signal", ["on_next", "on_completed", "on_error"])
def test_signal_before_on_subscribe_is_noted(signal: str) -> None:
    probe: SubscriberProbe[Any] = SubscriberProbe()
    probe.requested = 1
    getattr(probe, signal)(*() if signal == "on_completed" else (ValueError(),))
    assert [breach.rule for breach in probe.breaches] == ["1.9"]
    assert not probe.subscribed
    with pytest.raises(AssertionError, match="on_subscribe was not called"):
        probe.request(1)


def test_items_inside_on_subscribe_are_no_breach() -> None:
    """§3.2 with §3.10: a request inside on_subscribe may be answered before it returns."""

    class Answering(Asked):
        def request(self, n: int) -> None:
            probe.on_next(n)

    probe: SubscriberProbe[int] = SubscriberProbe(1)
    probe.on_subscribe(Answering())
    assert (probe.items, probe.breaches, probe.deepest) == ([1], [], 1)


def test_depth_is_that_of_the_deepest_signal() -> None:
    probe = subscribed(10)
    probe.on_item = lambda item: probe.on_next(item - 1) if item else None
    probe.on_next(3)
    probe.on_item = None
    probe.on_next(0)
    assert probe.deepest == 4


def emit_on_two_threads(platform: ControlledPlatform) -> None:
    probe = subscribed(10)
    together(platform, lambda: probe.on_next(1), lambda: probe.on_next(2))
    probe.check()


def test_signals_that_may_overlap_do_so_under_some_schedule() -> None:
    failure = find_failure(emit_on_two_threads, range(50))
    assert failure is not None
    assert "§1.3" in str(failure.__cause__)


# Waiting.


def test_waiting_in_vain_ends_and_shows_the_signals() -> None:
    probe: SubscriberProbe[int] = SubscriberProbe(1, patience=0.01)
    Flowable.from_iterable(itertools.count(41)).subscribe(probe)
    for wait in (lambda: probe.wait_for_items(2), probe.wait_for_end, lambda: probe.wait_until(lambda: False, 0)):
        with pytest.raises(AssertionError, match=r"(?s)in vain.*on_next\(41\)"):
            wait()


def test_an_end_before_the_items_that_are_waited_for_fails_at_once() -> None:
    probe: SubscriberProbe[int] = SubscriberProbe(9, patience=60)
    Flowable.from_iterable(range(3)).subscribe(probe)
    assert probe.wait_for_items(3) == [0, 1, 2]
    with pytest.raises(AssertionError, match="ended before item 4"):
        probe.wait_for_items(4)


def test_waiting_takes_virtual_time_on_a_controlled_platform() -> None:
    def scenario(platform: ControlledPlatform) -> float:
        with pytest.raises(AssertionError, match="in vain"):
            SubscriberProbe[int](patience=3600).wait_for_end()
        return platform.monotonic()

    assert run(scenario) == 3600


@pytest.mark.seeds(100, soak=5000)
def test_news_are_never_missed(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> float:
        news = News(platform)
        found: list[int] = []

        def find() -> None:
            found.append(1)
            news.tell()

        waits = [lambda: news.wait_until(lambda: len(found) == 2, 3600)] * 2
        together(platform, find, find, *waits)
        return platform.monotonic()

    assert run(scenario, seed) == 0


@pytest.mark.seeds(20)
def test_news_that_change_nothing_leave_the_thread_asleep(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> float:
        news = News(platform)
        platform.thread(news.tell, "telling").start()
        assert not news.wait_until(lambda: False, 3600)
        return platform.monotonic()

    assert run(scenario, seed, step_limit=100) == 3600


# SourceProbe of an iterable.


@each_kind
@given(length=st.integers(0, 40), requests=st.lists(st.integers(1, 9), max_size=12), sized=st.booleans())
def test_source_counts_what_it_was_asked_and_gave(kind: Kind, length: int, requests: list[int], sized: bool) -> None:
    items: Any = range(length) if sized else (number for number in range(length))
    source = SourceProbe(items)
    probe = kind()
    source.subscribe(probe)
    for n in requests:
        probe.request(n)
    given = min(sum(requests), length)
    assert (source.requests, source.requested) == (requests, sum(requests))
    assert (source.taken, source.emitted) == (given, given)
    assert probe.items == list(range(given))
    # What has a length ends with its last item.
    assert probe.completions == (sum(requests) >= length + (not sized))
    assert source.subscriptions == 1 - probe.completions
    probe.check()


def test_source_takes_nothing_more_for_a_subscriber_that_cancels() -> None:
    source = SourceProbe(itertools.count())
    probe: SubscriberProbe[int] = SubscriberProbe(10, on_item=lambda item: probe.cancel() if item == 3 else None)
    source.subscribe(probe)
    assert (source.taken, source.emitted, source.cancels, source.subscriptions) == (4, 4, 1, 0)


def test_source_writes_down_when_it_was_asked() -> None:
    source = SourceProbe(range(5))
    probe: SubscriberProbe[int] = SubscriberProbe(2)
    source.subscribe(probe)
    probe.request(-1)
    probe.cancel()
    assert [(signal.number, signal.name, signal.value) for signal in source.signals] == [
        (0, "subscribe", None),
        (1, "request", 2),
        (2, "request", -1),
        (3, "cancel", None),
    ]
    assert {signal.thread for signal in source.signals} == {threading.get_ident()}
    assert (source.requests, source.requested) == ([2, -1], 2)


class Unopened:
    def __iter__(self) -> Iterator[int]:
        raise ValueError("not today")


class BrokenOff:
    def __iter__(self) -> Iterator[int]:
        yield 1
        raise ValueError("not today")


@each_kind
@pytest.mark.parametrize(("items", "expected"), [(Unopened(), []), (BrokenOff(), [1])])
def test_error_of_the_iterable_is_the_end(kind: Kind, items: Any, expected: list[int]) -> None:
    probe = kind(5)
    SourceProbe(items).subscribe(probe)
    assert probe.items == expected
    assert [str(error) for error in probe.errors] == ["not today"]


def test_source_is_of_something_iterable() -> None:
    with pytest.raises(InvalidArgumentError):
        SourceProbe(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# SourceProbe by hand.


def test_items_by_hand_wait_until_they_are_requested() -> None:
    source: SourceProbe[str] = SourceProbe()
    first: SubscriberProbe[str] = SubscriberProbe(1)
    second: BatchSubscriberProbe[str] = BatchSubscriberProbe()
    source.subscribe(first)
    source.emit("a", "b")
    source.subscribe(second)
    source.emit("c")
    second.request(5)
    assert (first.items, second.items) == (["a"], ["c"])
    source.complete()
    assert (first.completions, second.completions) == (0, 1)
    first.request(2)
    assert (first.items, first.completions) == (["a", "b", "c"], 1)
    assert (source.taken, source.emitted, source.subscriptions) == (3, 4, 0)


@pytest.mark.parametrize("error", [None, ValueError()])
def test_a_source_that_was_ended_ends_those_that_come_later(error: Exception | None) -> None:
    source: SourceProbe[str] = SourceProbe()
    if error is None:
        source.complete()
    else:
        source.fail(error)
    probe: SubscriberProbe[str] = SubscriberProbe()
    source.subscribe(probe)
    assert (probe.errors, probe.completions) == ([error] if error else [], int(error is None))
    for call in (source.complete, lambda: source.emit("a"), lambda: source.fail(ValueError())):
        with pytest.raises(UsageError, match="after the source was ended"):
            call()


def test_a_source_of_an_iterable_is_not_emitted_by_hand() -> None:
    source = SourceProbe("abc")
    for call in (source.complete, lambda: source.emit("a"), lambda: source.fail(ValueError())):
        with pytest.raises(UsageError, match="without an iterable"):
            call()


def test_a_cancelled_subscription_holds_no_items() -> None:
    class Item: ...

    source: SourceProbe[Item] = SourceProbe()
    probe: SubscriberProbe[Item] = SubscriberProbe()
    source.subscribe(probe)
    item = Item()
    gone = weakref.ref(item)
    source.emit(item)
    del item
    assert gone() is not None
    probe.cancel()
    assert gone() is None
    source.emit(Item())
    assert source.subscriptions == 0


@pytest.mark.seeds(20, soak=1000)
def test_waiting_for_what_another_thread_asks(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> float:
        source: SourceProbe[int] = SourceProbe(patience=3600)
        probe: SubscriberProbe[int] = SubscriberProbe()
        source.subscribe(probe)
        platform.thread(lambda: probe.request(3), "asking").start()
        source.wait_for_demand(3)
        # So that the cancel itself is the news, and not what it ends.
        source.complete()
        platform.thread(probe.cancel, "cancelling").start()
        source.wait_for_cancel()
        return platform.monotonic()

    assert run(scenario, seed) == 0


def test_waiting_in_vain_for_a_request_ends_and_shows_what_there_was() -> None:
    source: SourceProbe[int] = SourceProbe(patience=0.01)
    source.subscribe(SubscriberProbe[int](3))
    waits: list[Callable[[], object]] = [
        lambda: source.wait_for_demand(4),
        source.wait_for_cancel,
        lambda: source.wait_until(lambda: source.emitted),
    ]
    for wait in waits:
        with pytest.raises(AssertionError, match=r"in vain; the source was requested \[3\] and cancelled 0 times"):
            wait()


def test_source_shows_how_a_dispatch_asks() -> None:
    source: SourceProbe[int] = SourceProbe()
    probe: SubscriberProbe[str] = SubscriberProbe()
    with KeyedExecutor(workers=1, max_in_flight=16) as executor:
        source.pipe(keyed_dispatch(str, str, executor=executor)).subscribe(probe)
        assert source.requests == []
        probe.request(UNBOUNDED)
        assert source.requests == [16]
        source.emit(*range(8))
        probe.wait_for_items(8)
        source.wait_for_demand(24)
        source.complete()
        probe.wait_for_end()
    assert sorted(probe.items) == sorted(map(str, range(8)))


@pytest.mark.seeds(100, soak=5000)
@pytest.mark.parametrize("cancels", [False, True])
def test_source_counts_rightly_whoever_comes_first(seed: int, cancels: bool) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        source: SourceProbe[int] = SourceProbe()
        probe: SubscriberProbe[int] = SubscriberProbe()
        source.subscribe(probe)

        def emit() -> None:
            for number in range(4):
                source.emit(number)
            source.complete()

        def ask() -> None:
            for n in (1, 2, 3):
                probe.request(n)

        together(platform, emit, ask, *[probe.cancel] * cancels)
        probe.check()
        if not cancels:
            assert (probe.items, probe.completions) == ([0, 1, 2, 3], 1)
        assert source.emitted == len(probe.items)
        assert (source.requested, source.taken, source.cancels, source.subscriptions) == (6, 4, int(cancels), 0)

    run(scenario, seed)
