"""Every source keeps the rules of Reactive Streams."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import reactivex
from reactivex.scheduler import NewThreadScheduler

from rxwow.streams.async_iterables import from_async_iterable
from rxwow.streams.constants import empty, throw
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.observables import from_observable
from rxwow.testing.contracts import PublisherContract
from rxwow.testing.source_probe import SourceProbe
from tests.streams.sources import SourceError

MOST_KEPT = 2000


def failing() -> Iterator[int]:
    yield from range(3)
    raise SourceError


async def awaiting(count: int) -> AsyncIterator[int]:
    for number in range(count):
        # Some items are there at once, some are not.
        if number % 3 == 0:
            await asyncio.sleep(0)
        yield number


async def awaiting_and_failing() -> AsyncIterator[int]:
    yield 0
    await asyncio.sleep(0)
    raise SourceError


class TestIterable(PublisherContract):
    """Of known length."""

    emits_asynchronously = False

    def create_publisher(self, count: int) -> Flowable[Any]:
        return from_iterable(range(count))

    def create_failed_publisher(self) -> Flowable[Any]:
        return from_iterable(failing)


class TestGenerators(PublisherContract):
    """Of a length that nobody knows."""

    emits_asynchronously = False

    def create_publisher(self, count: int) -> Flowable[Any]:
        return from_iterable(lambda: (number for number in range(count)))

    def create_failed_publisher(self) -> Flowable[Any]:
        return from_iterable(failing)


class TestBlockingIterable(PublisherContract):
    def create_publisher(self, count: int) -> Flowable[Any]:
        return from_iterable(range(count), blocking=True)

    def create_failed_publisher(self) -> Flowable[Any]:
        return from_iterable(failing, blocking=True)


class TestAsyncIterable(PublisherContract):
    def create_publisher(self, count: int) -> Flowable[Any]:
        return from_async_iterable(lambda: awaiting(count))

    def create_failed_publisher(self) -> Flowable[Any]:
        return from_async_iterable(awaiting_and_failing)


class TestColdObservable(PublisherContract):
    """It sends everything while it is subscribed, so all of it has to be kept."""

    emits_asynchronously = False
    max_count = MOST_KEPT

    def create_publisher(self, count: int) -> Flowable[Any]:
        return from_observable(reactivex.range(count), on_overflow="buffer", capacity=MOST_KEPT)

    def create_failed_publisher(self) -> Flowable[Any]:
        return from_observable(reactivex.throw(SourceError()))


class TestBlockedObservable(PublisherContract):
    """It sends on a thread that is held up."""

    def create_publisher(self, count: int) -> Flowable[Any]:
        return from_observable(reactivex.from_iterable(range(count), NewThreadScheduler()), capacity=1)

    def create_failed_publisher(self) -> Flowable[Any]:
        return from_observable(reactivex.throw(SourceError(), NewThreadScheduler()))


class TestConstants(PublisherContract):
    emits_asynchronously = False
    max_count = 0

    def create_publisher(self, count: int) -> Flowable[Any]:
        return empty()

    def create_failed_publisher(self) -> Flowable[Any]:
        return throw(SourceError())


class TestSourceProbe(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Flowable[Any]:
        return SourceProbe(range(count))

    def create_failed_publisher(self) -> Flowable[Any]:
        return SourceProbe(failing())
