"""share: RxPY's outputs, at the pace of the slowest."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from rxwow.errors import InvalidRequestError, RxwowError
from rxwow.platform import PRODUCTION
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.streams.sharing import MOST_AHEAD, share
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe
from tests.streams.sources import SourceError
from tests.streams.test_emitter import Queue
from tests.streams.test_schedules import Controlled, each, join


class Hand:
    """A source that sends what a test hands it, and keeps a log of what was asked of it."""

    def __init__(self, platform: Any = PRODUCTION) -> None:
        self.requests: list[int] = []
        self.sent = self.subscriptions = self.cancels = 0
        self._platform = platform
        self.shared: Flowable[Any] = Flowable(self._publish).pipe(share())

    def _publish(self, subscriber: Subscriber[Any], _: Any) -> Subscription:
        hand = self

        class Logged(Queue):
            def request(self, n: int) -> None:
                hand.requests.append(n)
                super().request(n)

            def _stop(self) -> None:
                hand.cancels += 1

        self.subscriptions += 1
        self.queue = Logged(subscriber, self._platform)
        self.queue.start()
        return self.queue

    def send(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.queue.put(self.sent)


class Observer:
    """A plain observer, which does something with some of its items."""

    def __init__(self, source: Any, actions: dict[int, Callable[[], object]]) -> None:
        self.got: list[Any] = []
        self._actions = actions
        self._handle = source.subscribe(self._take, self.got.append, lambda: self.got.append("completed"))

    def _take(self, item: int) -> None:
        self.got.append(item)
        action = self._actions.pop(item, None)
        if action is not None:
            action()

    def leave(self) -> None:
        self._handle.dispose()


# What comes out.

steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 4)),
        st.tuples(st.just("send"), st.integers(1, 3)),
    ),
    max_size=25,
)


class Play:
    """Subscribers that come and go while a Subject sends, by RxPY's operator or by ours."""

    def __init__(self, operator: Any, inside: dict[int, Any]) -> None:
        self.subject: Subject[int] = Subject()
        self.connections = self._sent = 0
        self._shared: Any = reactivex.defer(self._connect).pipe(operator)
        self._observers: list[Observer] = []
        self._actions: dict[int, Callable[[], object]] = {
            item: self.join if what == "join" else partial(self.leave, what) for item, what in inside.items()
        }

    def _connect(self, _: Any) -> Subject[int]:
        self.connections += 1
        return self.subject

    def join(self, _: int = 0) -> None:
        self._observers.append(Observer(self._shared, self._actions))

    def leave(self, number: int) -> None:
        if number < len(self._observers):
            self._observers[number].leave()

    def send(self, count: int) -> None:
        for _ in range(count):
            self._sent += 1
            self.subject.on_next(self._sent)

    @property
    def got(self) -> list[list[Any]]:
        return [observer.got for observer in self._observers]


@given(
    steps=steps,
    inside=st.dictionaries(st.integers(1, 20), st.one_of(st.just("join"), st.integers(0, 4)), max_size=4),
    fails=st.booleans(),
)
def test_same_items_as_rxpy_for_subscribers_that_come_and_go(
    steps: list[tuple[str, int]], inside: dict[int, Any], fails: bool
) -> None:
    """Also from inside `on_next`, and again after all have gone, and after the end."""
    error = SourceError()
    ours, model = Play(share(), inside), Play(ops.share(), inside)
    for play in (ours, model):
        for verb, number in steps:
            getattr(play, verb)(number)
    assert (ours.got, ours.connections) == (model.got, model.connections)
    for play in (ours, model):
        if fails:
            play.subject.on_error(error)
        else:
            play.subject.on_completed()
        play.join()
    assert ours.got == model.got


@given(
    length=st.integers(0, 40),
    script=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=30),
    batches=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_each_gets_all_at_the_pace_of_the_slowest(
    length: int, script: list[tuple[int, int]], batches: list[bool]
) -> None:
    pulled = 0

    def source() -> Iterator[int]:
        nonlocal pulled
        for number in range(length):
            pulled += 1
            assert pulled <= min(probe.requested for probe in probes)
            yield number

    probes = [(BatchProbe if batch else Probe)() for batch in batches]
    shared = Flowable.from_iterable(source).pipe(share())
    for probe in probes:
        shared.subscribe(probe)
    for number, n in script:
        probes[number].request(n)
        slowest = min(probe.requested for probe in probes)
        assert all(probe.items == list(range(min(slowest, length))) for probe in probes)
    for probe in probes:
        probe.request(UNBOUNDED)
    for probe in probes:
        probe.check()
        assert (probe.items, probe.completions) == (list(range(length)), 1)


class Crowd:
    """Probes that come and go, each with what had been sent when it came."""

    def __init__(self) -> None:
        self.hand = Hand()
        self._here: list[tuple[Probe, int]] = []
        self._asked = 0

    def join(self, demand: int) -> None:
        probe = Probe(demand)
        if not self._here:
            # A new connection, which has asked for nothing.
            self.hand.requests.clear()
            self.hand.sent = self._asked = 0
        self._here.append((probe, self.hand.sent))
        self.hand.shared.subscribe(probe)

    def leave(self, number: int) -> None:
        if number < len(self._here):
            self._here.pop(number)[0].cancel()

    def send(self, count: int) -> None:
        if self._here:
            self.hand.send(min(count, sum(self.hand.requests) - self.hand.sent))

    def ask(self, number: int) -> None:
        if number < len(self._here):
            self._here[number][0].request(1 + number)

    def check(self) -> None:
        if not self._here:
            return
        least = min(came + probe.requested for probe, came in self._here)
        # What was asked for before is not taken back when somebody comes.
        self._asked = max(self._asked, least)
        assert sum(self.hand.requests) == self._asked
        for probe, came in self._here:
            probe.check()
            assert probe.items == list(range(came + 1, came + 1 + min(probe.requested, self.hand.sent - came)))


@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "send", "ask", "ask"]), st.integers(0, 5)), max_size=40))
def test_what_is_asked_for_is_what_all_have_asked_for(script: list[tuple[str, int]]) -> None:
    """But for what had been asked for before one of them came, which waits for it."""
    crowd = Crowd()
    for verb, number in script:
        getattr(crowd, verb)(number)
        crowd.check()


# Demand.


def test_nothing_is_asked_for_before_all_have_requested() -> None:
    hand = Hand()
    first, second = Probe(3), Probe()
    hand.shared.subscribe(second)
    hand.shared.subscribe(first)
    assert hand.requests == []
    second.request(2)
    assert hand.requests == [2]
    second.request(5)
    assert hand.requests == [2, 1]


def test_one_that_requests_nothing_holds_up_all_until_it_leaves() -> None:
    hand = Hand()
    slow, fast = Probe(1), Probe(10)
    hand.shared.subscribe(slow)
    hand.shared.subscribe(fast)
    hand.send(1)
    assert sum(hand.requests) == 1
    slow.cancel()
    assert sum(hand.requests) == 10
    hand.send(9)
    assert fast.items == list(range(1, 11))
    assert slow.items == [1]


def test_what_was_asked_for_waits_for_one_that_comes_later() -> None:
    hand = Hand()
    first, later = Probe(5), Probe()
    hand.shared.subscribe(first)
    hand.send(2)
    hand.shared.subscribe(later)
    first.request(5)
    hand.send(3)
    assert sum(hand.requests) == 5
    assert (first.items, later.items) == ([1, 2, 3, 4, 5], [])
    later.request(2)
    assert later.items == [3, 4]
    assert sum(hand.requests) == 5
    later.request(3)
    assert later.items == [3, 4, 5]
    assert sum(hand.requests) == 7


def test_not_everything_is_asked_for_at_once() -> None:
    """So that what waits for one that comes later is bounded, though the others have requested everything."""
    hand = Hand()
    first, later = Probe(UNBOUNDED), Probe()
    hand.shared.subscribe(first)
    assert hand.requests == [MOST_AHEAD]
    hand.send(MOST_AHEAD * 3 // 4 - 1)
    assert len(hand.requests) == 1
    hand.send(1)
    assert hand.requests == [MOST_AHEAD, MOST_AHEAD * 3 // 4]
    hand.shared.subscribe(later)
    hand.send(MOST_AHEAD)
    assert sum(hand.requests) == hand.sent
    later.request(UNBOUNDED)
    assert later.items == first.items[-MOST_AHEAD:]
    assert sum(hand.requests) == hand.sent + MOST_AHEAD


def test_one_that_is_slow_on_another_thread_holds_up_the_source() -> None:
    """It has requested everything, and yet no more than so much waits for it."""
    hand = Hand()
    goes_on, inside = threading.Event(), threading.Event()

    def on_item(item: int) -> None:
        if item == 1:
            inside.set()
            assert goes_on.wait(PATIENCE_S)

    fast, slow = Probe(UNBOUNDED), Probe(0, on_item)
    hand.shared.subscribe(fast)
    hand.shared.subscribe(slow)
    hand.send(1)
    thread = threading.Thread(target=lambda: slow.request(UNBOUNDED))
    thread.start()
    assert inside.wait(PATIENCE_S)
    hand.send(10 * MOST_AHEAD)
    assert MOST_AHEAD // 2 < len(fast.items) <= 2 * MOST_AHEAD
    goes_on.set()
    thread.join(PATIENCE_S)
    assert fast.items == slow.items == list(range(1, 10 * MOST_AHEAD + 2))


def test_batches_are_passed_on_when_all_take_them() -> None:
    probes = [BatchProbe(), BatchProbe(UNBOUNDED)]
    shared = Flowable.from_iterable(range(1000)).pipe(share())
    for probe in probes:
        shared.subscribe(probe)
    probes[0].request(UNBOUNDED)
    for probe in probes:
        probe.check()
        assert probe.items == list(range(1000))
        assert len(probe.batches) < 50


def test_stack_stays_flat() -> None:
    length = 20_000
    first, second = Probe(0, lambda _: first.request(1)), Probe(1, lambda _: second.request(1))
    shared = Flowable.from_iterable(range(length)).pipe(share())
    shared.subscribe(first)
    shared.subscribe(second)
    first.request(1)
    assert first.items == second.items == list(range(length))


# Coming and going.


def test_connects_with_the_first_and_disconnects_with_the_last() -> None:
    hand = Hand()
    assert hand.subscriptions == 0
    first, second = Probe(UNBOUNDED), Probe(UNBOUNDED)
    hand.shared.subscribe(first)
    hand.shared.subscribe(second)
    first.cancel()
    first.cancel()
    assert (hand.subscriptions, hand.cancels) == (1, 0)
    second.cancel()
    assert (hand.subscriptions, hand.cancels) == (1, 1)
    again = Probe(UNBOUNDED)
    hand.shared.subscribe(again)
    hand.send(2)
    assert hand.subscriptions == 2
    assert (first.items, second.items, again.items) == ([], [], [1, 2])


@pytest.mark.parametrize("error", [None, SourceError("the end")])
def test_the_end_comes_after_what_waits_and_to_those_that_come_later(error: Exception | None) -> None:
    hand = Hand()
    probe, waiting = Probe(2), Probe()
    hand.shared.subscribe(probe)
    hand.shared.subscribe(waiting)
    waiting.request(2)
    hand.send(1)
    joined = Probe()
    hand.shared.subscribe(joined)
    hand.send(1)
    hand.queue.complete() if error is None else hand.queue.fail(error)
    assert probe.ended
    assert not joined.ended
    joined.request(1)
    late = Probe()
    hand.shared.subscribe(late)
    assert joined.items == [2]
    for ended in (probe, waiting, joined, late):
        ended.check()
        assert (ended.errors, ended.completions) == (([], 1) if error is None else ([error], 0))
    assert (hand.subscriptions, hand.cancels) == (1, 0)


def test_cancel_inside_on_subscribe_subscribes_nothing() -> None:
    class Refusing(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    hand = Hand()
    hand.shared.subscribe(Refusing())
    assert hand.subscriptions == 0
    probe = Probe(UNBOUNDED)
    hand.shared.subscribe(probe)
    hand.send(1)
    assert probe.items == [1]


def test_one_that_joins_inside_on_subscribe_of_the_first() -> None:
    class Joining(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            hand.shared.subscribe(second)
            subscription.cancel()

    hand = Hand()
    second = Probe(UNBOUNDED)
    hand.shared.subscribe(Joining())
    hand.send(1)
    assert (second.items, hand.subscriptions) == ([1], 1)


def test_one_that_joins_inside_on_next_gets_what_comes_after_that_item() -> None:
    """Though the source sends many at once."""
    late = Probe(UNBOUNDED)
    first = Probe(0, lambda item: shared.subscribe(late) if item == 3 else None)
    shared = Flowable.from_iterable(range(10)).pipe(share())
    shared.subscribe(first)
    first.request(UNBOUNDED)
    assert (first.items, late.items) == (list(range(10)), list(range(4, 10)))


def test_one_that_is_cancelled_by_another_gets_nothing_more() -> None:
    hand = Hand()
    second = Probe(UNBOUNDED)
    first = Probe(UNBOUNDED, lambda item: second.cancel() if item == 2 else None)
    hand.shared.subscribe(first)
    hand.shared.subscribe(second)
    hand.send(3)
    assert (first.items, second.items) == ([1, 2, 3], [1])


def test_one_that_raises_is_cancelled_alone(log: Log) -> None:
    def on_item(_: int) -> None:
        raise SourceError

    hand = Hand()
    broken, whole = Probe(UNBOUNDED, on_item), Probe(UNBOUNDED)
    hand.shared.subscribe(broken)
    hand.shared.subscribe(whole)
    hand.send(3)
    assert (len(broken.items), whole.items) == (1, [1, 2, 3])
    assert log.levels == ["ERROR"]


def test_interrupt_as_the_source_sends_is_told_to_the_others() -> None:
    def on_item(_: int) -> None:
        raise KeyboardInterrupt

    hand = Hand()
    broken, other = Probe(UNBOUNDED, on_item), Probe(UNBOUNDED)
    hand.shared.subscribe(broken)
    hand.shared.subscribe(other)
    with pytest.raises(KeyboardInterrupt):
        hand.send(1)
    assert isinstance(other.errors[0], RxwowError)


def test_interrupt_as_the_source_is_asked_is_told_to_the_others() -> None:
    def on_item(_: int) -> None:
        raise KeyboardInterrupt

    shared = Flowable.from_iterable(range(3)).pipe(share())
    other, broken = Probe(UNBOUNDED), Probe(0, on_item)
    shared.subscribe(broken)
    shared.subscribe(other)
    with pytest.raises(KeyboardInterrupt):
        broken.request(UNBOUNDED)
    assert isinstance(other.errors[0], RxwowError)


def test_invalid_request_is_the_end_of_one() -> None:
    hand = Hand()
    wrong, right = Probe(), Probe(2)
    hand.shared.subscribe(wrong)
    hand.shared.subscribe(right)
    wrong.subscription.request(0)
    hand.send(2)
    assert isinstance(wrong.errors[0], InvalidRequestError)
    assert (wrong.items, right.items) == ([], [1, 2])


def test_source_that_cannot_be_subscribed_is_an_error_of_all() -> None:
    def publish(subscriber: Any, scheduler: Any) -> Any:
        raise SourceError("no")

    probe = Probe()
    Flowable[Any](publish).pipe(share()).subscribe(probe)
    assert repr(probe.errors) == "[SourceError('no')]"


def test_one_that_has_gone_is_forgotten() -> None:
    hand = Hand()
    first, second = Probe(UNBOUNDED), Probe()
    hand.shared.subscribe(first)
    hand.shared.subscribe(second)
    items = [Item() for _ in range(3)]
    gone: list[weakref.ref[Any]] = [*map(weakref.ref, items), weakref.ref(second)]
    subscription = second.subscription
    while items:
        hand.queue.put(items.pop())
    first.cancel()
    first.items.clear()
    second.cancel()
    del second
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    subscription.request(1)


class Item:
    """Something that can be referred to weakly."""


# Races.


@pytest.mark.seeds(60, soak=10_000)
def test_sharers_on_threads_of_their_own(seed: int) -> None:
    """Whoever stays gets everything after it came; a lost wake-up would be a deadlock of the run."""

    def scenario(platform: ControlledPlatform) -> None:
        length = 12
        shared = Flowable.from_iterable(range(length), blocking=True).pipe(share())
        first, second, passing = (Controlled(platform) for _ in range(3))
        shared.subscribe(first)

        def come_and_ask() -> None:
            shared.subscribe(second)
            each(second.request, [3, 4, 5, 1])()

        def come_and_go() -> None:
            shared.subscribe(passing)
            if platform.random.random() < 0.5:
                passing.request(2)
            passing.subscription.cancel()

        join(platform, each(first.request, [1, 2, 3, 4, 5]), come_and_ask, come_and_go)
        first.ended.wait()
        second.ended.wait()
        assert (first.items, first.ends) == (list(range(length)), ["completed"])
        assert second.ends == ["completed"]
        assert second.items == list(range(length))[length - len(second.items) :]

    run(scenario, seed)


@pytest.mark.seeds(60, soak=10_000)
def test_the_last_leaves_as_another_comes(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        hand = Hand(platform)
        first, second = Controlled(platform), Controlled(platform)
        hand.shared.subscribe(first)
        first.request(3)

        def come() -> None:
            hand.shared.subscribe(second)
            second.request(3)

        join(platform, come, first.subscription.cancel)
        hand.send(3)
        assert second.items == [1, 2, 3]
        second.subscription.cancel()
        assert hand.cancels == hand.subscriptions in (1, 2)

    run(scenario, seed)


@pytest.mark.seeds(60, soak=10_000)
def test_the_end_comes_as_others_come_and_go(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        hand = Hand(platform)
        first, second, third = (Controlled(platform) for _ in range(3))
        hand.shared.subscribe(first)
        hand.shared.subscribe(second)
        first.request(5)
        second.request(5)
        queue = hand.queue

        def end() -> None:
            queue.put(1)
            queue.put(2)
            queue.complete()

        def come() -> None:
            hand.shared.subscribe(third)
            third.request(5)

        join(platform, end, come, second.subscription.cancel)
        assert (first.items, first.ends) == ([1, 2], ["completed"])
        assert third.ends == ["completed"]
        assert third.items == [1, 2][2 - len(third.items) :]
        assert hand.subscriptions == 1

    run(scenario, seed)


def test_real_threads() -> None:
    length = 20_000
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    shared = Flowable.from_iterable(range(length), blocking=True).pipe(share())
    probes = [Probe() for _ in range(3)]

    def ask(probe: Probe, n: int) -> Callable[[], None]:
        def asking() -> None:
            while not probe.ended:
                probe.request(n)
                probe.wait_for_items(probe.requested)

        return asking

    try:
        for probe in probes:
            shared.subscribe(probe)
        threads = [threading.Thread(target=ask(probe, 5 + 3 * number)) for number, probe in enumerate(probes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    finally:
        sys.setswitchinterval(interval)
    for probe in probes:
        probe.check()
        assert (probe.items, probe.completions) == (list(range(length)), 1)
