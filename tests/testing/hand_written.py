"""A correct publisher written by hand, without the library's own emitter, in steps that can be broken one by one."""

from __future__ import annotations

import threading
import weakref
from typing import Any, ClassVar

from rxwow.errors import InvalidRequestError
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

MOST_IN_A_BATCH = 3


class HandWritten(Subscription):
    """One subscription; emits numbers on the thread that requests. `lock` guards all that changes."""

    def __init__(self, publisher: HandWrittenPublisher, subscriber: Subscriber[Any]) -> None:
        self.publisher = publisher
        self.subscriber: Subscriber[Any] | None = subscriber
        # For those that signal when they must not.
        self.last = weakref.ref(subscriber)
        self.count = publisher.count
        self.error = publisher.error
        self.given = 0
        self.demand = 0
        self.refused: Any = None
        self.done = False
        self.ended = False
        self.lock = threading.Lock()
        # on_subscribe is the first signal.
        self.drainer: int | None = None
        self.news = False

    def start(self) -> None:
        self.drainer = threading.get_ident()
        assert self.subscriber is not None
        self.subscriber.on_subscribe(self)
        self.drain()

    # Called by the subscriber.

    def request(self, n: int) -> None:
        with self.lock:
            if n < 1:
                self.refuse(n)
            else:
                self.add(n)
        self.look()

    def cancel(self) -> None:
        with self.lock:
            self.done = True
        self.look()

    # With the lock held.

    def refuse(self, n: int) -> None:
        if self.refused is None:
            self.refused = n

    def add(self, n: int) -> None:
        self.demand += n

    # The drain.

    def look(self) -> None:
        """Drain, unless it is done already: then leave a note."""
        with self.lock:
            if self.drainer is not None:
                self.news = True
                return
            self.drainer = threading.get_ident()
        self.drain()

    def drain(self) -> None:
        while True:
            self.emit_all()
            with self.lock:
                if not self.news:
                    if self.done:
                        self.let_go()
                    self.drainer = None
                    return
                self.news = False

    def emit_all(self) -> None:
        while not self.done and self.subscriber is not None:
            if self.refused is not None:
                self.end(InvalidRequestError(self.refused))
            elif self.given == self.count:
                self.end(self.error)
            elif self.demand == 0:
                return
            else:
                self.give(self.subscriber)

    def give(self, subscriber: Subscriber[Any]) -> None:
        batch = isinstance(subscriber, BatchSubscriber)
        with self.lock:
            size = min(self.demand, self.count - self.given, MOST_IN_A_BATCH if batch else 1)
            self.demand -= size
            items = list(range(self.given, self.given + size))
            self.given += size
        try:
            if isinstance(subscriber, BatchSubscriber):
                subscriber.on_next_batch(items)
            else:
                subscriber.on_next(items[0])
        except Exception:  # noqa: BLE001 - whatever it raises
            self.subscriber_failed()

    def subscriber_failed(self) -> None:
        self.cancel()

    def end(self, error: Exception | None) -> None:
        assert self.subscriber is not None
        self.done = self.ended = True
        if error is None:
            self.subscriber.on_completed()
        else:
            self.subscriber.on_error(error)

    def let_go(self) -> None:
        self.subscriber = None


class HandWrittenPublisher:
    """Numbers from 0, then the error or the end."""

    subscription: ClassVar[type[HandWritten]] = HandWritten

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.active: list[HandWritten] = []

    def subscribe(self, subscriber: Subscriber[Any], /) -> object:
        self.connect(subscriber).start()
        return None

    def connect(self, subscriber: Subscriber[Any]) -> HandWritten:
        return self.subscription(self, subscriber)
