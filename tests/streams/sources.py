"""Every source, so that each rule is tested on each of them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
import reactivex
from reactivex.scheduler import NewThreadScheduler

from rxwow.streams.async_iterables import from_async_iterable
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.observables import from_observable
from tests.streams.probe import PATIENCE_S, BatchProbe, Probe

Iterate = Callable[[], Iterator[Any]]
LoopContext = AbstractContextManager[asyncio.AbstractEventLoop | None]


class SourceError(Exception):
    """What a source of a test fails with."""


@dataclass(frozen=True)
class Source:
    """A way to make a Flowable of what a generator function yields and raises."""

    name: str
    make: Callable[[Iterate], Flowable[Any]]
    on_calling_thread: bool
    """Whether it emits before `request` returns."""
    pulled: bool = True
    """Whether it takes no more than what is requested."""
    offers_loop: bool = False

    def of(self, items: Sequence[Any], error: Exception | None = None) -> Flowable[Any]:
        def iterate() -> Iterator[Any]:
            yield from items
            if error is not None:
                raise error

        return self.make(iterate)


@contextmanager
def loop_on_a_thread() -> Generator[asyncio.AbstractEventLoop]:
    """Run a loop on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop of the test")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextmanager
def probe_for(
    source: Source, demand: int = 0, on_item: Callable[[Any], object] | None = None, *, batches: bool = False
) -> Generator[Probe]:
    """Make a probe, with the loop that the source is to run on; cancel it and check it at the end."""
    probe = (BatchProbe if batches else Probe)(demand, on_item)
    loops: LoopContext = loop_on_a_thread() if source.offers_loop else nullcontext()
    with loops as loop:
        probe.offered_loop = loop
        yield probe
        if probe._subscription is not None:
            probe.cancel()
    probe.check()


def _awaiting(iterate: Iterate) -> Callable[[], AsyncIterator[Any]]:
    async def items() -> AsyncIterator[Any]:
        for number, item in enumerate(iterate()):
            # Some items are there at once, some are not.
            if number % 3 == 0:
                await asyncio.sleep(0)
            yield item

    return items


def _observable(iterate: Iterate, scheduler: Any = None) -> reactivex.Observable[Any]:
    return reactivex.defer(lambda _: reactivex.from_iterable(iterate(), scheduler))


SOURCES = [
    Source("iterable", from_iterable, on_calling_thread=True),
    Source("blocking iterable", lambda iterate: from_iterable(iterate, blocking=True), on_calling_thread=False),
    Source("async iterable", lambda iterate: from_async_iterable(_awaiting(iterate)), on_calling_thread=False),
    Source(
        "async iterable on an offered loop",
        lambda iterate: from_async_iterable(_awaiting(iterate)),
        on_calling_thread=False,
        offers_loop=True,
    ),
    Source(
        "observable",
        lambda iterate: from_observable(_observable(iterate), on_overflow="buffer", capacity=200_000),
        on_calling_thread=True,
        pulled=False,
    ),
    Source(
        "observable on a thread",
        lambda iterate: from_observable(_observable(iterate, NewThreadScheduler()), capacity=1),
        on_calling_thread=False,
        pulled=False,
    ),
]

every_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
every_pulled_source = pytest.mark.parametrize(
    "source", [source for source in SOURCES if source.pulled], ids=lambda source: source.name
)
