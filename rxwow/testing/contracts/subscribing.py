"""The publisher's part in the tests of a subscriber: signals one at a time, within the demand."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from rxwow.platform import current_platform
from rxwow.streams.protocols import BatchSubscriber, Subscriber
from rxwow.testing.contracts.contract import require
from rxwow.testing.contracts.subscription_probe import SubscriptionProbe
from rxwow.testing.news import News

if TYPE_CHECKING:
    from rxwow.testing.contracts.subscriber import SubscriberContract

__all__ = ["SubscriberUnderTest"]


class SubscriberUnderTest:
    """A subscriber together with its subscription; its methods give it signals, and raise what it raises.

    `_lock` guards `_signalling`; only the thread that has set it touches `given` and `ended`.

    Args:
        contract: says how to make an item and how to make the subscriber ask.
        subscriber: it has no subscription yet; `subscribe` gives it one.
        in_batches: whether items are given in batches.
        on_request: called with this object inside each `request`.
    """

    def __init__(
        self,
        contract: SubscriberContract,
        subscriber: Subscriber[Any],
        *,
        in_batches: bool,
        on_request: Callable[[SubscriberUnderTest], object] | None,
    ) -> None:
        self.subscriber = subscriber
        self.subscription = SubscriptionProbe(on_request and (lambda _: on_request(self)))
        self.given = 0
        """How many items were given."""
        self.ended = False
        self._contract = contract
        self._in_batches = in_batches
        self._signalling = False
        self._subscribing: int | None = None
        platform = current_platform()
        self._lock = platform.lock()
        self._news = News(platform)

    def subscribe(self) -> None:
        """Give the subscriber its subscription."""
        self._subscribing = get_ident()
        try:
            self.subscriber.on_subscribe(self.subscription)
        finally:
            self._subscribing = None

    def subscribe_again(self) -> SubscriptionProbe:
        """Give the subscriber a second subscription, and return that."""
        second = SubscriptionProbe()
        self._in_turn(lambda: self.subscriber.on_subscribe(second))
        return second

    def ask(self) -> None:
        """Wait for a request, unless there is demand."""
        before = len(self.subscription.requests)
        if self.subscription.demand == 0:
            self._contract.trigger_request(self.subscriber)

        def asked() -> bool:
            return self.subscription.demand > 0 or len(self.subscription.requests) > before

        asks = self.subscription.wait_until(asked, self._contract.patience)
        require(asks, f"it did not request an item; {self.subscription}")

    def give(self, most: int) -> None:
        """Give at most so many items, within the demand."""
        self._in_turn(lambda: self._give(most))

    def end(self, error: Exception | None) -> None:
        """Give the last signal: `on_completed`, or `on_error` if there is an error."""
        self._in_turn(lambda: self._end(error))

    def give_inside_request(self) -> None:
        """Give an item on the thread that requests, unless another signal is being given."""
        if self._may_signal_inside_request():
            self._signal(lambda: self._give(1))

    def end_inside_request(self) -> None:
        """Complete on the thread that requests, unless another signal is being given."""
        if self._may_signal_inside_request():
            self._signal(lambda: self._end(None))

    def _give(self, most: int) -> None:
        numbers = range(self.given, self.given + self.subscription.take(most))
        self.given = numbers.stop
        items = [self._contract.create_item(number) for number in numbers]
        if self._in_batches and isinstance(self.subscriber, BatchSubscriber):
            if items:
                self.subscriber.on_next_batch(items)
        else:
            for item in items:
                self.subscriber.on_next(item)

    def _end(self, error: Exception | None) -> None:
        self.ended = True
        if error is None:
            self.subscriber.on_completed()
        else:
            self.subscriber.on_error(error)

    # Signals are serial (§1.3), whoever gives them.

    def _in_turn(self, signal: Callable[[], object]) -> None:
        if self._news.wait_until(self._take_turn, self._contract.patience):
            self._signal(signal)
            return
        raise AssertionError("a signal inside a request did not come back")

    def _may_signal_inside_request(self) -> bool:
        # Not beside on_subscribe on another thread, nor inside on_next: a publisher bounds the recursion (§3.3).
        return self._subscribing in {None, get_ident()} and not self.ended and self._take_turn()

    def _take_turn(self) -> bool:
        with self._lock:
            taken = not self._signalling
            self._signalling = True
        return taken

    def _signal(self, signal: Callable[[], object]) -> None:
        try:
            signal()
        finally:
            with self._lock:
                self._signalling = False
            self._news.tell()
