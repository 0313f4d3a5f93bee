"""The groups of one subscription to a `group_by`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reactivex import abc
from reactivex.scheduler import CurrentThreadScheduler

from rxwow.platform import Platform
from rxwow.streams.constants import throw
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.flowable import Flowable
from rxwow.streams.group_account import Account
from rxwow.streams.group_emitters import GroupEmitter, GroupsEmitter
from rxwow.streams.group_table import GroupTable
from rxwow.streams.grouped import Group, GroupedFlowable
from rxwow.streams.guard import emitting_scheduler
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription
from rxwow.streams.stalling import StallWatch

__all__ = ["Groups"]


class Groups(BatchSubscriber[Any]):
    """Subscribed to the source, it puts the items into their groups, and asks for more as they are taken.

    `lock` guards `_upstream`, `live` (groups that are not closed), `_unsubscribed` (those of them that were handed over
    and have no subscriber), `_subscribers`, `_error`, and what others say that it guards; and the writing of `done`,
    which is also read without it: a stale look costs a batch that is then refused under the lock.
    """

    __slots__ = (
        "_error",
        "_subscribers",
        "_table",
        "_unsubscribed",
        "_upstream",
        "_watch",
        "account",
        "done",
        "live",
        "lock",
        "outlet",
        "platform",
        "portion",
    )

    def __init__(
        self,
        subscriber: Subscriber[GroupedFlowable[Any, Any]],
        platform: Platform,
        key_mapper: Callable[[Any], Any],
        element_mapper: Callable[[Any], Any] | None,
        prefetch: int,
    ) -> None:
        self.platform = platform
        self.lock = platform.lock()
        self.done = False
        self._error: Exception | None = None
        outlet = self.outlet = GroupsEmitter(subscriber, self)
        self.account = Account(prefetch)
        # What one emission takes, so that the account hears of it before all is taken.
        self.portion = max(1, prefetch // 4)
        self._table = GroupTable(self.lock, key_mapper, element_mapper, lambda: outlet.ended)
        self._watch = StallWatch(self)
        self._upstream: Subscription | None = None
        # Dicts for their order; the groups' hash is their identity, so no user code runs in them.
        self.live: dict[Group, None] = {}
        self._unsubscribed: dict[Group, None] = {}
        self._subscribers = 0

    # The source's side.

    def connect(self, source: Flowable[Any], scheduler: abc.SchedulerBase | None) -> None:
        """Subscribe to the source, unless the subscriber has cancelled already."""
        if self.done:
            return
        try:
            source.subscribe(self, scheduler=scheduler)
        except BaseException as error:
            self.end(as_error(error))
            if not is_contained(error):
                raise

    def on_subscribe(self, subscription: Subscription) -> None:
        with self.lock:
            cancels = self.done
            if not cancels:
                self._upstream = subscription
        if cancels:
            subscription.cancel()
        else:
            self.replenish()

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Offer an async source the loop that the subscriber offers."""
        return self.outlet.offered_loop()

    def on_next(self, value: Any) -> None:
        self.on_next_batch((value,))

    def on_next_batch(self, items: Sequence[Any]) -> None:
        if self.done:
            return
        arrivals, failure = self._table.sort(items)
        try:
            if self._put(arrivals, len(items)):
                self.outlet.wake()
            for group in arrivals:
                emitter = group.emitter
                if emitter is not None:
                    emitter.wake()
        except BaseException as error:
            # An exit, which goes on from here; the source ends without a word.
            self.end(as_error(error))
            raise
        if failure is None:
            self.replenish()
            return
        self.end(as_error(failure))
        if not is_contained(failure):
            raise failure

    def on_error(self, error: Exception) -> None:
        self.end(error)

    def on_completed(self) -> None:
        self.end(None)

    def _put(self, arrivals: Mapping[Group, Sequence[Any]], received: int) -> bool:
        """Put the items into their groups; return whether there are groups to hand over."""
        opened: list[Group] = []
        with self.lock:
            self.account.received(received)
            if self.done:
                return False
            for group, elements in arrivals.items():
                if group.closed:
                    continue
                if group not in self.live:
                    self.live[group] = None
                    opened.append(group)
                self.account.put(group, elements)
            self.outlet.put(opened)
            cancelled = self.outlet.cancelled
        if cancelled:
            self.outlet.clear()
        return bool(opened)

    def replenish(self, taken: int = 0) -> None:
        """Ask for what there is room for; called after all that may have made some, or made somebody wait for it."""
        account = self.account
        with self.lock:
            account.taken(taken)
            upstream = self._upstream
            if upstream is None or not self.outlet.opened:
                return
            amount = account.claim()
            idle = not amount and account.is_idle
            candidates = list(self._unsubscribed) if idle else ()
        if idle:
            self._discard_dropped(candidates)
            with self.lock:
                amount = account.claim(1)
            self._watch.begin()
        if amount:
            try:
                upstream.request(amount)
            except BaseException as error:
                self.end(as_error(error))
                raise

    # The groups' side.

    def subscribe(self, group: Group, subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> Subscription:
        """Start the one subscription to a group."""
        emitter = GroupEmitter(subscriber, self, group)
        with self.lock:
            taken, given_up = group.emitter is not None, group.closed
            if not taken and not given_up:
                self.account.subscribe(group, emitter)
                self._unsubscribed.pop(group, None)
                self._subscribers += 1
            done, error = self.done, self._error
        if taken or given_up:
            return throw(group.refusal(taken=taken))._publish(subscriber, scheduler)
        if done:
            _end(emitter, error)
        if isinstance(emitting_scheduler(), CurrentThreadScheduler):
            self.outlet.defer(emitter)
        emitter.start()
        return emitter

    def demand(self, group: Group, n: int) -> None:
        """Note that the subscriber of a group asks for `n` more."""
        with self.lock:
            if not group.closed:
                self.account.demand(group, n)

    def handed_over(self, groups: Sequence[Group]) -> None:
        """Note that the subscriber of the groups has these, or had its chance."""
        with self.lock:
            self.outlet.unhanded -= len(groups)
            self.account.moves += 1
            waiting = [group for group in groups if group.emitter is None and not group.closed]
            if not self.done:
                self._unsubscribed.update(dict.fromkeys(waiting))
        self._discard_dropped(waiting)
        self.replenish()

    def close(self, group: Group) -> None:
        """Discard what is there for a group and what will come; its subscription is over. Idempotent."""
        self._discard((group,))
        self.replenish()

    def discard(self, groups: Iterable[Group]) -> None:
        """Close groups that were never handed over, as the stream of groups is at its end."""
        self._discard(groups)
        with self.lock:
            over = not self._subscribers
        if over:
            self._shut()
        else:
            self.replenish()

    def _discard_dropped(self, groups: Iterable[Group]) -> None:
        self._discard((group for group in groups if group.is_dropped()), dropped=True)

    def _discard(self, groups: Iterable[Group], *, dropped: bool = False) -> None:
        over = False
        for group in groups:
            with self.lock:
                if group.closed or (dropped and group.emitter is not None):
                    continue
                items = self.account.close(group)
                self._subscribers -= group.emitter is not None
                self.live.pop(group, None)
                self._unsubscribed.pop(group, None)
                if not self.done:
                    self._table.close(group)
                over = self.outlet.cancelled and not self._subscribers
            # Without the lock, as the last reference to an item may run code of the user's.
            del items
        if over:
            self._shut()

    # The end.

    def end(self, error: Exception | None, *, at_once: bool = False) -> None:
        """Complete or fail all groups, and the stream of groups; the latter without what waits, when `at_once`."""
        live = self._finish(error)
        if live is None:
            return
        for group in live:
            if group.emitter is not None:
                _end(group.emitter, error)
        _end(self.outlet, error, at_once=at_once)

    def _shut(self) -> None:
        """Let go of everything, as nobody is left."""
        self._discard(self._finish(None) or ())

    def _finish(self, error: Exception | None) -> list[Group] | None:
        with self.lock:
            if self.done:
                return None
            self.done = True
            self._error = error
            live = list(self.live)
            self.live, self._unsubscribed = {}, {}
            upstream, self._upstream = self._upstream, None
        self._table.clear()
        self._watch.end()
        if upstream is not None:
            upstream.cancel()
        return live


def _end(emitter: GroupsEmitter | GroupEmitter, error: Exception | None, *, at_once: bool = False) -> None:
    if error is None:
        emitter.complete()
    else:
        emitter.fail(error, at_once=at_once)
