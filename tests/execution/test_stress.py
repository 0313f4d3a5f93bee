"""Nothing is lost and nothing comes twice, with real threads that are switched as often as can be."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
import reactivex
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import KINDS, OrderWatch
from tests.execution.pushed import PushedSource
from tests.streams.probe import PATIENCE_S, Probe


@pytest.fixture(autouse=True)
def switched_often() -> Iterator[None]:
    # F110: what is right by luck under the GIL shows soonest so, or without a GIL.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def rounds(soak: bool) -> int:
    return 100 if soak else 3


def key_of(message: tuple[Any, int]) -> Any:
    return message[0]


def test_eight_threads_submit(rounds: int) -> None:
    # F96: a Subject that eight threads push into breaks RxPY's contract, and must break nothing here.
    for round_number in range(rounds):
        subject: Subject[tuple[int, int]] = Subject()
        handled: Counter[tuple[int, int]] = Counter()
        active: set[int] = set()
        breaches: list[int] = []

        def handler(message: tuple[int, int], active: set[int] = active, breaches: list[int] = breaches) -> Any:
            if message[0] in active:
                breaches.append(message[0])
            active.add(message[0])
            active.discard(message[0])
            return message

        with KeyedExecutor(workers=3, max_in_flight=32, throughput=3) as executor:
            probe = Probe(demand=UNBOUNDED)
            subject.pipe(keyed_dispatch(key_of, handler, executor=executor)).subscribe(probe)

            def submit(thread: int, subject: Subject[tuple[int, int]] = subject) -> None:
                random = Random(thread)
                for number in range(200):
                    subject.on_next((random.randrange(20), thread * 1000 + number))

            threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            subject.on_completed()
            probe.wait_for_end()
        handled.update(probe.items)
        assert len(handled) == 1600, f"round {round_number}"
        assert set(handled.values()) == {1}
        assert breaches == []
        probe.check()


def test_handlers_of_all_kinds_that_fail_at_random(rounds: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        for round_number in range(rounds):
            random = Random(round_number)
            watch = OrderWatch(KINDS, pool)
            messages = [(random.randrange(12), number) for number in range(1500)]
            failing = {number for number in range(1500) if random.random() < 0.1}

            def handler(message: tuple[int, int], watch: OrderWatch = watch, failing: set[int] = failing) -> Any:
                if message[1] in failing:
                    raise ValueError(message)
                return watch(message)

            with KeyedExecutor(workers=3, max_in_flight=50, throughput=4) as executor:
                probe = Probe(demand=UNBOUNDED)
                dispatch = keyed_dispatch(key_of, handler, executor=executor, on_failure=SKIP)
                Flowable.from_iterable(messages).pipe(dispatch).subscribe(probe)
                probe.wait_for_end()
            assert watch.breaches == []
            assert sorted(probe.items) == [message for message in sorted(messages) if message[1] not in failing]


def test_cancels_and_completions_race(rounds: int) -> None:
    # F50: each message is handled or discarded, once, whenever the cancel comes.
    for round_number in range(rounds * 20):
        handled: list[int] = []
        discarded: list[int] = []
        probe = Probe(demand=UNBOUNDED)
        go = threading.Event()
        with KeyedExecutor(workers=2, max_in_flight=20) as executor:

            def handler(number: int, handled: list[int] = handled, go: threading.Event = go) -> None:
                handled.append(number)
                if len(handled) == 10:
                    go.set()

            dispatch = keyed_dispatch(
                lambda number: number % 5, handler, executor=executor, on_discard=discarded.append
            )
            Flowable.from_iterable(range(300)).pipe(dispatch).subscribe(probe)
            assert go.wait(PATIENCE_S)
            probe.cancel()
        ends = Counter(handled) + Counter(discarded)
        assert set(ends.values()) == {1}, f"round {round_number}"
        assert sorted(ends) == list(range(len(ends)))


def test_two_keys_play_ping_pong(rounds: int) -> None:
    # F32: a message that sits in a mailbox until another comes would stop this at once.
    subject: Subject[tuple[str, int]] = Subject()
    most = 2000 * rounds

    def handler(message: tuple[str, int]) -> Any:
        name, number = message
        if number < most:
            subject.on_next(("pong" if name == "ping" else "ping", number + 1))
        else:
            subject.on_completed()
        return message

    with KeyedExecutor(workers=2, max_in_flight=2) as executor:
        probe = Probe(demand=UNBOUNDED)
        subject.pipe(keyed_dispatch(key_of, handler, executor=executor)).subscribe(probe)
        subject.on_next(("ping", 0))
        probe.wait_for_end()
    assert [number for _, number in probe.items] == list(range(most + 1))


def test_many_dispatches_share_the_workers(rounds: int) -> None:
    with KeyedExecutor(workers=3, max_in_flight=16) as executor:
        probes: list[Probe] = []
        watches: list[OrderWatch] = []
        for number in range(20 * rounds):
            watches.append(OrderWatch(("plain", "async")))
            probes.append(Probe(demand=UNBOUNDED))
            messages = [(index % 4, index) for index in range(100)]
            dispatch = keyed_dispatch(key_of, watches[-1], executor=executor, max_in_flight=1 + number % 20)
            Flowable.from_iterable(messages).pipe(dispatch).subscribe(probes[-1])
        for probe, watch in zip(probes, watches, strict=True):
            probe.wait_for_end()
            assert len(probe.items) == 100
            assert watch.breaches == []


def test_a_loop_and_worker_threads_exchange_results(rounds: int) -> None:
    async def main() -> None:
        async def handler(number: int) -> int:
            await asyncio.sleep(0)
            return number

        async with KeyedExecutor(workers=3, max_in_flight=64) as executor:
            dispatch = keyed_dispatch(lambda number: number % 50, handler, executor=executor)
            seen = [number async for number in Flowable.from_iterable(range(1000 * rounds)).pipe(dispatch)]
        assert sorted(seen) == list(range(1000 * rounds))

    asyncio.run(main())


def test_a_plain_observable_on_its_own_thread_is_slowed_not_lost(rounds: int) -> None:
    source = reactivex.from_iterable(range(3000 * rounds), scheduler=NewThreadScheduler())
    handled: list[int] = []
    with KeyedExecutor(workers=2, max_in_flight=8) as executor:
        source.pipe(keyed_dispatch(lambda _: None, handled.append, executor=executor)).run()
    assert handled == list(range(3000 * rounds))


class SlowKey:
    """A key whose hash takes long enough for another thread to go on meanwhile."""

    def __init__(self, platform: ControlledPlatform, number: int) -> None:
        self._platform = platform
        self._number = number

    def __hash__(self) -> int:
        self._platform.point("hash")
        return self._number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlowKey) and other._number == self._number


@pytest.mark.seeds(100, soak=3000)
def test_a_message_that_comes_as_its_mailbox_goes_is_not_lost(seed: int) -> None:
    # F32: real threads hardly ever meet at that moment; a key that dawdles brings them together.
    def scenario(platform: ControlledPlatform) -> list[int]:
        handled: list[int] = []
        source = PushedSource()
        with KeyedExecutor(workers=2) as executor:
            probe = Probe(demand=UNBOUNDED)
            dispatch = keyed_dispatch(
                lambda number: SlowKey(platform, number % (1 + seed % 2)), handled.append, executor=executor
            )
            source.flowable.pipe(dispatch).subscribe(probe)
            for number in range(12):
                source.push(number)
            source.subscriber.on_completed()
        assert (probe.completions, probe.errors) == (1, [])
        return handled

    assert sorted(run(scenario, seed)) == list(range(12))
