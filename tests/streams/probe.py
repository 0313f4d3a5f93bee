"""Subscribers that write down what they get, and complain of what breaks the rules."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

PATIENCE_S = 20


class Probe(Subscriber[Any]):
    """Asks for `demand` at first; `on_item` is called with each item, inside `on_next`."""

    offered_loop: asyncio.AbstractEventLoop | None = None
    """The loop that this subscriber offers to sources; None for none."""

    takes_batches: ClassVar[bool] = False

    def __init__(self, demand: int = 0, on_item: Callable[[Any], object] | None = None) -> None:
        self.items: list[Any] = []
        self.errors: list[Exception] = []
        self.completions = 0
        self.threads: list[int] = []
        self.breaches: list[str] = []
        self.requested = 0
        self.on_item = on_item
        self._demand = demand
        self._subscription: Subscription | None = None
        self._busy = threading.Lock()
        self._news = threading.Condition()

    # What the test does.

    @property
    def subscription(self) -> Subscription:
        assert self._subscription is not None, "on_subscribe was not called"
        return self._subscription

    def request(self, n: int) -> None:
        self.requested += n
        self.subscription.request(n)

    def cancel(self) -> None:
        self.subscription.cancel()

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        return self.offered_loop

    @property
    def ended(self) -> bool:
        return bool(self.errors or self.completions)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on what came holds; it is looked at after each signal."""
        with self._news:
            assert self._news.wait_for(condition, PATIENCE_S), f"waited in vain; got {self}"

    def wait_for_items(self, count: int) -> None:
        self.wait_until(lambda: len(self.items) >= count or self.ended)

    def wait_for_end(self) -> None:
        self.wait_until(lambda: self.ended)

    def check(self) -> None:
        assert self.breaches == []

    def __str__(self) -> str:
        return f"{len(self.items)} items, errors {self.errors}, {self.completions} completions, {self.breaches}"

    # What the source does.

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not None:
            self.breaches.append("on_subscribe came twice (§2.5)")
        if self.items or self.ended:
            self.breaches.append("on_subscribe was not the first (§1.9)")
        self._subscription = subscription
        if self._demand:
            self.request(self._demand)

    def on_next(self, value: Any) -> None:
        self._signal(lambda: self._take((value,)))

    def on_error(self, error: Exception) -> None:
        self._signal(lambda: self.errors.append(error))

    def on_completed(self) -> None:
        def complete() -> None:
            self.completions += 1

        self._signal(complete)

    def _signal(self, take: Callable[[], None]) -> None:
        # Not reentrant, so a signal inside a signal shows as well as one beside it.
        if not self._busy.acquire(blocking=False):
            self.breaches.append("two signals at a time (§1.3)")
            return
        try:
            if self._subscription is None:
                self.breaches.append("a signal before on_subscribe (§1.9)")
            if self.ended:
                self.breaches.append("a signal after the end (§1.7)")
            self.threads.append(threading.get_ident())
            take()
        finally:
            self._busy.release()
            with self._news:
                self._news.notify_all()

    def _take(self, values: Sequence[Any]) -> None:
        for value in values:
            self.items.append(value)
            if len(self.items) > self.requested:
                self.breaches.append("more items than were requested (§1.1)")
            if self.on_item is not None:
                self.on_item(value)


class BatchProbe(Probe, BatchSubscriber[Any]):
    """A probe that takes batches, and notes how large they were."""

    takes_batches = True

    def __init__(self, demand: int = 0, on_item: Callable[[Any], object] | None = None) -> None:
        super().__init__(demand, on_item)
        self.batches: list[int] = []

    def on_next(self, value: Any) -> None:
        self.breaches.append("on_next was called where on_next_batch can be")

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self.batches.append(len(items))
        self._signal(lambda: self._take(items))


class Log(logging.Handler):
    """What was logged on `rxwow.streams`, by any thread."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self._news = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._news:
            self.records.append(record)
            self._news.notify_all()

    def wait_for(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.records) >= count, PATIENCE_S), self.records

    @property
    def levels(self) -> list[str]:
        return [record.levelname for record in self.records]

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]


def wait_until_ended(*, prefix: str) -> None:
    """Wait until no thread of that name is alive."""
    for thread in threading.enumerate():
        if thread.name.startswith(prefix):
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name} is still alive"


async def eventually(condition: Callable[[], object], *, collecting: bool = False) -> None:
    """Let the loop turn until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            if collecting:
                gc.collect()
            await asyncio.sleep(0.001)


def is_gone(gone: threading.Event) -> bool:
    """Wait for a finalizer; without a GIL what nobody refers to may live until the collector comes."""
    deadline = time.monotonic() + PATIENCE_S
    while not gone.wait(0.05):
        gc.collect()
        if time.monotonic() > deadline:
            return False
    return True
