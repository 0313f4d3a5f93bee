"""Several ends at once, and ends beside beginnings: each dispatch ends once, and each message is accounted for once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest
import reactivex
from reactivex import abc
from reactivex.disposable import Disposable
from reactivex.subject import Subject

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from rxwow.execution.completion import DUE, Waiting
from rxwow.execution.turn import run_turns
from rxwow.testing import ControlledPlatform, run
from tests.execution.books import books_of
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of
from tests.execution.handlers import Gate
from tests.execution.pushed import PushedSource
from tests.streams.probe import Probe


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")


def same(number: int) -> int:
    return number


class Accounts:
    """What became of each message that was received; one thread at a time changes it, or a lock is taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.received: Counter[int] = Counter()
        self.handled: Counter[int] = Counter()
        self.discarded: Counter[int] = Counter()

    def key(self, message: int) -> int:
        with self._lock:
            self.received[message] += 1
        return message % 3

    def handle(self, message: int) -> int:
        with self._lock:
            self.handled[message] += 1
        return message

    async def wait(self, message: int) -> int:
        await asyncio.sleep(0.001 * (message % 3))
        return self.handle(message)

    def discard(self, message: int) -> None:
        with self._lock:
            self.discarded[message] += 1

    def dispatch(self, source: reactivex.Observable[int], executor: KeyedExecutor, **options: Any) -> Flowable[Any]:
        handlers = itertools.cycle([self.handle, self.wait])
        return source.pipe(
            keyed_dispatch(
                self.key,
                # Drawn for each message.
                lambda message: next(handlers)(message),  # noqa: PLW0108
                executor=executor,
                on_discard=self.discard,
                **options,
            )
        )

    def check(self) -> None:
        assert self.handled + self.discarded == self.received
        assert set(self.received.values()) <= {1}


# Ends beside each other.


@pytest.mark.seeds(300, soak=10_000)
def test_all_ends_at_once(seed: int) -> None:
    # F50, F58.
    def scenario(platform: ControlledPlatform) -> None:
        random = platform.random
        executor = KeyedExecutor(2, max_in_flight=random.choice([1, 4, 20]))
        accounts, probes = Accounts(), [Probe(demand=1000) for _ in range(2)]
        for number, probe in enumerate(probes):
            source = Flowable.from_iterable(range(20 * number, 20 * number + 20))
            accounts.dispatch(source, executor).subscribe(probe)
        drained: list[bool] = []
        ends: dict[str, Callable[[], object]] = {
            "dispose": executor.dispose,
            "drain": lambda: drained.append(executor.drain(random.choice([None, 0, 0.001, 1]))),
            "cancel": probes[0].cancel,
            "again": executor.dispose,
        }
        threads = [platform.thread(end, name) for name, end in ends.items() if random.random() < 0.7]
        for thread in threads:
            for _ in range(random.randrange(10)):
                platform.point("waits")
            thread.start()
        for thread in threads:
            thread.join()
        executor.dispose()
        assert executor.wait_closed()
        accounts.check()
        for probe in probes:
            probe.check()
            assert len(probe.errors) + probe.completions <= 1
        # A drain that says that all has finished has broken no promise.
        if drained == [True]:
            assert not any(probe.errors for probe in probes)

    run(scenario, seed)


@pytest.mark.seeds(200, soak=10_000)
def test_dispose_beside_a_cancel_leaves_no_coroutine_behind(seed: int) -> None:
    # The one that cancels may be stopped halfway; what the workers then still begin must not outlive their loops.
    def scenario(platform: ControlledPlatform) -> None:
        executor = KeyedExecutor(1)
        accounts, probe = Accounts(), Probe(demand=1000)
        Flowable.from_iterable(range(12)).pipe(
            keyed_dispatch(accounts.key, accounts.wait, executor=executor, on_discard=accounts.discard)
        ).subscribe(probe)
        cancelling = platform.thread(probe.cancel, "cancels")
        for _ in range(platform.random.randrange(20)):
            platform.point("waits")
        cancelling.start()
        executor.dispose()
        executor.wait_closed()
        cancelling.join()
        accounts.check()
        probe.check()

    run(scenario, seed)


def test_an_exit_out_of_one_subscriber_keeps_no_other_from_its_end() -> None:
    # On the main thread an exit is passed on, after everything else was done.
    class Exits(Collector):
        def on_error(self, error: Exception) -> None:
            super().on_error(error)
            raise KeyboardInterrupt

    gate = Gate()
    discarded: list[int] = []
    collectors = [Exits(10), Collector(10), Exits(10), Collector(10)]
    executor = KeyedExecutor(1)
    for collector in collectors:
        dispatched([1, 2], gate, executor, on_discard=discarded.append).subscribe(collector)
    gate.wait_for_arrivals(1)
    with pytest.raises(KeyboardInterrupt):
        executor.dispose()
    assert all(isinstance(collector.error, ExecutorClosedError) for collector in collectors)
    assert sorted(discarded) == [1, 1, 1, 2, 2, 2, 2]
    gate.let_go()
    assert executor.wait_closed(PATIENCE)
    assert executor.drain(timeout=0) is False


def test_an_exit_out_of_the_source_keeps_no_message_from_its_end() -> None:
    def numbers() -> Generator[int]:
        try:
            yield from range(100)
        finally:
            raise KeyboardInterrupt

    gate, collector, discarded = Gate(), Collector(10), list[int]()
    executor = KeyedExecutor(1, max_in_flight=3)
    dispatched(numbers, gate, executor, on_discard=discarded.append).subscribe(collector)
    gate.wait_for_arrivals(1)
    with pytest.raises(KeyboardInterrupt):
        collector.subscription.cancel()
    assert discarded == [1, 2]
    assert not executor.statistics().dispatches
    gate.let_go()
    assert executor.drain(PATIENCE)


def test_no_message_begins_while_the_source_takes_its_time_to_be_cancelled() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(PushedSource):
        def cancel(self) -> None:
            begun.set()
            assert go_on.wait(PATIENCE)

    source, gate, probe = Slow(), Gate(), Probe(demand=10)
    with KeyedExecutor(1) as executor:
        source.flowable.pipe(keyed_dispatch(lambda _: "key", gate, executor=executor)).subscribe(probe)
        source.push(1, 2, 3)
        gate.wait_for_arrivals(1)
        cancelling = threading.Thread(target=probe.cancel)
        cancelling.start()
        assert begun.wait(PATIENCE)
        gate.let_go()
        # The only worker has come to the end of its turn when it has time for another dispatch.
        assert results_of(dispatched([1], str, executor)) == ["1"]
        go_on.set()
        cancelling.join(PATIENCE)
    assert gate.arrived == [1]


def test_what_comes_to_a_worker_between_an_end_and_its_taking_the_messages_is_not_begun() -> None:
    # No schedule stops there; it is the moment after `closed` was set, seen by the worker: a turn, and a retry's timer.
    handled: list[int] = []
    executor = KeyedExecutor(1)
    collector, source = Collector(10), PushedSource()
    source.flowable.pipe(keyed_dispatch(hash, handled.append, executor=executor)).subscribe(collector)
    dispatch = books_of(executor)
    queued, retried = dispatch.mailboxes.put([1, 2], [1, 2])
    retried.waiting = Waiting(2, 1, "retry")
    retried.waiting.outcome = DUE
    dispatch.closed = True
    for mailbox in (queued, retried):
        assert run_turns(executor.any_worker(), mailbox, 0) is None
    assert handled == []
    assert [*queued, *retried] == [1, 2]
    dispatch.closed = False
    executor.dispose()


# Ends beside beginnings.


@pytest.mark.parametrize("end", ["dispose", "drain"])
@pytest.mark.seeds(200, soak=10_000)
def test_an_end_beside_a_subscription(seed: int, end: str) -> None:
    # F58: what comes too late is told so, and what comes in time is served or told so.
    def scenario(platform: ControlledPlatform) -> None:
        executor = KeyedExecutor(2)
        accounts, probe = Accounts(), Probe(demand=1000)
        source = Flowable.from_iterable(range(10), blocking=platform.random.random() < 0.5)

        def subscribe() -> None:
            accounts.dispatch(source, executor).subscribe(probe)

        subscribing = platform.thread(subscribe, "subscribes")
        subscribing.start()
        for _ in range(platform.random.randrange(25)):
            platform.point("waits")
        if end == "dispose":
            executor.dispose()
        else:
            assert executor.drain()
        subscribing.join()
        assert executor.wait_closed()
        assert probe.ended
        # Virtual time: the source's own thread, which no executor waits for, comes to its end too.
        platform.sleep(1.0)
        assert all(isinstance(error, ExecutorClosedError) for error in probe.errors)
        probe.check()
        accounts.check()

    run(scenario, seed)


@pytest.mark.seeds(200, soak=10_000)
def test_an_end_beside_messages_that_are_pushed(seed: int) -> None:
    # F50: whatever a source sends after the end is discarded, not lost.
    def scenario(platform: ControlledPlatform) -> None:
        executor = KeyedExecutor(2)
        accounts, probe = Accounts(), Probe(demand=1000)
        source = PushedSource()
        accounts.dispatch(source.flowable, executor).subscribe(probe)

        def push() -> None:
            for message in range(15):
                platform.point("pushes")
                source.push(message)

        pushing = platform.thread(push, "pushes")
        pushing.start()
        for _ in range(platform.random.randrange(60)):
            platform.point("waits")
        end = platform.random.choice(["dispose", "drain", "cancel"])
        if end == "cancel":
            probe.cancel()
        elif end == "drain":
            assert executor.drain()
            assert probe.completions == 1
        executor.dispose()
        pushing.join()
        executor.wait_closed()
        assert accounts.received.total() == 15
        accounts.check()
        probe.check()

    run(scenario, seed)


# With real threads.


def test_ends_and_messages_race_on_real_threads(soak: bool) -> None:
    # F50: the sum of handled and discarded is one for each message, whenever the end comes.
    for round_number in range(3000 if soak else 40):
        source: Subject[int] = Subject()
        accounts, probe = Accounts(), Probe(demand=100_000)
        executor = KeyedExecutor(2, max_in_flight=64)
        accounts.dispatch(source, executor).subscribe(probe)
        begin = threading.Barrier(3)

        def push(source: Subject[int] = source, begin: threading.Barrier = begin) -> None:
            begin.wait(PATIENCE)
            for message in range(200):
                source.on_next(message)

        ends = probe.cancel if round_number % 2 else executor.dispose

        def end(ends: Callable[[], None] = ends, begin: threading.Barrier = begin) -> None:
            begin.wait(PATIENCE)
            ends()

        threads = [threading.Thread(target=push), threading.Thread(target=end)]
        for thread in threads:
            thread.start()
        begin.wait(PATIENCE)
        for thread in threads:
            thread.join(PATIENCE)
        executor.dispose()
        assert executor.wait_closed(PATIENCE)
        accounts.check()
        probe.check()


@pytest.mark.parametrize("kind", ["iterable", "observable", "created"])
def test_an_endless_source_stops_within_one_item(kind: str) -> None:
    # F51: it sends from inside its subscribe, which never returns by itself.
    pulled: list[int] = []
    enough = threading.Event()

    def numbers() -> Generator[int]:
        for number in itertools.count():
            pulled.append(number)
            if number == 1000:
                enough.set()
            yield number

    def endless(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        for number in numbers():
            observer.on_next(number)
        return Disposable()

    sources: dict[str, Callable[[], reactivex.Observable[int]]] = {
        "iterable": lambda: Flowable.from_iterable(numbers),
        "observable": lambda: reactivex.from_iterable(numbers()),
        "created": lambda: reactivex.create(endless),
    }
    collector = Collector(10**9)
    executor = KeyedExecutor(2)
    flowable = sources[kind]().pipe(keyed_dispatch(lambda number: number % 7, same, executor=executor))
    subscribing = threading.Thread(target=lambda: flowable.subscribe(collector))
    subscribing.start()
    assert enough.wait(PATIENCE)
    executor.dispose()
    subscribing.join(PATIENCE)
    assert not subscribing.is_alive()
    assert executor.wait_closed(PATIENCE)
    assert isinstance(collector.error, ExecutorClosedError)
    stopped_at = len(pulled)
    assert executor.drain(timeout=0) is False
    assert len(pulled) == stopped_at
