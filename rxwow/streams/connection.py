"""One subscription to a source that several subscribers share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from reactivex import abc

from rxwow.platform import Platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import Emitter, is_valid_request
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription
from rxwow.streams.relay import offered_loop

if TYPE_CHECKING:
    from rxwow.streams.sharing import Shared

__all__ = ["MOST_AHEAD", "Connection", "Sharer"]

T = TypeVar("T")

MOST_AHEAD: Final = 256
"""How many items the source is asked for ahead at most, however much is requested."""

REPLENISH: Final = MOST_AHEAD * 3 // 4
"""How much room there has to be before more is asked for, while items are on their way."""

PORTION: Final = MOST_AHEAD // 4
"""What one emission takes, so that room is made before all is taken."""


class Connection(BatchSubscriber[T]):
    """One subscription to the source. `Shared.lock` guards all fields; `_asked` is what is asked for and not here."""

    __slots__ = ("_asked", "_shared", "_sharers", "_upstream")

    def __init__(self, shared: Shared[T]) -> None:
        self._shared = shared
        # A dict for its order; the hash of a sharer is its identity, so no user code runs in it.
        self._sharers: dict[Sharer[T], None] = {}
        self._upstream: Subscription | None = None
        self._asked = 0

    # The subscribers' side.

    def join(self, sharer: Sharer[T]) -> None:
        """Let a subscriber have what comes from now on; called with the lock held."""
        sharer.connection = self
        self._sharers[sharer] = None

    def connect(self, scheduler: abc.SchedulerBase | None) -> None:
        """Subscribe to the source, unless the subscribers are gone by now."""
        if not self._sharers:
            return
        try:
            self._shared.source.subscribe(self, scheduler=scheduler)
        except BaseException as error:
            self._end(as_error(error))
            if not is_contained(error):
                raise

    def leave(self, sharer: Sharer[T]) -> None:
        """Let a subscriber go, and the source with the last. Idempotent."""
        shared = self._shared
        amount = 0
        with shared.lock:
            if sharer not in self._sharers:
                return
            del self._sharers[sharer]
            upstream = self._upstream
            if self._sharers:
                amount = self._claim(1)
            else:
                shared.connection = self._upstream = None
            left = bool(self._sharers)
        if left:
            self._ask(upstream, amount)
        elif upstream is not None:
            upstream.cancel()

    def replenish(self) -> None:
        """Ask for what all subscribers have asked for by now."""
        with self._shared.lock:
            amount, upstream = self._claim(1), self._upstream
        self._ask(upstream, amount)

    def taken(self, sharer: Sharer[T], count: int) -> None:
        """Note that a subscriber has taken items that waited for it."""
        with self._shared.lock:
            sharer.untaken -= count
            # Whoever is the last to be done asks for what there is; while items are on their way, many at a time.
            last = not self._asked and not sharer.untaken
            amount, upstream = self._claim(1 if last else REPLENISH), self._upstream
        self._ask(upstream, amount)

    def _ask(self, upstream: Subscription | None, amount: int) -> None:
        if upstream is None or not amount:
            return
        try:
            upstream.request(amount)
        except BaseException as error:
            self._end(as_error(error))
            raise

    def _claim(self, least: int) -> int:
        """Take what all subscribers have demand and room for, if it is worth a request."""
        asked = self._asked
        # Looked at first, since the smallest demand is looked for among all subscribers.
        if MOST_AHEAD - asked < least or self._upstream is None or not self._sharers:
            return 0
        amount = min(min(sharer.allowance, MOST_AHEAD - sharer.untaken) for sharer in self._sharers) - asked
        if amount < least:
            return 0
        self._asked += amount
        return amount

    # The source's side.

    def on_subscribe(self, subscription: Subscription) -> None:
        with self._shared.lock:
            cancels = not self._sharers
            if not cancels:
                self._upstream = subscription
            amount = self._claim(1)
        if cancels:
            subscription.cancel()
        else:
            self._ask(subscription, amount)

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Offer an async source the loop that the first subscriber offers."""
        with self._shared.lock:
            sharer = next(iter(self._sharers), None)
        return None if sharer is None else sharer.offered_loop()

    def on_next(self, value: T) -> None:
        self.on_next_batch((value,))

    def on_next_batch(self, items: Sequence[T]) -> None:
        start, end = 0, len(items)
        while start < end:
            with self._shared.lock:
                sharers = list(self._sharers)
                if not sharers:
                    return
                # Item by item, unless nobody minds: who comes or goes from inside `on_next` does so between two items.
                stop = end if all(sharer.takes_batches for sharer in sharers) else start + 1
                part = items[start:stop]
                for sharer in sharers:
                    sharer.put(part)
                self._asked = max(0, self._asked - len(part))
            try:
                for sharer in sharers:
                    sharer.wake()
            except BaseException as error:
                # An exit, which goes on from here; the source ends without a word.
                self._end(as_error(error))
                raise
            start = stop

    def on_error(self, error: Exception) -> None:
        self._end(error)

    def on_completed(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        shared = self._shared
        with shared.lock:
            sharers = list(self._sharers)
            self._sharers.clear()
            self._upstream = None
            if sharers:
                shared.connection = None
                shared.ended, shared.error = True, error
        for sharer in sharers:
            sharer.end(error)


class Sharer(Emitter[T]):
    """Emits to one subscriber.

    `Shared.lock` guards `connection`, `_queue`, `allowance` (what was requested less what came) and `untaken` (what
    came less what the subscriber's `on_next` is done with).
    """

    __slots__ = ("_queue", "_shared", "allowance", "connection", "takes_batches", "untaken")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, shared: Shared[T]) -> None:
        super().__init__(subscriber, platform)
        self.takes_batches = isinstance(subscriber, BatchSubscriber)
        self.connection: Connection[T] | None = None
        self.allowance = 0
        self.untaken = 0
        self._shared = shared
        self._queue: deque[T] = deque()

    def request(self, n: int) -> None:
        if self.connection is None or not is_valid_request(n):
            super().request(n)
            return
        with self._shared.lock:
            self.allowance += n
        # What waits here comes before what is asked for now.
        super().request(n)
        self.connection.replenish()

    def put(self, items: Sequence[T]) -> None:
        """Add items; called with the lock held, `wake` must follow without it."""
        self._queue.extend(items)
        self.allowance -= len(items)
        self.untaken += len(items)

    def end(self, error: Exception | None) -> None:
        """Emit the end of the source after what waits."""
        if error is None:
            self.complete()
        else:
            self.fail(error)

    def offered_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that the subscriber offers."""
        return offered_loop(self._subscriber)

    def _has_items(self) -> bool:
        return bool(self._queue)

    def _emit(self, limit: int) -> int:
        with self._shared.lock:
            items = [self._queue.popleft() for _ in range(min(limit, len(self._queue), PORTION))]
        if not items:
            return 0
        try:
            self._deliver(items)
        finally:
            if self.connection is not None:
                self.connection.taken(self, len(items))
        return len(items)

    def _stop(self) -> None:
        if self.connection is not None:
            self.connection.leave(self)

    def _release(self) -> None:
        with self._shared.lock:
            # Swapped, as the last reference to an item may run code of the user's.
            queue, self._queue = self._queue, deque()
        del queue
