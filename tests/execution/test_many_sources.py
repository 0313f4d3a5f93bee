"""Many sources on many threads, and many workers with one subscriber: nothing is lost, doubled, or done at once."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
import reactivex
from reactivex.subject import Subject

from rxwow import SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.execution.process import Process
from rxwow.streams.protocols import UNBOUNDED
from tests.execution.collecting import PATIENCE, dispatched, results_of
from tests.streams.probe import Probe

THREADS = 8


@pytest.fixture(autouse=True)
def switched_often() -> Iterator[None]:
    # F110: what is right by luck under the GIL shows soonest so, or without a GIL.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Handling:
    """Handles messages `(source, number)` in a way drawn for each; half of the failing ones succeed when tried again.

    A message is alone with its key, or the promise is broken; only what all keys share is locked.
    """

    def __init__(self, pool: ThreadPoolExecutor, seed: int) -> None:
        self._pool = pool
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._active: set[Any] = set()
        self._attempts: Counter[Any] = Counter()
        self.finished: Counter[Any] = Counter()
        self.given_up: Counter[Any] = Counter()
        self.breaches: list[Any] = []

    def key(self, message: tuple[int, int]) -> tuple[int, int]:
        return message[0], message[1] % 5

    def __call__(self, message: tuple[int, int]) -> Any:
        with self._lock:
            if self.key(message) in self._active:
                self.breaches.append(message)
            self._active.add(self.key(message))
            self._attempts[message] += 1
            kind = self._random.choice([self._plain, self._async, self._future, self._observable])
        return kind(message)

    def decide(self, message: tuple[int, int], _: Exception) -> Any:
        if message[1] % 14 == 0 and self._attempts[message] < 3:
            return Retry(0)
        self.given_up[message] += 1
        return SKIP

    def _finish(self, message: tuple[int, int]) -> tuple[int, int]:
        with self._lock:
            self._active.discard(self.key(message))
            if message[1] % 7 == 0 and not (message[1] % 14 == 0 and self._attempts[message] == 3):
                raise ValueError(message)
            self.finished[message] += 1
        return message

    def _plain(self, message: tuple[int, int]) -> Any:
        return self._finish(message)

    async def _async(self, message: tuple[int, int]) -> Any:
        await asyncio.sleep(0)
        return self._finish(message)

    def _future(self, message: tuple[int, int]) -> Future[Any]:
        return self._pool.submit(self._finish, message)

    def _observable(self, message: tuple[int, int]) -> reactivex.Observable[Any]:
        return reactivex.from_callable(lambda: self._finish(message))


def check(handling: Handling, messages: int, probes: list[Probe]) -> None:
    assert handling.breaches == []
    ends = handling.finished + handling.given_up
    assert set(ends.values()) == {1}
    assert len(ends) == messages
    assert Counter(item for probe in probes for item in probe.items) == handling.finished
    for probe in probes:
        probe.check()
        assert probe.errors == []


def on_threads(work: Callable[[int], object], count: int = THREADS) -> None:
    """Call `work` with 0, 1, ... on as many threads, at once."""
    begin = threading.Barrier(count)
    failures: list[BaseException] = []

    def call(number: int) -> None:
        try:
            begin.wait(PATIENCE)
            work(number)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failures == []


@pytest.mark.parametrize("kind", ["a subject", "merged subjects", "observables", "flowables"])
def test_eight_threads_send_to_handlers_drawn_at_random(kind: str, soak: bool) -> None:
    for seed in range(100 if soak else 1):
        _send(kind, seed)


def _send(kind: str, seed: int) -> None:
    length = 400
    with ThreadPoolExecutor(3) as pool, KeyedExecutor(3, max_in_flight=40, throughput=3) as executor:
        handling = Handling(pool, seed)
        operator = keyed_dispatch(handling.key, handling, executor=executor, on_failure=handling.decide)
        subjects: list[Subject[Any]] = [Subject() for _ in range(THREADS)]
        if kind == "a subject":
            # Eight threads that push into one break RxPY's contract, and must break nothing here.
            subjects = [Subject()] * THREADS
            probes = [Probe(demand=UNBOUNDED)]
            subjects[0].pipe(operator).subscribe(probes[0])
        elif kind == "merged subjects":
            probes = [Probe(demand=UNBOUNDED)]
            reactivex.merge(*subjects).pipe(operator).subscribe(probes[0])
        else:
            probes = [Probe(demand=UNBOUNDED) for _ in range(THREADS)]

        def work(number: int) -> None:
            messages = [(number, index) for index in range(length)]
            if kind == "observables":
                Flowable.from_observable(reactivex.from_iterable(messages)).pipe(operator).subscribe(probes[number])
            elif kind == "flowables":
                Flowable.from_iterable(messages).pipe(operator).subscribe(probes[number])
            else:
                for message in messages:
                    subjects[number].on_next(message)

        on_threads(work)
        for subject in subjects:
            subject.on_completed()
        for probe in probes:
            probe.wait_for_end()
    check(handling, THREADS * length, probes)


def test_eight_workers_feed_a_collector_that_no_lock_guards(soak: bool) -> None:
    # F96: one signal at a time, in order per key, though the results come from eight threads.
    messages = [(key, number) for number in range(10_000 if soak else 1000) for key in range(16)]
    together = threading.Barrier(THREADS)
    seen: list[tuple[int, int]] = []
    inside = 0
    most = 0
    threads: set[int] = set()

    def handle(message: tuple[int, int]) -> tuple[int, int]:
        # Every worker is at work at once at the beginning, so that all eight have results to give.
        if message[1] == 0 and message[0] < THREADS:
            together.wait(PATIENCE)
        return message

    def collect(message: tuple[int, int]) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threads.add(threading.get_ident())
        seen.append(message)
        inside -= 1

    with KeyedExecutor(THREADS, max_in_flight=500) as executor:
        ended = threading.Event()
        Flowable.from_iterable(messages).pipe(
            keyed_dispatch(lambda message: message[0], handle, executor=executor)
        ).subscribe(collect, on_completed=ended.set)
        assert ended.wait(PATIENCE)
    assert most == 1
    assert len(seen) == len(messages)
    for key in range(16):
        assert [message for message in seen if message[0] == key] == [
            message for message in messages if message[0] == key
        ]


def test_the_shared_executor_is_one_though_many_make_it_at_once() -> None:
    # F97: it is made outside every lock, so each of the first to ask makes one.
    process = Process()
    all_made = threading.Barrier(16)
    got: list[KeyedExecutor] = []

    def make() -> KeyedExecutor:
        all_made.wait(PATIENCE)
        return KeyedExecutor(1)

    on_threads(lambda _: got.append(process.get_shared(make)), 16)
    assert len(got) == 16
    assert set(map(id, got)) == {id(process.shared)}


@pytest.mark.parametrize("shared", [True, False])
def test_the_first_use_comes_from_sixteen_threads_at_once(shared: bool) -> None:
    # F97: workers, their threads and their loops are made when they are first needed, by whoever is first.
    made: list[asyncio.AbstractEventLoop] = []

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    executor = KeyedExecutor.shared() if shared else KeyedExecutor(4, loop_factory=factory)
    results: list[list[str]] = [[] for _ in range(16)]

    def use(number: int) -> None:
        results[number] = results_of(dispatched(range(20), str, executor))

    on_threads(use, 16)
    assert [sorted(result) for result in results] == [sorted(map(str, range(20)))] * 16
    if not shared:
        assert executor.drain(PATIENCE)
        assert 1 <= len(made) <= 4
        assert all(loop.is_closed() for loop in made)
