"""A mailbox exists only while its key has unfinished messages, and stays on its worker as long as it exists."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections import defaultdict
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution.dispatch import Dispatch
from rxwow.execution.mailbox import Mailbox
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate, OrderWatch
from tests.streams.probe import Probe


class Key:
    """A key that can be watched as it dies."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.number == self.number


def same(number: int) -> int:
    return number


def dispatch_of(executor: KeyedExecutor) -> Dispatch:
    with executor._lock:
        (dispatch,) = executor._dispatches
    return dispatch


class AllAtOnce(Subscription):
    """Emits everything in one batch, so that the mailbox of a key exists until its last message."""

    def __init__(self, subscriber: BatchSubscriber[Any], items: list[Any]) -> None:
        self._subscriber = subscriber
        self._items = items

    def request(self, n: int) -> None:
        assert n >= len(self._items)
        self._subscriber.on_next_batch(self._items)
        self._subscriber.on_completed()

    def cancel(self) -> None:
        pass


def all_at_once(items: list[Any]) -> Flowable[Any]:
    def publish(subscriber: Subscriber[Any], _: object) -> Subscription:
        assert isinstance(subscriber, BatchSubscriber)
        subscription = AllAtOnce(subscriber, items)
        subscriber.on_subscribe(subscription)
        return subscription

    return Flowable(publish)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hundred_thousand_keys_leave_nothing_behind(workers: int) -> None:
    # F01: keys are not slots; F101: a key that has gone quiet costs nothing.
    keys: weakref.WeakSet[Key] = weakref.WeakSet()
    most = 0

    def key_of(number: int) -> Key:
        nonlocal most
        key = Key(number)
        keys.add(key)
        if number % 1000 == 0:
            most = max(most, len(keys))
        return key

    last = 99_999
    unfinished: list[Future[None]] = [Future()]

    def handler(number: int) -> Any:
        return unfinished[0] if number == last else None

    with KeyedExecutor(workers) as executor:
        probe = Probe(demand=UNBOUNDED)
        source = Flowable.from_iterable(range(last + 1))
        source.pipe(keyed_dispatch(key_of, handler, executor=executor)).subscribe(probe)
        probe.wait_for_items(last)
        dispatch = dispatch_of(executor)
        # Nor does the dispatch keep what is gone until its own end. A worker's frames may hold a key for a moment.
        gc.collect()
        assert len(dispatch.mailboxes) == 1
        assert len(keys) < 10
        unfinished.pop().set_result(None)
        probe.wait_for_end()
        assert len(dispatch.mailboxes) == 0
    # The workers are gone, and with them their frames.
    gc.collect()
    assert len(keys) == 0
    assert not [other for other in gc.get_objects() if type(other) is Mailbox and other.dispatch is dispatch]
    # While it ran, keys were alive only within the window and the batches under way.
    assert most < 2000


def test_a_mailbox_is_gone_once_it_has_no_messages_and_comes_back() -> None:
    gate = Gate()
    with KeyedExecutor(workers=2, max_in_flight=2) as executor:
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(["a1", "b1", "a2"]).pipe(
            keyed_dispatch(lambda message: message[0], gate, executor=executor)
        ).subscribe(probe)
        dispatch = dispatch_of(executor)
        gate.wait_for_arrivals(2)
        assert len(dispatch.mailboxes) == 2
        gate.let_go("a1", "a2")
        probe.wait_for_items(2)
        with dispatch.lock:
            assert [key for key, _, _ in dispatch.mailboxes.sizes()] in (["b"], ["a", "b"], ["b", "a"])
        gate.let_go()
        probe.wait_for_end()
        assert len(dispatch.mailboxes) == 0


@pytest.mark.parametrize("throughput", [1, 3])
def test_a_mailbox_stays_on_its_worker_while_it_exists(throughput: int) -> None:
    # F26: there is no moment at which a key has two owners.
    threads: dict[int, set[int]] = defaultdict(set)
    gate = Gate()

    def handler(message: tuple[int, int]) -> None:
        key, _ = message
        if key < 0:
            gate(key)
        threads[key].add(threading.get_ident())

    with KeyedExecutor(workers=3, max_in_flight=400, throughput=throughput) as executor:
        # All of a key's messages are queued before the first runs, so its mailbox exists until the last.
        messages = [(-1, 0), (-2, 0), (-3, 0), *((number % 10, number) for number in range(300))]
        probe = Probe(demand=UNBOUNDED)
        dispatch = keyed_dispatch(lambda message: message[0], handler, executor=executor)
        Flowable.from_iterable(messages).pipe(dispatch).subscribe(probe)
        gate.wait_for_arrivals(3)
        gate.let_go()
        probe.wait_for_end()
    assert all(len(idents) == 1 for idents in threads.values())
    assert len({ident for idents in threads.values() for ident in idents}) == 3


@pytest.mark.seeds(100, soak=3000)
def test_a_mailbox_stays_on_its_worker_under_every_schedule(seed: int) -> None:
    threads: dict[int, set[int]] = defaultdict(set)

    async def waits(key: int) -> None:
        await asyncio.sleep(0.1)
        threads[key].add(threading.get_ident())

    def handler(message: tuple[int, int]) -> Any:
        key, number = message
        threads[key].add(threading.get_ident())
        return waits(key) if number % 2 else None

    def scenario(_: ControlledPlatform) -> None:
        random = Random(seed)
        messages = [(random.randrange(4), number) for number in range(30)]
        with KeyedExecutor(3, max_in_flight=30, throughput=random.choice([1, 2])) as executor:
            dispatch = keyed_dispatch(lambda message: message[0], handler, executor=executor)
            all_at_once(messages).pipe(dispatch).run()

    run(scenario, seed)
    assert threads
    assert all(len(idents) == 1 for idents in threads.values())


@pytest.mark.seeds(150, soak=5000)
def test_a_message_offered_while_its_mailbox_is_being_retired_is_handled(seed: int) -> None:
    # F24: the window lets one message of the key in when the one before it has just finished.
    def scenario(_: ControlledPlatform) -> None:
        random = Random(seed)
        watch = OrderWatch()
        messages = [(random.randrange(2), number) for number in range(30)]
        with KeyedExecutor(2, max_in_flight=random.choice([1, 2, 3])) as executor:
            dispatch = keyed_dispatch(lambda message: message[0], watch, executor=executor)
            Flowable.from_iterable(messages).pipe(dispatch).run()
        assert sum(map(len, watch.handled.values())) == 30
        assert watch.breaches == []

    run(scenario, seed)


def test_a_mailbox_that_is_used_again_has_nothing_of_its_last_key() -> None:
    watch = OrderWatch(("plain", "async"))
    messages = [(number // 3, number) for number in range(3000)]
    with KeyedExecutor(workers=2, max_in_flight=5) as executor:
        dispatch = keyed_dispatch(lambda message: message[0], watch, executor=executor)
        Flowable.from_iterable(messages).pipe(dispatch).run()
    assert watch.breaches == []
    assert {key: len(numbers) for key, numbers in watch.handled.items()} == dict.fromkeys(range(1000), 3)
