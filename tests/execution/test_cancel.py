"""Cancel, from inside a handler, inside on_next and from another thread: prompt, once, and nothing comes after it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest
import reactivex
from reactivex.disposable import Disposable

from rxwow import FAIL, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.streams.protocols import UNBOUNDED, Subscription
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.execution.pushed import PushedSource
from tests.streams.probe import PATIENCE_S, Probe


@pytest.mark.parametrize("place", ["handler", "on_next", "another thread"])
def test_cancel_discards_what_is_queued_and_nothing_comes_after_it(place: str) -> None:
    closed: list[bool] = []
    discarded: list[int] = []
    handled: list[int] = []
    reached = threading.Event()

    def numbers() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    probe = Probe(demand=UNBOUNDED)

    def handler(number: int) -> int:
        handled.append(number)
        if number == 100:
            reached.set()
            if place == "handler":
                probe.cancel()
        return number

    def on_item(number: int) -> None:
        if place == "on_next" and number == 100:
            probe.cancel()

    probe.on_item = on_item
    with KeyedExecutor(workers=1) as executor:
        dispatch = keyed_dispatch(lambda number: number % 7, handler, executor=executor, on_discard=discarded.append)
        Flowable.from_iterable(numbers).pipe(dispatch).subscribe(probe)
        assert reached.wait(20)
        if place == "another thread":
            thread = threading.Thread(target=probe.cancel)
            thread.start()
            thread.join(20)
        # Leaving the block drains, which only ends if the dispatch let go of everything.
    assert closed == [True]
    assert not probe.ended
    assert set((Counter(handled) + Counter(discarded)).values()) == {1}
    taken = len(probe.items)
    if place == "on_next":
        assert probe.items[-1] == 100
    assert taken <= len(handled)
    probe.check()


class Waits:
    """A handler whose message waits for ever, and that says so: before it returns, or once it waits."""

    def __init__(self, kind: str) -> None:
        self.cancelled = threading.Event()
        self.waits = threading.Event()
        self.before_it_waits: Callable[[], object] = bool
        self._kind = kind

    def __call__(self, _: int) -> Any:
        if self._kind != "retry":
            self.before_it_waits()
        return getattr(self, f"_{self._kind}")()

    async def _coroutine(self) -> None:
        self.waits.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.cancelled.set()

    def _future(self) -> Future[None]:
        future: Future[None] = Future()
        future.add_done_callback(lambda future: self.cancelled.set() if future.cancelled() else None)
        self.waits.set()
        return future

    def _observable(self) -> reactivex.Observable[Any]:
        def subscribe(*_: object) -> Disposable:
            self.waits.set()
            return Disposable(self.cancelled.set)

        return reactivex.create(subscribe)

    def _retry(self) -> None:
        # Its timer is all that there is to cancel.
        self.cancelled.set()
        raise ConnectionError

    def decide(self, _: int, error: Exception) -> Any:
        # A handler that fails after the cancel has ended; it is a wait that the policy orders that is called off.
        self.before_it_waits()
        self.waits.set()
        return Retry(3600) if isinstance(error, ConnectionError) else FAIL


@pytest.mark.parametrize("moment", ["before it waits", "while it waits"])
@pytest.mark.parametrize("kind", ["coroutine", "future", "observable", "retry"])
def test_what_a_message_waits_for_is_cancelled_and_the_message_discarded(kind: str, moment: str) -> None:
    discarded: list[int] = []
    handler = Waits(kind)
    probe = Probe(demand=UNBOUNDED)
    if moment == "before it waits":
        handler.before_it_waits = probe.cancel
    with KeyedExecutor(workers=1) as executor:
        dispatch = keyed_dispatch(
            lambda _: "k", handler, executor=executor, on_discard=discarded.append, on_failure=handler.decide
        )
        Flowable.from_iterable([7]).pipe(dispatch).subscribe(probe)
        if moment == "while it waits":
            assert handler.waits.wait(PATIENCE_S)
            probe.cancel()
        # The executor goes on: it is the cancel that ends the wait, not the end of the worker.
        if kind != "coroutine" or handler.waits.is_set():
            assert handler.cancelled.wait(PATIENCE_S)
        other = keyed_dispatch(lambda _: "k", lambda number: number, executor=executor)
        assert Flowable.from_iterable([1]).pipe(other).run() == 1
    assert discarded == [7]
    assert not probe.ended


def test_what_a_source_still_sends_after_a_cancel_is_discarded() -> None:
    # F50
    source = PushedSource()
    discarded: list[int] = []
    handled: list[int] = []
    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=1) as executor:
        source.flowable.pipe(
            keyed_dispatch(lambda _: "k", handled.append, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        source.push(1)
        probe.wait_for_items(1)
        probe.cancel()
        assert source.cancelled.is_set()
        source.push(2, 3)
        assert discarded == [2, 3]
    assert handled == [1]
    assert source.requests_after_cancel == []


def test_cancel_does_not_wait_for_an_on_next_that_runs() -> None:
    # F43
    gate = Gate()
    discarded: list[int] = []
    source = PushedSource()
    probe = Probe(demand=UNBOUNDED, on_item=gate)
    with KeyedExecutor(workers=1) as executor:
        source.flowable.pipe(
            keyed_dispatch(lambda _: "k", lambda number: number, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        source.push(1)
        gate.wait_for_arrivals(1)
        source.push(2, 3)
        probe.cancel()
        assert source.cancelled.is_set()
        assert discarded == [2, 3]
        gate.let_go()
    assert probe.items == [1]
    probe.check()


def test_cancel_twice_and_request_after_it_do_nothing() -> None:
    gate = Gate()
    discarded: list[int] = []
    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=1) as executor:
        Flowable.from_iterable(range(5)).pipe(
            keyed_dispatch(lambda _: "k", gate, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        gate.wait_for_arrivals(1)
        probe.cancel()
        probe.cancel()
        probe.request(5)
        assert discarded == [1, 2, 3, 4]
        gate.let_go()
    assert not probe.ended
    assert probe.items == []


def test_cancel_in_on_subscribe_starts_nothing() -> None:
    class Hasty(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    pulled: list[int] = []
    probe = Hasty(demand=0)
    with KeyedExecutor(workers=1) as executor:
        source: Flowable[Any] = Flowable.from_iterable(lambda: map(pulled.append, range(5)))
        source.pipe(keyed_dispatch(lambda _: "k", lambda item: item, executor=executor)).subscribe(probe)
        assert not executor.statistics().workers[0].started
    assert pulled == []
    assert not probe.ended


def test_the_rxpy_way_to_cancel_is_dispose() -> None:
    gate = Gate()
    discarded: list[int] = []
    seen: list[int] = []
    with KeyedExecutor(workers=1) as executor:
        subscription = (
            Flowable.from_iterable(range(5))
            .pipe(keyed_dispatch(lambda _: "k", gate, executor=executor, on_discard=discarded.append))
            .subscribe(seen.append)
        )
        gate.wait_for_arrivals(1)
        subscription.dispose()
        assert discarded == [1, 2, 3, 4]
        gate.let_go()
    assert seen == []


@pytest.mark.seeds(150, soak=5000)
def test_a_cancel_at_any_moment_loses_and_doubles_nothing(seed: int) -> None:
    # F50
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        pulled: list[int] = []
        handled: list[int] = []
        discarded: list[int] = []

        def key(number: int) -> int:
            pulled.append(number)
            return number % 3

        with KeyedExecutor(2, max_in_flight=random.choice([1, 4, 20])) as executor:
            probe = Probe(demand=UNBOUNDED)
            Flowable.from_iterable(range(40)).pipe(
                keyed_dispatch(key, handled.append, executor=executor, on_discard=discarded.append)
            ).subscribe(probe)
            for _ in range(random.randrange(40)):
                platform.point("waits")
            probe.cancel()
        assert Counter(handled) + Counter(discarded) == Counter(pulled)
        probe.check()

    run(scenario, seed)
