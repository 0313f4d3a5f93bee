"""The races of emitters and sinks, on controlled threads: the same seed gives the same run."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from threading import get_ident
from typing import Any

import pytest

from rxwow.platform import Platform
from rxwow.streams.async_emitter import AsyncIterableEmitter
from rxwow.streams.async_iterables import from_async_iterable
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.iteration import PREFETCH, iterate
from rxwow.streams.observables import ObservableSubscription
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.testing import ControlledPlatform, explore, find_failure
from tests.streams.probe import Log
from tests.streams.sources import SourceError
from tests.streams.test_emitter import Queue


class Controlled(Subscriber[Any]):
    """A subscriber whose every signal has a moment at which another thread may come in."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.items: list[Any] = []
        self.ends: list[Any] = []
        self.ended = platform.event()
        self.subscription: Any = None
        self._busy = False
        self.requested = 0

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def request(self, n: int) -> None:
        self.requested += n
        self.subscription.request(n)

    def on_next(self, value: Any) -> None:
        assert len(self.items) < self.requested, "more items than were requested"
        self._signal(self.items, value)

    def on_error(self, error: Exception) -> None:
        self._signal(self.ends, error)
        self.ended.set()

    def on_completed(self) -> None:
        self._signal(self.ends, "completed")
        self.ended.set()

    def _signal(self, got: list[Any], value: Any) -> None:
        assert not self._busy, "two signals at a time"
        assert not self.ends, "a signal after the end"
        self._busy = True
        self._platform.point("in a signal")
        got.append(value)
        self._busy = False


def each(action: Callable[[Any], object], values: Iterable[Any]) -> Callable[[], None]:
    """Make what calls `action` with each of the values."""

    def act() -> None:
        for value in values:
            action(value)

    return act


def join(platform: Platform, *actions: Callable[[], object]) -> None:
    """Do all at the same time, and wait for the last."""
    threads = [platform.thread(action, f"t{number}") for number, action in enumerate(actions)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="session")
def seeds(soak: bool) -> Sequence[int]:
    return range(10_000 if soak else 300)


def test_request_wake_cancel_and_complete(seeds: Sequence[int]) -> None:
    """F50: each item emitted or discarded once, one release, at most one end, never more than the demand."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        queue = Queue(subscriber, platform)
        queue.start()
        actions: list[Callable[[], object]] = [
            each(queue.put, (1, 2, 3)),
            each(queue.put, (4, 5)),
            each(subscriber.request, [1] * 4),
            subscriber.subscription.cancel,
        ]
        if platform.random.random() < 0.5:
            actions.append(queue.complete)
        if platform.random.random() < 0.5:
            actions.append(lambda: subscriber.subscription.request(0))
        join(platform, *actions)
        assert sorted([*subscriber.items, *queue.discarded]) == [1, 2, 3, 4, 5]
        assert queue.releases == 1
        assert queue.stops <= 1
        assert len(subscriber.ends) <= 1

    explore(scenario, seeds)


def test_nothing_is_left_lying_when_news_and_demand_cross(seeds: Sequence[int]) -> None:
    """F32, F39: whoever comes second sees what the first has left."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        queue = Queue(subscriber, platform)
        queue.start()

        def feed() -> None:
            for number in (1, 2, 3, 4):
                queue.put(number)
            queue.complete()

        join(platform, feed, each(subscriber.request, [1] * 4))
        assert (subscriber.items, subscriber.ends) == ([1, 2, 3, 4], ["completed"])
        assert (queue.releases, queue.stops) == (1, 0)

    explore(scenario, seeds)


def test_one_end_when_several_come_at_once(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        queue = Queue(subscriber, platform)
        queue.start()
        error = SourceError()
        join(
            platform,
            queue.complete,
            lambda: queue.fail(error),
            lambda: queue.fail(error, at_once=True),
            lambda: subscriber.subscription.request(0),
        )
        assert len(subscriber.ends) == 1
        assert queue.releases == 1
        assert queue.stops <= 1

    explore(scenario, seeds)


@pytest.mark.parametrize("fault", ["passes over notes", "decides and leaves in two steps"])
def test_planted_faults_of_the_drain_are_found(fault: str) -> None:
    """So that the tests above are known to look."""

    class Faulty(Queue):
        def _drain_once(self) -> bool:
            if fault == "passes over notes":
                with self._lock:
                    limit = self._requested
                if self._has_end() and not self._has_items():
                    return super()._drain_once()
                emitted = self._emit(limit) if limit else 0
                with self._lock:
                    self._requested -= emitted
                    self._draining = limit > emitted and self._has_items()
                    return self._draining
            again = super()._drain_once()
            if not again and not self._finished:
                # Whoever comes now leaves a note to a drainer that looks no more.
                with self._lock:
                    self._draining = True
                with self._lock:
                    self._draining = False
            return again

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        queue = Faulty(subscriber, platform)
        queue.start()

        def feed() -> None:
            for number in (1, 2, 3, 4):
                queue.put(number)
            queue.complete()

        join(platform, feed, each(subscriber.request, [1] * 4))
        assert (subscriber.items, subscriber.ends) == ([1, 2, 3, 4], ["completed"])

    assert find_failure(scenario, range(1000)) is not None


def test_threads_that_are_held_up_are_let_go(seeds: Sequence[int]) -> None:
    """A lost wake-up here is a thread that hangs for ever; the run would report a deadlock."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        subscription = ObservableSubscription(subscriber, platform, OverflowStrategy.BLOCK, 1)
        subscription.start()
        cancels = platform.random.random() < 0.5

        def ask() -> None:
            for _ in range(6):
                subscriber.request(1)

        def end() -> None:
            if cancels:
                subscription.cancel()

        join(
            platform,
            each(subscription._accept, range(3)),
            each(subscription._accept, range(10, 13)),
            ask,
            end,
        )
        assert len(subscriber.items) == 6 or cancels
        for first in (0, 10):
            of_one = [number for number in subscriber.items if first <= number < first + 3]
            assert of_one == list(range(first, first + len(of_one)))

    explore(scenario, seeds)


@pytest.mark.parametrize("strategy", ["buffer", "drop_latest", "drop_oldest"])
def test_items_accepted_at_the_same_time(strategy: str, seeds: Sequence[int]) -> None:
    """F96."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        subscription = ObservableSubscription(subscriber, platform, OverflowStrategy(strategy), 2)
        subscription.start()
        join(
            platform,
            each(subscription._accept, (1, 2, 3)),
            each(subscription._accept, (11, 12, 13)),
            each(subscriber.request, [1] * 2),
        )
        subscription.complete()
        subscriber.request(UNBOUNDED)
        assert len(subscriber.ends) == 1
        assert subscriber.items
        if strategy != "buffer":
            assert len(subscriber.items) + subscription.dropped == 6
        assert len(set(subscriber.items)) == len(subscriber.items)

    explore(scenario, seeds)


def test_blocking_iterable_is_closed_once_and_its_thread_ends(seeds: Sequence[int]) -> None:
    """A thread that waited for ever would be a deadlock of the run."""

    def scenario(platform: ControlledPlatform) -> None:
        closed: list[str] = []

        def items() -> Iterator[int]:
            try:
                for number in range(3):
                    platform.point("in the iterable")
                    yield number
            finally:
                closed.append("closed")

        subscriber = Controlled(platform)
        from_iterable(items, blocking=True).subscribe(subscriber)
        thread = subscriber.subscription._thread
        cancels = platform.random.random() < 0.5
        actions: list[Callable[[], object]] = [each(subscriber.request, [1] * (2 if cancels else 4))]
        if cancels:
            actions.append(subscriber.subscription.cancel)
        join(platform, *actions)
        thread.join()
        assert subscriber.ends == ([] if cancels else ["completed"])
        # One that was never opened has nothing to close.
        assert closed == ["closed"] or not subscriber.items

    explore(scenario, seeds)


def test_blocking_iterable_is_opened_on_its_own_thread(seeds: Sequence[int]) -> None:
    """Also one whose length is known, which an inline source looks at when it is subscribed."""

    def scenario(platform: ControlledPlatform) -> None:
        opened_by: list[int] = []

        class Sized(list[int]):
            def __iter__(self) -> Iterator[int]:
                platform.point("opening")
                opened_by.append(get_ident())
                return super().__iter__()

        assert from_iterable(Sized([1, 2]), blocking=True).run() == 2
        assert len(opened_by) == 1
        assert get_ident() not in opened_by

    explore(scenario, seeds[:100])


def test_async_iterable_is_closed_once_and_its_loop_ends(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        happened: list[str] = []

        async def items() -> AsyncIterator[int]:
            happened.append("opened")
            try:
                for number in range(3):
                    await asyncio.sleep(platform.random.choice([0, 1]))
                    yield number
            finally:
                await asyncio.sleep(0)
                happened.append("closed")

        subscriber = Controlled(platform)
        from_async_iterable(items).subscribe(subscriber)
        thread = subscriber.subscription._thread
        cancels = platform.random.random() < 0.5
        actions: list[Callable[[], object]] = [each(subscriber.request, [2] * 2)]
        if cancels:
            actions.append(subscriber.subscription.cancel)
        join(platform, *actions)
        thread.join()
        assert subscriber.ends == ["completed"] or cancels
        if subscriber.ends:
            assert subscriber.items == [0, 1, 2]
        assert happened in ([], ["opened", "closed"])

    explore(scenario, seeds)


def test_async_iterator_is_woken_for_every_item_of_another_thread(seeds: Sequence[int]) -> None:
    """F42: no timeout helps here, so a wake-up that is lost is a deadlock of the run."""

    def scenario(platform: ControlledPlatform) -> None:
        taken = platform.event()

        def source() -> Iterator[int]:
            # The next signal, which would make up for a wake-up that was lost, waits for this item to be taken.
            for number in range(5):
                yield number
                taken.wait()
                taken.clear()

        async def consume() -> list[int]:
            got: list[int] = []
            async for item in from_iterable(source, blocking=True):
                got.append(item)
                taken.set()
            return got

        loop = platform.event_loop()
        try:
            assert loop.run_until_complete(consume()) == list(range(5))
        finally:
            loop.close()

    explore(scenario, seeds)


def test_loop_that_was_closed_is_noticed_by_one_of_several(seeds: Sequence[int], log: Log) -> None:
    """F44: one end and one warning, though two ask and one cancels at the same time."""

    async def items() -> AsyncIterator[int]:
        yield 1

    def scenario(platform: ControlledPlatform) -> None:
        class Offering(Controlled):
            def event_loop(self) -> asyncio.AbstractEventLoop:
                return loop

        class Counting(AsyncIterableEmitter[int]):
            def _release(self) -> None:
                releases.append("released")
                super()._release()

        releases: list[str] = []
        loop = platform.event_loop()
        subscriber = Offering(platform)
        subscription = Counting(subscriber, platform, items, loop)
        subscription.start()
        loop.close()
        log.records.clear()
        ask = each(subscriber.request, [1, 1])
        cancels = platform.random.random() < 0.5
        join(platform, ask, ask, *[subscription.cancel] * cancels)
        assert len(subscriber.ends) == 1 or cancels
        assert len(log.records) <= 1
        assert releases == ["released"]

    explore(scenario, seeds)


def test_async_iterator_gets_every_item_of_another_thread(seeds: Sequence[int]) -> None:
    """F35: though the waiting task is cancelled by a timeout now and then; a lost wake-up would be a deadlock."""

    def scenario(platform: ControlledPlatform) -> None:
        length = 5

        def source() -> Iterator[int]:
            for number in range(length):
                platform.point("in the source")
                if platform.random.random() < 0.3:
                    platform.sleep(1)
                yield number

        async def consume() -> list[int]:
            got: list[int] = []
            items = iterate(from_iterable(source, blocking=True))
            while True:
                try:
                    async with asyncio.timeout(0.5):
                        got.append(await anext(items))
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return got

        loop = platform.event_loop()
        try:
            assert loop.run_until_complete(consume()) == list(range(length))
        finally:
            loop.close()

    explore(scenario, seeds)


def test_async_iterator_closed_while_the_source_emits(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        closed = platform.event()

        def source() -> Iterator[int]:
            try:
                yield from range(3 * PREFETCH)
            finally:
                closed.set()

        async def consume() -> None:
            async with Flowable.from_iterable(source, blocking=True).stream() as items:
                async for item in items:
                    if item == 2:
                        break

        loop = platform.event_loop()
        try:
            loop.run_until_complete(consume())
        finally:
            loop.close()
        closed.wait()

    explore(scenario, seeds[: len(seeds) // 5])


def test_run_comes_back_however_the_end_falls(seeds: Sequence[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        assert from_iterable(lambda: deque([1, 2, 3]), blocking=True).run() == 3

    explore(scenario, seeds)
