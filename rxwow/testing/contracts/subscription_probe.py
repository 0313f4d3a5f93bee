"""SubscriptionProbe: a subscription that writes down what is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

from rxwow.platform import current_platform
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.protocols import Subscription
from rxwow.testing.news import News
from rxwow.testing.signals import Breach, Signal

__all__ = ["SubscriptionProbe"]


class SubscriptionProbe(Subscription):
    """What a test gives to a subscriber in `on_subscribe`.

    `_lock` guards all fields but `_on_request`. `calls` only grows, so it may be read without it.

    Args:
        on_request: called with n inside each `request`; None for a subscription that emits nothing by itself.

    >>> subscription = SubscriptionProbe()
    >>> subscription.request(3)
    >>> [call.name for call in subscription.calls], subscription.take(5)
    (['request'], 3)
    """

    def __init__(self, on_request: Callable[[int], object] | None = None) -> None:
        self.calls: list[Signal] = []
        self.breaches: list[Breach] = []
        self._on_request = on_request
        self._demand = 0
        self._inside: list[int] = []
        self._platform = current_platform()
        self._lock = self._platform.lock()
        self._news = News(self._platform)

    def request(self, n: int) -> None:
        self._begin("request", n)
        try:
            if self._on_request is not None:
                self._on_request(n)
        finally:
            self._end()

    def cancel(self) -> None:
        self._begin("cancel", None)
        self._end()

    @property
    def demand(self) -> int:
        """How many items were requested and not yet taken."""
        return self._demand

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return any(call.name == "cancel" for call in self.calls)

    @property
    def requests(self) -> list[Any]:
        """What was requested, call by call."""
        return [call.value for call in self.calls if call.name == "request"]

    def take(self, most: int) -> int:
        """Use up demand; return how many items may be given."""
        with self._lock:
            taken = min(most, self._demand)
            self._demand -= taken
            return taken

    def wait_until(self, condition: Callable[[], object], patience: float) -> bool:
        """Wait until a condition on the calls holds; return whether it did in time (seconds)."""
        return self._news.wait_until(condition, patience)

    def __str__(self) -> str:
        calls = [str(call) for call in self.calls[-20:]] or ["none"]
        return "calls of the subscription:\n  " + "\n  ".join(calls)

    def _begin(self, name: str, value: Any) -> None:
        me = get_ident()
        with self._lock:
            self.calls.append(Signal(len(self.calls), name, value, me, self._platform.monotonic()))
            if any(thread != me for thread in self._inside):
                self.breaches.append(Breach("2.7", f"{name} during a call on another thread"))
            self._inside.append(me)
            if name == "request" and is_valid_request(value):
                self._demand += value
        self._news.tell()

    def _end(self) -> None:
        with self._lock:
            self._inside.remove(get_ident())
