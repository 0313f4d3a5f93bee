"""A source in the hands of a test: it sends what it is told to, whether that was asked for or not."""

from __future__ import annotations

import threading
from typing import Any

from rxwow import Flowable
from rxwow.streams.protocols import Subscriber, Subscription


class PushedSource(Subscription):
    """Notes what is asked of it, and goes on sending after a cancel, as a source on another thread may for a moment."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.requests_after_cancel: list[int] = []
        self.cancelled = threading.Event()
        self.subscriber: Subscriber[Any]
        self.flowable: Flowable[Any] = Flowable(self._publish)

    def _publish(self, subscriber: Subscriber[Any], _: object) -> Subscription:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)
        return self

    def push(self, *items: Any) -> None:
        for item in items:
            self.subscriber.on_next(item)

    def request(self, n: int) -> None:
        (self.requests_after_cancel if self.cancelled.is_set() else self.requests).append(n)

    def cancel(self) -> None:
        self.cancelled.set()
