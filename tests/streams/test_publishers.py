"""Reactive Streams objects of other libraries; the stand-ins have the signatures of the `reactivestreams` package."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st

from rxwow.errors import InvalidArgumentError, InvalidRequestError, MissingBackpressureError, RxwowError
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.protocols import UNBOUNDED
from rxwow.streams.publishers import MOST_AT_ONCE, from_publisher
from rxwow.streams.publishing import to_publisher
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe, eventually
from tests.streams.sources import SourceError
from tests.streams.test_schedules import Controlled, each, join

both_ways = pytest.mark.parametrize("probe_class", [Probe, BatchProbe], ids=["singly", "in batches"])


class Publisher:
    """A publisher that does what the test does with `subscriber`, and is its own subscription, as RSocket's are."""

    def __init__(self) -> None:
        self.subscriber: Any = None
        self.requests: list[int] = []
        self.cancels = 0
        self.threads: set[int] = set()

    def subscribe(self, subscriber: Any) -> None:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.threads.add(threading.get_ident())
        self.requests.append(n)

    def cancel(self) -> None:
        self.threads.add(threading.get_ident())
        self.cancels += 1


class Counting(Publisher):
    """Sends numbers, as many as are requested, from inside `request`."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._numbers = iter(range(length))

    def request(self, n: int) -> None:
        super().request(n)
        for _ in range(n):
            if self.cancels:
                return
            number = next(self._numbers, None)
            if number is None:
                self.subscriber.on_complete()
                return
            self.subscriber.on_next(number)


class Subscriber:
    """A foreign subscriber that writes down what it gets, and where."""

    def __init__(self, demand: int = 0, on_item: Callable[[Any], object] | None = None) -> None:
        self.subscription: Any = None
        self.signals: list[Any] = []
        self.threads: set[int] = set()
        self._demand = demand
        self._on_item = on_item

    def on_subscribe(self, subscription: Any) -> None:
        self.subscription = subscription
        if self._demand:
            subscription.request(self._demand)

    def on_next(self, value: Any, is_complete: bool = False) -> None:
        assert is_complete is False
        self._note(value)
        if self._on_item is not None:
            self._on_item(value)

    def on_error(self, exception: Exception) -> None:
        self._note(type(exception))

    def on_complete(self) -> None:
        self._note("complete")

    def _note(self, signal: Any) -> None:
        self.threads.add(threading.get_ident())
        self.signals.append(signal)


# from_publisher


@both_ways
@given(length=st.integers(0, 20), requests=st.lists(st.integers(1, 6), max_size=8))
def test_publisher_is_asked_for_what_is_requested(probe_class: type[Probe], length: int, requests: list[int]) -> None:
    publisher = Counting(length)
    probe = probe_class()
    from_publisher(publisher).subscribe(probe)
    assert publisher.requests == []
    for n in requests:
        probe.request(n)
        assert probe.items == list(range(min(probe.requested, length)))
    over = sum(requests) > length
    assert sum(publisher.requests) >= min(sum(requests), length)
    assert (probe.completions, probe.errors) == (int(over), [])
    probe.check()


signals = st.lists(
    st.sampled_from(["next", "next", "next", "last", "complete", "error", "subscribe", 1, 3]), max_size=20
)


@both_ways
@given(script=signals, capacity=st.integers(1, 4))
def test_publisher_that_breaks_the_rules_is_kept_to_them(
    probe_class: type[Probe], script: list[str | int], capacity: int
) -> None:
    publisher = Publisher()
    probe = probe_class()
    from_publisher(publisher, capacity=capacity).subscribe(probe)
    sent: list[int] = []
    end: str | None = None
    for number, signal in enumerate(script):
        listener = publisher.subscriber
        if isinstance(signal, int):
            probe.request(signal)
        elif signal in {"next", "last"}:
            listener.on_next(number, signal == "last")
            if end is None:
                # One more than fits, unasked, ends the stream.
                if len(sent) - probe.requested >= capacity:
                    end = "overflow"
                else:
                    sent.append(number)
                    end = "complete" if signal == "last" else None
        elif signal == "complete":
            listener.on_complete()
            end = end or "complete"
        elif signal == "error":
            listener.on_error(SourceError())
            end = end or "error"
        else:
            second = Publisher()
            listener.on_subscribe(second)
            assert (second.cancels, second.requests) == (1, [])
        assert probe.items == sent[: probe.requested]
    probe.request(UNBOUNDED)
    assert probe.items == sent
    kinds = {None: [], "complete": ["complete"], "error": [SourceError], "overflow": [MissingBackpressureError]}
    assert [*["complete"] * probe.completions, *map(type, probe.errors)] == kinds[end]
    assert publisher.cancels == (end == "overflow")
    probe.check()


def test_too_much_unasked_says_what_to_do() -> None:
    publisher = Publisher()
    probe = Probe()
    from_publisher(publisher, capacity=2).subscribe(probe)
    for number in range(4):
        publisher.subscriber.on_next(number)
    probe.request(5)
    assert probe.items == [0, 1]
    assert "initial_request_n" in str(probe.errors[0])
    assert "more than the 2 items" in str(probe.errors[0])


@pytest.mark.parametrize("end", ["cancel", "invalid request", "complete", "error", "last"])
def test_publisher_is_cancelled_unless_it_has_ended(end: str) -> None:
    publisher = Publisher()
    probe = Probe(5)
    from_publisher(publisher).subscribe(probe)
    if end == "cancel":
        probe.cancel()
        probe.cancel()
    elif end == "invalid request":
        probe.subscription.request(0)
        assert [type(error) for error in probe.errors] == [InvalidRequestError]
    elif end == "complete":
        publisher.subscriber.on_complete()
    elif end == "error":
        publisher.subscriber.on_error(SourceError())
    else:
        publisher.subscriber.on_next(1, is_complete=True)
    assert publisher.cancels == (end in {"cancel", "invalid request"})
    probe.request(5)
    assert publisher.requests == [5]


def test_subscription_that_comes_late() -> None:
    """A publisher may call on_subscribe after its subscribe has returned, even when nobody wants it any more."""

    class Late(Publisher):
        def subscribe(self, subscriber: Any) -> None:
            self.subscriber = subscriber

    publisher, cancelled = Late(), Late()
    probe = Probe(2)
    from_publisher(publisher).subscribe(probe)
    probe.request(3)
    publisher.subscriber.on_subscribe(publisher)
    assert publisher.requests == [5]
    probe = Probe(2)
    from_publisher(cancelled).subscribe(probe)
    probe.cancel()
    cancelled.subscriber.on_subscribe(cancelled)
    assert (cancelled.requests, cancelled.cancels) == ([], 1)


def test_nothing_is_asked_before_subscribe_has_returned() -> None:
    happened: list[str] = []

    class Wire(Publisher):
        def subscribe(self, subscriber: Any) -> None:
            super().subscribe(subscriber)
            happened.append("stream begins")

        def request(self, n: int) -> None:
            happened.append(f"request {n}")

        def cancel(self) -> None:
            happened.append("cancel")

    probe = Probe(2)
    from_publisher(Wire()).subscribe(probe)
    assert happened == ["stream begins", "request 2"]
    happened.clear()

    class Sending(Wire):
        def subscribe(self, subscriber: Any) -> None:
            subscriber.on_subscribe(self)
            subscriber.on_next(1)
            happened.append("stream begins")

    probe = Probe(2, on_item=lambda _: probe.cancel())
    from_publisher(Sending()).subscribe(probe)
    assert happened == ["stream begins", "cancel"]


def test_demand_without_bound_is_asked_for_in_parts_that_every_wire_carries() -> None:
    publisher = Publisher()
    probe = Probe(UNBOUNDED)
    subscription: Any = None
    from_publisher(publisher).subscribe(probe)
    subscription = probe.subscription
    assert publisher.requests == [MOST_AT_ONCE]
    # As if so many had come that half of them are left.
    subscription._outstanding = MOST_AT_ONCE // 2 + 1
    publisher.subscriber.on_next(1)
    assert publisher.requests == [MOST_AT_ONCE]
    publisher.subscriber.on_next(2)
    assert sum(publisher.requests) - MOST_AT_ONCE == MOST_AT_ONCE - MOST_AT_ONCE // 2 + 1
    assert publisher.requests[1] <= MOST_AT_ONCE


def test_stack_stays_flat_when_each_item_requests_the_next() -> None:
    probe = Probe(1, lambda _: probe.request(1))
    from_publisher(Counting(20_000)).subscribe(probe)
    assert (len(probe.items), probe.completions) == (20_000, 1)
    probe.check()


@pytest.mark.parametrize("method", ["subscribe", "request", "cancel"])
def test_publisher_that_raises_ends_the_stream(method: str, log: Log) -> None:
    def fail(*_: Any) -> None:
        raise SourceError

    publisher = Publisher()
    setattr(publisher, method, fail)
    probe = Probe(1)
    from_publisher(publisher).subscribe(probe)
    if method == "cancel":
        probe.cancel()
        assert log.levels == ["ERROR"]
        assert not probe.ended
    else:
        assert [type(error) for error in probe.errors] == [SourceError]
    probe.check()


@pytest.mark.parametrize("given_error", ["no", None, KeyboardInterrupt()], ids=repr)
def test_error_that_is_none_of_pythons_is_one_all_the_same(given_error: Any) -> None:
    publisher = Publisher()
    probe = Probe(1)
    from_publisher(publisher).subscribe(probe)
    publisher.subscriber.on_error(given_error)
    assert [type(error) for error in probe.errors] == [RxwowError]


def test_loop_bound_publisher_is_called_on_its_loop_only() -> None:
    async def main() -> None:
        publisher = Publisher()
        probe = Probe(1)
        from_publisher(publisher).subscribe(probe)
        await asyncio.to_thread(probe.request, 2)
        await eventually(lambda: publisher.requests == [1, 2])
        await asyncio.to_thread(probe.cancel)
        await eventually(lambda: publisher.cancels == 1)
        assert publisher.threads == {threading.get_ident()}

    asyncio.run(main())


def test_loop_that_is_closed_ends_the_stream() -> None:
    async def main() -> Probe:
        probe = Probe(1)
        from_publisher(Publisher()).subscribe(probe)
        return probe

    probe = asyncio.run(main())
    probe.request(1)
    assert [type(error) for error in probe.errors] == [RxwowError]
    assert "was closed before the end" in str(probe.errors[0])
    probe.cancel()


@pytest.mark.seeds(150, soak=10_000)
def test_signals_of_several_threads_are_put_in_order(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        publisher = Publisher()
        subscriber = Controlled(platform)
        from_publisher(publisher, capacity=100).subscribe(subscriber)
        cancels = platform.random.random() < 0.3
        listener = publisher.subscriber
        actions: list[Callable[[], object]] = [
            each(listener.on_next, (1, 2, 3)),
            each(listener.on_next, (11, 12)),
            lambda: listener.on_next(21, is_complete=platform.random.random() < 0.3),
            each(subscriber.request, [2] * 3),
        ]
        if cancels:
            actions.append(subscriber.subscription.cancel)
        join(platform, *actions)
        listener.on_complete()
        listener.on_complete()
        for first in (1, 11):
            of_one = [item for item in subscriber.items if first <= item < first + 10]
            assert of_one == list(range(first, first + len(of_one)))
        assert subscriber.ends == ["completed"] or cancels
        assert publisher.cancels <= 1
        if not cancels:
            assert sum(publisher.requests) <= 6
            assert publisher.cancels == 0

    run(scenario, seed)


def test_nothing_is_held_after_a_cancel() -> None:
    class Item:
        pass

    publisher = Publisher()
    probe = Probe()
    from_publisher(publisher).subscribe(probe)
    item = Item()
    held = weakref.ref(item)
    publisher.subscriber.on_next(item)
    del item
    assert held() is not None
    probe.cancel()
    assert held() is None


def test_arguments_of_from_publisher() -> None:
    for wrong in (1, [1], reactivex.of(1)):
        with pytest.raises(InvalidArgumentError, match="publisher must be a publisher"):
            from_publisher(wrong)  # type: ignore[arg-type]
    for capacity in (0, True, 1.5):
        with pytest.raises(InvalidArgumentError, match="capacity must be"):
            from_publisher(Publisher(), capacity=capacity)  # type: ignore[arg-type]
    flowable: Flowable[int] = Flowable.empty()
    assert from_publisher(flowable) is flowable


# to_publisher


@given(length=st.integers(0, 20), requests=st.lists(st.integers(1, 6), max_size=8), on_loop=st.booleans())
def test_subscriber_gets_what_it_requests(length: int, requests: list[int], on_loop: bool) -> None:
    async def main() -> None:
        subscriber = Subscriber()
        to_publisher(Flowable.from_iterable(range(length))).subscribe(subscriber)
        asked = 0
        for n in [0, *requests]:
            if n:
                subscriber.subscription.request(n)
            asked += n
            if on_loop:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            items = list(range(min(asked, length)))
            assert subscriber.signals == (items if asked < length else [*items, "complete"])

    if on_loop:
        asyncio.run(main())
    else:
        # Nothing in it waits then, so it ends in one step, without a loop.
        with pytest.raises(StopIteration):
            main().send(None)


def test_error_and_plain_observable() -> None:
    subscriber = Subscriber(5)
    to_publisher(reactivex.concat(reactivex.of(1, 2), reactivex.throw(SourceError()))).subscribe(subscriber)
    assert subscriber.signals == [1, 2, SourceError]
    subscriber = Subscriber()
    to_publisher(Flowable.from_iterable([1])).subscribe(subscriber)
    subscriber.subscription.request(0)
    assert subscriber.signals == [InvalidRequestError]


def test_loop_bound_subscriber_is_called_on_its_loop_only() -> None:
    async def main() -> None:
        subscriber = Subscriber(3)
        to_publisher(from_iterable(range(10), blocking=True)).subscribe(subscriber)
        await eventually(lambda: subscriber.signals == [0, 1, 2])
        await asyncio.to_thread(subscriber.subscription.request, 100)
        await eventually(lambda: subscriber.signals == [*range(10), "complete"])
        assert subscriber.threads == {threading.get_ident()}
        # In another order it would be refused by a later `request`.
        subscriber.subscription.cancel()

    asyncio.run(main())


def test_loop_bound_subscriber_gets_nothing_after_a_cancel(log: Log) -> None:
    async def main() -> None:
        closed = threading.Event()

        def items() -> Iterator[int]:
            try:
                yield from range(100)
            finally:
                closed.set()

        subscriber = Subscriber(100, lambda item: item == 3 and subscriber.subscription.cancel())
        to_publisher(Flowable.from_iterable(items)).subscribe(subscriber)
        await eventually(closed.is_set)
        await asyncio.sleep(0.01)
        assert subscriber.signals == [0, 1, 2, 3]
        assert log.records == []

    asyncio.run(main())


def test_nothing_is_held_for_a_loop_bound_subscriber_that_has_cancelled() -> None:
    """Whether it came before the cancel or after it."""

    class Item:
        pass

    async def main() -> None:
        bridges: list[Any] = []

        def publish(subscriber: Any, _: Any) -> Any:
            bridges.append(subscriber)
            return Flowable.never()._publish(subscriber, None)

        subscriber = Subscriber(5)
        to_publisher(Flowable(publish)).subscribe(subscriber)
        items = [Item(), Item()]
        held = [weakref.ref(item) for item in items]
        bridges[0].on_next(items.pop(0))
        assert held[0]() is not None
        subscriber.subscription.cancel()
        bridges[0].on_next(items.pop())
        assert [reference() for reference in held] == [None, None]
        await asyncio.sleep(0)
        assert subscriber.signals == []

    asyncio.run(main())


@pytest.mark.parametrize("on_loop", [True, False])
def test_subscriber_that_raises_is_logged_and_cancelled(on_loop: bool, log: Log) -> None:
    def fail(_: Any) -> None:
        raise SourceError

    async def main() -> None:
        closed = threading.Event()

        def items() -> Iterator[int]:
            try:
                yield from range(100)
            finally:
                closed.set()

        subscriber = Subscriber(5, fail)
        if on_loop:
            to_publisher(Flowable.from_iterable(items)).subscribe(subscriber)
        else:
            await asyncio.to_thread(to_publisher(Flowable.from_iterable(items)).subscribe, subscriber)
        await eventually(closed.is_set)
        assert subscriber.signals == [0]
        assert log.levels == ["ERROR"]

    asyncio.run(main())


def test_loop_of_a_subscriber_that_is_closed_cancels_the_source(log: Log) -> None:
    closed = threading.Event()
    go_on = threading.Event()

    def items() -> Iterator[int]:
        try:
            assert go_on.wait(PATIENCE_S)
            yield from range(100)
        finally:
            closed.set()

    async def main() -> None:
        to_publisher(from_iterable(items, blocking=True)).subscribe(Subscriber(5))

    asyncio.run(main())
    go_on.set()
    assert closed.wait(PATIENCE_S)
    log.wait_for(1)
    assert log.levels == ["WARNING"]


@pytest.mark.seeds(100, soak=5000)
def test_loop_bound_subscriber_with_a_source_and_requests_on_other_threads(seed: int) -> None:
    """A wake-up that is lost leaves the loop parked for ever: a deadlock of the run."""

    def scenario(platform: ControlledPlatform) -> None:
        async def main() -> None:
            done = asyncio.Event()
            subscriber = Subscriber(1)
            complete = subscriber.on_complete

            def on_complete() -> None:
                complete()
                done.set()

            subscriber.on_complete = on_complete  # type: ignore[method-assign]
            to_publisher(from_iterable(range(6), blocking=True)).subscribe(subscriber)

            def ask() -> None:
                for _ in range(7):
                    subscriber.subscription.request(1)

            platform.thread(ask, "asking").start()
            await done.wait()
            assert subscriber.signals == [*range(6), "complete"]

        loop = platform.event_loop()
        try:
            loop.run_until_complete(main())
        finally:
            loop.close()

    run(scenario, seed)


@given(length=st.integers(0, 300), on_loop=st.booleans())
def test_round_trip(length: int, on_loop: bool) -> None:
    async def main() -> None:
        trip = from_publisher(to_publisher(Flowable.from_iterable(range(length))))
        assert [item async for item in trip] == list(range(length))

    if on_loop:
        asyncio.run(main())
    else:
        got: list[int] = []
        trip = from_publisher(to_publisher(Flowable.from_iterable(range(length))))
        trip.subscribe(got.append)
        assert got == list(range(length))


def test_arguments_of_to_publisher() -> None:
    with pytest.raises(InvalidArgumentError, match="source must be an Observable"):
        to_publisher([1])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="with a method on_subscribe"):
        to_publisher(Flowable.empty()).subscribe(print)
