"""share: one subscription to the source for several subscribers, at the pace of the slowest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable, abc

from rxwow.platform import current_platform
from rxwow.streams.connection import MOST_AHEAD, Connection, Sharer
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["MOST_AHEAD", "Shared", "share"]

T = TypeVar("T")


def share() -> Callable[[Observable[T]], Flowable[T]]:
    """Give all subscribers the items of one subscription to the source.

    The source is subscribed with the first subscriber, cancelled when the last has gone, and subscribed anew for one
    that comes later. When it has ended, those that come later get that end and nothing else, as with RxPY's `share`.

    The slowest subscriber sets the pace: the source is asked for the smallest demand that any subscriber has left, so
    one that requests nothing holds up all, and one that leaves may let the others go on. It is never asked for more
    than 256 items ahead (`MOST_AHEAD`), whatever is requested, and no subscriber has more than that many waiting.

    A subscriber gets what the source sends after it has come. What had been asked for by then comes without demand of
    its own; that waits for its requests, and nothing more is asked for meanwhile.

    Returns:
        An operator from an Observable to a Flowable. Each subscriber gets its items in the source's order, on the
        thread that brings them, or on its own when it requests what waits. All get an item before the next one comes,
        unless all take batches.

    >>> shared = Flowable.from_iterable(range(3)).pipe(share())
    >>> from reactivex.scheduler import VirtualTimeScheduler
    >>> scheduler = VirtualTimeScheduler()
    >>> for name in ("a", "b"):
    ...     _ = shared.subscribe(lambda number, name=name: print(name, number), scheduler=scheduler)
    >>> scheduler.start()
    a 0
    b 0
    a 1
    b 1
    a 2
    b 2
    """

    def operator(source: Observable[T]) -> Flowable[T]:
        shared = Shared(Flowable.from_observable(source))
        return Flowable(shared.publish)

    return operator


class Shared(Generic[T]):
    """What the subscribers have in common: the connection that new ones join, and the end of the source.

    `lock` guards all fields, those of the connections and what the sharers say that it guards. It outlives the
    subscriptions, so it is made with the operator. Nothing that could wait is called with it held.
    """

    __slots__ = ("connection", "ended", "error", "lock", "source")

    def __init__(self, source: Flowable[T]) -> None:
        self.source = source
        self.lock = current_platform().lock()
        self.connection: Connection[T] | None = None
        self.ended = False
        self.error: Exception | None = None

    def publish(self, subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
        sharer = Sharer(subscriber, current_platform(), self)
        connects: Connection[T] | None = None
        with self.lock:
            ended, error = self.ended, self.error
            if not ended:
                if self.connection is None:
                    self.connection = connects = Connection(self)
                self.connection.join(sharer)
        if ended:
            sharer.end(error)
        try:
            sharer.start()
        finally:
            # Also after an exit from `on_subscribe`: another subscriber may have joined.
            if connects is not None:
                connects.connect(scheduler)
        return sharer
