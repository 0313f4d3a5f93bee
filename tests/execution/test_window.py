"""The window bounds what is in flight, asks in batches, and never stalls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st

from rxwow import SKIP, Backoff, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution.window import InFlightWindow
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import Probe


def same(number: int) -> int:
    return number


class CountingSource(Subscription):
    """Emits what is asked for, on the asking thread, and notes each request."""

    def __init__(self, subscriber: Subscriber[Any], items: Sequence[Any], lump: int = 1) -> None:
        self.requests: list[int] = []
        self.emitted = 0
        self._lump = lump
        self._subscriber = subscriber
        self._items = list(items)

    def request(self, n: int) -> None:
        self.requests.append(n)
        count = n * self._lump
        items, self._items = self._items[:count], self._items[count:]
        for item in items:
            self.emitted += 1
            self._subscriber.on_next(item)
        if items and not self._items:
            self._subscriber.on_completed()

    def cancel(self) -> None:
        self._items = []


def counting(
    items: Sequence[Any], make: Callable[[Subscriber[Any], Sequence[Any]], CountingSource] = CountingSource
) -> tuple[Flowable[Any], list[CountingSource]]:
    made: list[CountingSource] = []

    def publish(subscriber: Subscriber[Any], _: object) -> Subscription:
        made.append(make(subscriber, items))
        subscriber.on_subscribe(made[0])
        return made[0]

    return Flowable(publish), made


@settings(max_examples=40)
@given(
    window=st.integers(1, 70),
    workers=st.integers(1, 3),
    demand=st.lists(st.integers(1, 30), max_size=10),
    keys=st.integers(1, 40),
)
def test_in_flight_never_exceeds_the_window_results_included(
    window: int, workers: int, demand: list[int], keys: int
) -> None:
    # F03: one bound for all keys; F09: room is made when a message has finished, not when it is handed over.
    pulled = 0
    finished = 0
    most = 0

    def pull() -> Any:
        nonlocal pulled, most
        for number in range(150):
            pulled += 1
            most = max(most, pulled - finished)
            yield number

    def count(_: Any) -> None:
        nonlocal finished
        finished += 1

    with KeyedExecutor(workers, max_in_flight=window) as executor:
        probe = Probe(on_item=count)
        dispatch = keyed_dispatch(lambda number: number % keys, same, executor=executor)
        Flowable.from_iterable(pull).pipe(dispatch).subscribe(probe)
        for n in demand:
            probe.request(n)
            probe.wait_for_items(min(probe.requested, 150))
        probe.request(UNBOUNDED)
        probe.wait_for_end()
    assert most <= window
    assert len(probe.items) == 150


@pytest.mark.parametrize("window", [1, 2, 15, 16, 17, 31, 32, 33, 256])
@pytest.mark.parametrize("workers", [1, 2])
def test_no_size_of_window_stalls(window: int, workers: int) -> None:
    # F14: a rule such as "n minus n/4" breaks down for small n.
    with KeyedExecutor(workers, max_in_flight=window) as executor:
        dispatch = keyed_dispatch(lambda number: number % 7, same, executor=executor)
        results = Flowable.from_iterable(range(600)).pipe(dispatch).to_list().run()
    assert sorted(results) == list(range(600))


@pytest.mark.parametrize(("window", "batch"), [(256, 16), (255, 15), (17, 1), (16, 1), (15, 1), (1, 1), (4096, 256)])
def test_requests_come_in_batches_of_a_sixteenth(window: int, batch: int) -> None:
    # F10: many small requests would be as many calls, locks and polls.
    source, made = counting(range(5 * window))
    with KeyedExecutor(1, max_in_flight=window) as executor:
        source.pipe(keyed_dispatch(lambda number: number, same, executor=executor)).run()
    first, *others = made[0].requests
    assert first == window
    assert others
    assert all(request % batch == 0 for request in others)


@pytest.mark.parametrize(("unfinished", "asks"), [(240, True), (241, False)])
def test_a_backlog_of_241_of_one_key_stops_the_requests_of_its_dispatch_and_of_no_other(
    unfinished: int, asks: bool
) -> None:
    # F30: that is what a hot key costs; a per-key bound is a window of its own.
    first: Future[int] = Future()
    source, made = counting(range(1000))

    def key(message: int) -> Any:
        return "hot" if message < unfinished else message

    def handler(message: int) -> Any:
        return message or first

    with KeyedExecutor(workers=3) as executor:
        probe = Probe(demand=UNBOUNDED)
        source.pipe(keyed_dispatch(key, handler, executor=executor)).subscribe(probe)
        # All other keys finish; more of them is asked for only while a batch fits beside the hot one.
        probe.wait_for_items(1000 - unfinished if asks else 256 - unfinished)
        other = Flowable.from_iterable(range(500)).pipe(keyed_dispatch(lambda n: n, same, executor=executor))
        assert len(Flowable.from_observable(other.to_list()).run()) == 500
        assert (sum(made[0].requests) > 256) == asks
        assert len(probe.items) == (1000 - unfinished if asks else 256 - unfinished)
        first.set_result(0)
        probe.wait_for_end()
    assert sorted(probe.items) == list(range(1000))


def test_results_that_are_not_taken_hold_the_window() -> None:
    source, made = counting(range(100))
    with KeyedExecutor(workers=2, max_in_flight=8) as executor:
        probe = Probe(demand=3)
        source.pipe(keyed_dispatch(lambda n: n, same, executor=executor)).subscribe(probe)
        probe.wait_for_items(3)
        statistics = _when(executor, lambda window: window.in_flight == 8)
        assert statistics.admitted == 11
        assert sum(made[0].requests) == 11
        probe.request(UNBOUNDED)
        probe.wait_for_end()


def _when(executor: KeyedExecutor, condition: Callable[[Any], bool]) -> Any:
    while True:
        window = executor.statistics().dispatches[0].window
        if condition(window):
            return window


def test_nothing_is_asked_of_the_source_before_the_first_request() -> None:
    # F05
    source, made = counting(range(10))
    with KeyedExecutor(workers=1) as executor:
        probe = Probe()
        source.pipe(keyed_dispatch(lambda n: n, same, executor=executor)).subscribe(probe)
        assert made[0].requests == []
        probe.request(1)
        probe.wait_for_items(1)
        assert made[0].requests[0] == 256
        probe.cancel()


def test_messages_that_fail_for_ever_fill_the_window_until_their_policy_ends_them() -> None:
    # F12: a message that waits for a retry is in flight; the bound of attempts is the way out.
    def scenario(_: ControlledPlatform) -> None:
        def handler(number: int) -> int:
            if number < 16:
                raise ValueError(number)
            return number

        policy = Backoff(attempts=3, delay=1.0, then=SKIP)
        with KeyedExecutor(2, max_in_flight=16) as executor:
            dispatch = keyed_dispatch(lambda number: number, handler, executor=executor, on_failure=policy)
            results = Flowable.from_observable(Flowable.from_iterable(range(100)).pipe(dispatch).to_list()).run()
        assert sorted(results) == list(range(16, 100))

    run(scenario, seed=1)


def test_what_a_plain_observable_sends_too_much_is_kept_in_order() -> None:
    # F14, F103: the source is blocked when its buffer is full, and drops nothing.
    handled: list[int] = []
    with KeyedExecutor(workers=1, max_in_flight=2) as executor:
        reactivex.from_iterable(range(2000)).pipe(
            keyed_dispatch(lambda _: "one", handled.append, executor=executor)
        ).run()
    assert handled == list(range(2000))


@pytest.mark.parametrize("window", [1, 2, 16, 17])
def test_a_source_that_sends_lumps_does_not_widen_the_window(window: int) -> None:
    # F14: what comes beyond the request is kept, and as much less is asked for after it.
    finished = 0
    room: list[int] = []

    def count(_: Any) -> None:
        nonlocal finished
        finished += 1

    class Lumps(CountingSource):
        def request(self, n: int) -> None:
            room.append(window - (self.emitted - finished) - n)
            super().request(n)

    source, _ = counting(range(1000), lambda subscriber, items: Lumps(subscriber, items, lump=5))
    with KeyedExecutor(workers=2, max_in_flight=window) as executor:
        probe = Probe(demand=UNBOUNDED, on_item=count)
        source.pipe(keyed_dispatch(lambda n: n % 7, same, executor=executor)).subscribe(probe)
        probe.wait_for_end()
    assert sorted(probe.items) == list(range(1000))
    assert len(room) > 2
    assert min(room) >= 0


@pytest.mark.seeds(100, soak=3000)
def test_the_window_bounds_and_completes_under_every_schedule(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        window = random.choice([1, 2, 15, 16, 17])
        pulled = most = 0
        finished: list[int] = []

        def pull() -> Any:
            nonlocal pulled, most
            for number in range(40):
                pulled += 1
                most = max(most, pulled - len(finished))
                yield number

        async def later(number: int) -> int:
            await asyncio.sleep(random.random())
            return number

        handler: Callable[[int], Any] = random.choice([same, later])
        with KeyedExecutor(2, max_in_flight=window) as executor:
            ended = platform.event()
            dispatch = keyed_dispatch(lambda n: n % 3, handler, executor=executor)
            flowable: Flowable[Any] = Flowable.from_iterable(pull).pipe(dispatch)
            flowable.subscribe(finished.append, on_completed=ended.set)
            ended.wait()
        assert sorted(finished) == list(range(40))
        assert most <= window

    run(scenario, seed)


def test_the_window_counts() -> None:
    window = InFlightWindow(32)
    assert window.to_request() == 32
    assert window.to_request() == 0
    window.admit(32)
    window.succeed(1)
    assert (window.in_flight, window.to_request(), window.has_batch()) == (31, 0, False)
    window.skip(1)
    window.fail(1)
    window.discard(2)
    assert window.to_request() == 4
    statistics = window.statistics()
    assert (statistics.succeeded, statistics.skipped, statistics.failed, statistics.discarded) == (1, 1, 1, 2)
    assert statistics.admitted == 5 + statistics.in_flight
