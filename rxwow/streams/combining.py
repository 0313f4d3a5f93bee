"""What the operators with several sources share: the demand that goes up, and the end of all sources together."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from typing import Any, Final, TypeVar

from reactivex import abc

from rxwow.platform import Platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import Emitter, is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import Subscribe
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription

__all__ = ["Combining", "Upstream"]

R = TypeVar("R")

DEEPEST_ASK: Final = 4
"""How often a thread may ask a source inside the emission of another one that it has asked: its stack stays flat."""


class Upstream(BatchSubscriber[Any]):
    """One source of an operator, as its subscriber.

    The operator's `_lock` guards all fields. `due` is what the source is to be asked for and was not yet; `eager` says
    that it may be asked before the operator's own subscriber has asked for anything.
    """

    __slots__ = ("due", "eager", "operator", "queued", "subscription")

    def __init__(self, operator: Combining[Any], due: int, *, eager: bool = False) -> None:
        self.operator = operator
        self.due = due
        self.eager = eager
        self.queued = False
        self.subscription: Subscription | None = None

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Offer what the operator's subscriber offers."""
        return self.operator.offered_loop()

    def on_subscribe(self, subscription: Subscription) -> None:
        self.operator.connected(self, subscription)

    def on_next(self, value: Any) -> None:
        self.on_next_batch((value,))

    @abstractmethod
    def on_next_batch(self, items: Sequence[Any]) -> None: ...

    def on_error(self, error: Exception) -> None:
        self.operator.failed(error)

    @abstractmethod
    def on_completed(self) -> None: ...


class Combining(Emitter[R]):
    """Emits what several sources give; an error of one is the end of all, at once, as it is in RxPY.

    A source is asked by a thread that does not drain: one that emits on the asking thread, and is held up there until
    its items are taken, would wait for ever for the drainer below it on its own stack. So what is to be asked is noted
    in `_due`, and asked for when the drainer has stepped back, which it does as soon as there is something.

    `_lock` guards `_upstreams` (those that were subscribed to and have not ended), `_due`, `_opened` and `_askers`
    (threads that are inside a request, with how many). `_opened` only ever becomes true, and is read without the lock
    where a stale look costs no more than another look; so is whether there is anything in `_due`. A thread looks
    without it for its own entry in `_askers`, which no other thread writes; a dict guards itself.
    """

    __slots__ = ("_askers", "_due", "_opened", "_scheduler", "_upstreams")

    def __init__(self, subscriber: Subscriber[R], platform: Platform, scheduler: abc.SchedulerBase | None) -> None:
        super().__init__(subscriber, platform)
        self._scheduler = scheduler
        # In the order in which they were subscribed to, and so asked at first.
        self._upstreams: dict[Upstream, None] = {}
        self._due: deque[Upstream] = deque()
        self._opened = False
        self._askers: dict[int, int] = {}

    def request(self, n: int) -> None:
        if not self._opened and is_valid_request(n):
            with self._lock:
                self._opened = True
                for upstream in self._upstreams:
                    self._queue(upstream)
        # Whoever drains now, or is draining, asks the sources after that.
        super().request(n)

    # The subscriptions.

    def offered_loop(self) -> asyncio.AbstractEventLoop | None:
        offer: Callable[[], asyncio.AbstractEventLoop | None] | None = getattr(self._subscriber, "event_loop", None)
        return None if offer is None else offer()

    def subscribe_to(self, upstream: Upstream, source: Flowable[Any], subscribe: Subscribe) -> None:
        """Let `subscribe` subscribe `upstream` to `source`, unless all is over."""
        with self._lock:
            if self._is_over():
                return
            self._upstreams[upstream] = None
        try:
            subscribe(source, upstream, self._scheduler)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self.failed(as_error(error))

    def failed(self, error: Exception) -> None:
        """End with the error of a source or of the user's code."""
        self.fail(error, at_once=True)

    def connected(self, upstream: Upstream, subscription: Subscription) -> None:
        """Take a source's subscription, and ask for what is due."""
        amount = 0
        with self._lock:
            refused = self._is_over()
            if not refused:
                upstream.subscription = subscription
                if self._opened or upstream.eager:
                    amount, upstream.due = upstream.due, 0
        if refused:
            subscription.cancel()
        elif amount:
            subscription.request(amount)

    def _is_over(self) -> bool:
        return self._ended or self._at_once

    def _stop(self) -> None:
        self._let_go()

    def _release(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """Cancel all sources and forget what waits; the second time there is nothing left to do."""
        with self._lock:
            # Who comes later with a subscription sees that all is over.
            subscriptions = [upstream.subscription for upstream in self._upstreams]
            for upstream in self._upstreams:
                upstream.subscription = None
            self._upstreams = {}
            self._due.clear()
            dropped = list(self._forget())
        # An item that goes may run code of the user's, so none goes under the lock.
        del dropped
        for subscription in subscriptions:
            if subscription is not None:
                subscription.cancel()

    @abstractmethod
    def _forget(self) -> Iterable[object]:
        """Take out and return all items that wait, with the lock held."""

    # The demand.

    def _credit(self, upstream: Upstream, n: int) -> None:
        """Note, with the lock held, that a source is to be asked for `n` more."""
        upstream.due = min(upstream.due + n, UNBOUNDED)
        self._queue(upstream)

    def _queue(self, upstream: Upstream) -> None:
        if upstream.due and upstream.subscription is not None and not upstream.queued:
            upstream.queued = True
            self._due.append(upstream)

    def ask_emitting(self, upstream: Upstream) -> None:
        """Ask the source that is emitting on this thread, even if the thread is as deep in requests as it may be.

        It takes no more than a note, and it may be held up until it gets that.
        """
        if upstream.due:
            self._ask_one(upstream)

    def _ask_one(self, upstream: Upstream) -> None:
        with self._lock:
            subscription = upstream.subscription
            amount = 0
            if subscription is not None and (self._opened or upstream.eager):
                amount, upstream.due = upstream.due, 0
        if subscription is None or not amount:
            return
        try:
            subscription.request(amount)
        except BaseException:
            # An exit on the main thread, which goes on from here; the source has ended without a word.
            self.cancel()
            raise

    def ask(self) -> None:
        """Ask all sources for what is due, on this thread, which must not be draining."""
        if not self._due or not self._may_ask():
            return
        ident = get_ident()
        with self._lock:
            self._askers[ident] = self._askers.get(ident, 0) + 1
        try:
            while (upstream := self._next_due()) is not None:
                self._ask_one(upstream)
        finally:
            with self._lock:
                depth = self._askers.pop(ident) - 1
                if depth:
                    self._askers[ident] = depth

    def _next_due(self) -> Upstream | None:
        with self._lock:
            if not self._due:
                return None
            upstream = self._due.popleft()
            upstream.queued = False
            return upstream

    def _may_ask(self) -> bool:
        return self._askers.get(get_ident(), 0) < DEEPEST_ASK

    # The drain.

    def _drain(self) -> None:
        super()._drain()
        while self._resumes():
            super()._drain()

    def _drain_once(self) -> bool:
        again = super()._drain_once()
        if not again or not self._due or not self._may_ask():
            return again
        with self._lock:
            if self._is_over():
                return True
            # Stepping back to ask; `_resumes` looks for what is left.
            self._draining = False
            return False

    def _drained(self) -> None:
        self.ask()

    def _resumes(self) -> bool:
        """Become the drainer again if there is something to emit."""
        # Without the lock at first: what a thread has left as it stepped back, it sees; for the rest others drain.
        if self._ended or not self._has_work():
            return False
        with self._lock:
            return self._has_work() and self._become_drainer()

    def _has_work(self) -> bool:
        return self._requested > 0 if self._has_items() else self._has_end()
