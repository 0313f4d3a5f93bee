"""A subscription to the source, at the top of a chain of lifted operators."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reactivex import abc

from rxwow.streams.containment import is_contained
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription

if TYPE_CHECKING:
    from rxwow.streams.chain import Chain

__all__ = ["BatchFeed", "Feed"]


class Feed(Subscriber[Any]):
    """Passes the items of the source to the first operator, which is a plain observer, and keeps count of them.

    `_asked` is written by the drainer of the chain, `_received` by whoever signals; of each there is one at a time.
    Read by the other they may be stale: the feed calls `idle` after the last item that was asked for, and the chain
    looks again. Whether `cancel` or `on_subscribe` comes first doesn't matter, as each looks for the other after its
    own step.
    """

    __slots__ = ("_asked", "_cancelled", "_chain", "_observer", "_on_next", "_received", "_subscription")

    def __init__(self, observer: abc.ObserverBase[Any], chain: Chain) -> None:
        self._observer = observer
        self._on_next = observer.on_next
        self._chain = chain
        self._subscription: Subscription | None = None
        self._cancelled = False
        self._asked = 0
        self._received = 0

    # The chain's side.

    @property
    def subscribed(self) -> bool:
        """Whether it can be asked."""
        return self._subscription is not None

    @property
    def outstanding(self) -> int:
        """How many items were asked for and have not come."""
        return self._asked - self._received

    def ask(self, n: int) -> None:
        subscription = self._subscription
        if subscription is not None:
            self._asked = min(self._asked + n, UNBOUNDED)
            subscription.request(n)

    def cancel(self) -> None:
        """Cancel the subscription, because the first operator has disposed its own."""
        self._cancelled = True
        subscription = self._subscription
        if subscription is not None:
            subscription.cancel()
        self._chain.detach(self)
        self._chain.idle()

    # The source's side.

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop that the chain's subscriber offers to a source that needs one."""
        return self._chain.event_loop()

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        if self._cancelled:
            subscription.cancel()
        else:
            self._chain.ready()

    def on_next(self, value: Any) -> None:
        self._pass_on((value,))

    def _pass_on(self, values: Sequence[Any]) -> None:
        on_next = self._on_next
        try:
            for value in values:
                on_next(value)
        except BaseException as error:
            if not is_contained(error):
                raise
            self._chain.operator_failed(error)
        self._received += len(values)
        if self._received >= self._asked:
            self._chain.idle()

    def on_error(self, error: Exception) -> None:
        self._chain.detach(self)
        try:
            self._observer.on_error(error)
        except BaseException as raised:
            if not is_contained(raised):
                raise
            self._chain.operator_failed(raised)
        self._chain.idle()

    def on_completed(self) -> None:
        self._chain.detach(self)
        try:
            self._observer.on_completed()
        except BaseException as raised:
            if not is_contained(raised):
                raise
            self._chain.operator_failed(raised)
        self._chain.idle()


class BatchFeed(Feed, BatchSubscriber[Any]):
    """A feed that takes batches, for operators of which none ends early."""

    __slots__ = ()

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._pass_on(items)
