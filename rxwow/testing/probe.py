"""SubscriberProbe: a subscriber that asks by hand, writes down what it gets and notes what breaks the rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Final, TypeVar

from rxwow.platform import current_platform
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription
from rxwow.testing.news import News
from rxwow.testing.signals import Breach, Signal

__all__ = ["BatchSubscriberProbe", "SubscriberProbe"]

T = TypeVar("T")

_SHOWN: Final = 20
"""How many of the last signals an error shows."""


class SubscriberProbe(Subscriber[T]):
    """A subscriber for tests: it asks by hand, and all that happens is in its `signals`.

    It works on real threads and on those of a controlled platform; make it where it is used, inside the scenario. It
    notes in `breaches` what breaks the rules of Reactive Streams and can be seen from here: §1.1 (more than was
    requested), §1.3 (two signals at a time), §1.4 (an error that is none), §1.7 (a signal after the end), §1.9 (a
    signal before `on_subscribe`), §2.12 (`on_subscribe` twice) and §3.3 (a signal inside another on one stack).

    `_lock` guards `_inside` and the appending to what is public here. Those lists only grow, so they may be read
    without it.

    Args:
        demand: what is requested inside `on_subscribe`; 0 for nothing.
        on_item: called with each item, inside the signal that brought it; what it raises goes to the source.
        patience: seconds that a wait takes at most.
        loop: what `event_loop()` offers to a source that needs an event loop; None for none.

    >>> from rxwow import Flowable
    >>> probe = SubscriberProbe()
    >>> handle = Flowable.from_iterable("abc").subscribe(probe)
    >>> probe.request(2)
    >>> probe.items
    ['a', 'b']
    >>> [signal.name for signal in probe.signals]
    ['on_subscribe', 'request', 'on_next', 'on_next']
    >>> probe.check()
    """

    def __init__(
        self,
        demand: int = 0,
        *,
        on_item: Callable[[T], object] | None = None,
        patience: float = 5.0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.signals: list[Signal] = []
        self.items: list[T] = []
        self.errors: list[Exception] = []
        self.completions = 0
        self.breaches: list[Breach] = []
        self.requested = 0
        """The sum of all valid requests."""
        self.cancelled = False
        self.deepest = 0
        """Most signals inside each other on one stack, `on_subscribe` not counted; 1 is what there should be."""
        self.on_item = on_item
        self.patience = patience
        self._demand = demand
        self._loop = loop
        self._subscription: Subscription | None = None
        self._platform = current_platform()
        self._lock = self._platform.lock()
        self._inside: list[tuple[int, str]] = []
        self._news = News(self._platform)

    # What the test does.

    @property
    def subscription(self) -> Subscription:
        """What `on_subscribe` brought; an AssertionError before that."""
        if self._subscription is None:
            raise AssertionError("on_subscribe was not called")
        return self._subscription

    @property
    def subscribed(self) -> bool:
        """Whether `on_subscribe` was called."""
        return self._subscription is not None

    @property
    def ended(self) -> bool:
        """Whether `on_error` or `on_completed` was called."""
        return bool(self.errors or self.completions)

    def request(self, n: int) -> None:
        """Ask for `n` more items; any value is passed on."""
        subscription = self.subscription
        with self._lock:
            # Before the source knows: it may emit on another thread before its `request` returns.
            if is_valid_request(n):
                self.requested += n
            self._record("request", n)
        subscription.request(n)

    def cancel(self) -> None:
        """Cancel the subscription."""
        subscription = self.subscription
        with self._lock:
            self.cancelled = True
            self._record("cancel", None)
        subscription.cancel()

    def wait_until(self, condition: Callable[[], object], patience: float | None = None) -> None:
        """Wait until a condition on what came holds; it is looked at after each signal.

        Args:
            condition: called without a lock held.
            patience: seconds to wait at most; the probe's own if None.

        Raises:
            AssertionError: it did not hold in time; the message shows the last signals.
        """
        if not self._news.wait_until(condition, self.patience if patience is None else patience):
            raise AssertionError(f"waited in vain; {self}")

    def wait_for_items(self, count: int) -> Sequence[T]:
        """Wait until there are `count` items in all; return them all.

        Raises:
            AssertionError: they did not come in time, or the stream ended before.
        """
        self.wait_until(lambda: len(self.items) >= count or self.ended)
        if len(self.items) < count:
            raise AssertionError(f"the stream ended before item {count}; {self}")
        return self.items

    def wait_for_end(self) -> None:
        """Wait for `on_error` or `on_completed`.

        Raises:
            AssertionError: neither came in time.
        """
        self.wait_until(lambda: self.ended)

    def check(self) -> None:
        """Raise an AssertionError that shows the breaches if there are any."""
        if self.breaches:
            raise AssertionError("; ".join(map(str, self.breaches)) + f"; {self}")

    def __str__(self) -> str:
        shown = [str(signal) for signal in self.signals[-_SHOWN:]] or ["none"]
        if len(self.signals) > _SHOWN:
            shown.insert(0, f"({len(self.signals) - _SHOWN} before)")
        lines = "\n  ".join(shown)
        return f"the probe requested {self.requested} and got {len(self.items)} items; its signals:\n  {lines}"

    # What the source does.

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Offer the loop that the probe was made with."""
        return self._loop

    def on_subscribe(self, subscription: Subscription) -> None:
        self._begin("on_subscribe", subscription)
        try:
            if self._subscription is not None:
                # §2.5: a subscriber that has one already refuses the other.
                subscription.cancel()
                return
            self._subscription = subscription
            self._ask_first()
        finally:
            self._end("on_subscribe")

    def on_next(self, value: T) -> None:
        self._take("on_next", value, (value,))

    def on_error(self, error: Exception) -> None:
        self._begin("on_error", error)
        self._end("on_error")

    def on_completed(self) -> None:
        self._begin("on_completed", None)
        self._end("on_completed")

    def _ask_first(self) -> None:
        if self._demand:
            self.request(self._demand)

    def _take(self, name: str, value: Any, items: Sequence[T]) -> None:
        self._begin(name, value, items)
        try:
            if self.on_item is not None:
                for item in items:
                    self.on_item(item)
        finally:
            self._end(name)

    def _begin(self, name: str, value: Any, items: Sequence[T] = ()) -> None:
        with self._lock:
            self._record(name, value)
            self._look_at_order(name)
            self._look_at_stack(name)
            if name == "on_error":
                self.errors.append(value)
                if not isinstance(value, Exception):
                    self._breach("1.4", f"on_error brought {value!r}, which is no Exception")
            elif name == "on_completed":
                self.completions += 1
            self.items.extend(items)
            if items and len(self.items) > self.requested:
                self._breach("1.1", f"{len(self.items)} items for a demand of {self.requested}")
            if name == "on_next_batch" and not items:
                self._breach("1.1", "a batch without an item")
            self._inside.append((get_ident(), name))

    def _end(self, name: str) -> None:
        with self._lock:
            self._inside.remove((get_ident(), name))
        self._news.tell()

    # With the lock held.

    def _record(self, name: str, value: Any) -> None:
        self.signals.append(Signal(len(self.signals), name, value, get_ident(), self._platform.monotonic()))

    def _look_at_order(self, name: str) -> None:
        if self.ended:
            self._breach("1.7", f"{name} after the end")
        if name == "on_subscribe":
            if self._subscription is not None:
                self._breach("2.12", "on_subscribe was called twice")
        elif self._subscription is None:
            self._breach("1.9", f"{name} before on_subscribe")

    def _look_at_stack(self, name: str) -> None:
        me = get_ident()
        beside = [other for thread, other in self._inside if thread != me]
        if beside:
            self._breach("1.3", f"{name} during {beside[0]} on another thread")
        if name != "on_subscribe":
            around = [other for thread, other in self._inside if thread == me and other != "on_subscribe"]
            self.deepest = max(self.deepest, len(around) + 1)
            if around:
                self._breach("3.3", f"{name} inside {around[-1]}, on the same stack")

    def _breach(self, rule: str, text: str) -> None:
        self.breaches.append(Breach(rule, text))


class BatchSubscriberProbe(SubscriberProbe[T], BatchSubscriber[T]):
    """A `SubscriberProbe` that takes batches; a batch is one signal.

    >>> from rxwow import Flowable
    >>> probe = BatchSubscriberProbe(demand=10)
    >>> handle = Flowable.from_iterable("abc").subscribe(probe)
    >>> probe.items, sum(probe.batches)
    (['a', 'b', 'c'], 3)
    """

    def __init__(
        self,
        demand: int = 0,
        *,
        on_item: Callable[[T], object] | None = None,
        patience: float = 5.0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(demand, on_item=on_item, patience=patience, loop=loop)
        self.batches: list[int] = []
        """How many items each batch had."""

    def on_next_batch(self, items: Sequence[T]) -> None:
        with self._lock:
            self.batches.append(len(items))
        self._take("on_next_batch", items, items)
