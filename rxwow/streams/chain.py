"""The bottom of a chain of lifted operators: it asks the top for what its subscriber wants of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final, Self

from reactivex import Observable, abc
from reactivex.scheduler import CurrentThreadScheduler

from rxwow.errors import MissingBackpressureError
from rxwow.platform import Platform
from rxwow.streams.containment import as_error
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.feed import Feed
from rxwow.streams.observables import ObservableSubscription
from rxwow.streams.operator_traits import OperatorTraits, Takes
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED, Subscriber

__all__ = ["PORTION", "Chain", "ChainTraits"]

PORTION: Final = 1024
"""How many items are asked for at a time where everything is wanted: what comes of them is emitted before the next, and
a source that never ends doesn't keep the drainer for ever."""


@dataclass(frozen=True, slots=True)
class ChainTraits:
    """What the operators of a chain add up to.

    Attributes:
        takes: how much of the source the chain is given.
        batches: whether the source may hand over batches.
        collects: whether what is emitted may be kept until it makes a batch.
        joins: whether other sources may emit through the trampoline of the thread that asks.
        capacity: how many items may wait beyond the demand.
        strategy: what happens to one more.
        names: the operators that may emit beyond the demand.
    """

    takes: Takes
    batches: bool
    collects: bool
    joins: bool
    capacity: int
    strategy: OverflowStrategy
    names: tuple[str, ...]

    @classmethod
    def of(cls, operators: Iterable[tuple[str, OperatorTraits, OverflowStrategy | None, int | None]]) -> Self:
        """Add up the names and traits of operators, from the top, with the strategy and capacity chosen for them."""
        takes = Takes.AS_NEEDED
        batches, collects, joins, capacity = True, True, False, 0
        strategy = OverflowStrategy.BUFFER
        chosen_capacity: int | None = None
        names: list[str] = []
        for name, traits, chosen, most in operators:
            if takes is not Takes.ALL:
                # Below one that takes all, nothing can be taken too early any more.
                if traits.takes is Takes.SINGLY or (traits.takes is Takes.ALL and batches):
                    takes = traits.takes
                batches = batches and not traits.ends_early
            collects = collects and not traits.windows
            joins = joins or traits.joins
            capacity = max(capacity, UNBOUNDED if traits.capacity is None else traits.capacity)
            strategy = chosen or strategy
            chosen_capacity = most or chosen_capacity
            if traits.joins or traits.takes is not Takes.AS_NEEDED:
                names.append(name)
        return cls(takes, batches, collects, joins, chosen_capacity or capacity, strategy, tuple(names))


class Chain(ObservableSubscription[Any]):
    """What a subscriber of lifted operators gets in `on_subscribe`.

    What the operators emit is accepted, and waits, as `from_observable` has it. In addition the drainer asks: when
    there is demand and nothing waits, it asks the `Feed` of the source for more, and on this thread what comes of that
    is passed on at once, as the demand for it is there.

    `_lock` guards `_feeds`, `_connected`, `_early_demand`, `_parked` and `_may_pull` too. `_pulling` is compared with
    the identifier of the thread that looks, and only that thread sets it to it; while it does it is the drainer, and
    alone touches `_limit`, `_delivered` and `_accepted`. `_entered` and `_left` are each written by one thread at a
    time, as signals are serial.
    """

    __slots__ = (
        "_accepted",
        "_connected",
        "_delivered",
        "_early_demand",
        "_entered",
        "_feeds",
        "_left",
        "_limit",
        "_may_pull",
        "_parked",
        "_pulling",
        "_singly",
        "_traits",
    )

    def __init__(self, subscriber: Subscriber[Any], platform: Platform, traits: ChainTraits) -> None:
        super().__init__(subscriber, platform, traits.strategy, traits.capacity)
        self._traits = traits
        self._singly = self._on_batch is None or not traits.collects
        self._feeds: list[Feed] = []
        self._connected = False
        self._early_demand = 0
        self._parked = False
        self._may_pull = False
        self._pulling: int | None = None
        self._limit = 0
        self._delivered = 0
        self._accepted = 0
        self._entered = 0
        self._left = 0

    @property
    def takes_batches(self) -> bool:
        """Whether the source may hand over batches: nothing above ends early, and the subscriber takes them too."""
        return self._traits.batches and self._on_batch is not None

    def request(self, n: int) -> None:
        if self._traits.takes is Takes.ALL and is_valid_request(n):
            # A first window comes while the operators are being subscribed, and would use up the demand of it all.
            with self._lock:
                if not self._connected:
                    self._early_demand = min(self._early_demand + n, UNBOUNDED)
                    return
        if self._parked and CurrentThreadScheduler.singleton().schedule_required():
            # RxPY forgets what waits in a trampoline when an action raises, so the action may never come.
            self._resume()
        super().request(n)

    def connect(self, observable: Observable[Any], scheduler: abc.SchedulerBase | None) -> None:
        super().connect(observable, scheduler)
        # Not before: what is asked for while the operators are still being subscribed could not be cancelled by them.
        with self._lock:
            self._connected = True
            early_demand = self._early_demand
        self.request(early_demand) if early_demand else self.wake()

    # What the feeds and the operators say, on any thread.

    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop that the subscriber offers to a source that needs one."""
        offer: Callable[[], asyncio.AbstractEventLoop | None] | None = getattr(self._subscriber, "event_loop", None)
        return None if offer is None else offer()

    def attach(self, feed: Feed) -> None:
        """Take on a feed; it may be asked from `ready` on."""
        with self._lock:
            self._feeds.append(feed)

    def detach(self, feed: Feed) -> None:
        """Let go of a feed that has ended or was cancelled."""
        with self._lock:
            if feed in self._feeds:
                self._feeds.remove(feed)

    def ready(self) -> None:
        """Say that a feed can be asked now: look again when the operator that subscribed it has its subscription."""
        if not self._connected or self._pulling == get_ident():
            return
        trampoline = CurrentThreadScheduler.singleton()
        if trampoline.schedule_required():
            self.wake()
        else:
            trampoline.schedule(self._wake_later)

    def _wake_later(self, _: abc.SchedulerBase, __: Any = None) -> None:
        self.wake()

    def idle(self) -> None:
        """Say that a feed has nothing outstanding."""
        if self._pulling != get_ident():
            self.wake()

    def enter(self) -> None:
        """Count an item that an operator will emit later."""
        self._entered += 1

    def leave(self) -> None:
        """Count an item that was emitted later."""
        self._left += 1
        self.idle()

    def begin_delay(self) -> None:
        """Forget what an operator that emits later has kept for itself, as it is subscribed again."""
        self._entered = self._left = 0

    def operator_failed(self, error: BaseException) -> None:
        """End because an operator raised where it should have called `on_error`."""
        self._give_up(as_error(error))

    # What the drainer does.

    def _has_items(self) -> bool:
        return bool(self._items) or self._next_feed(self._requested) is not None

    def _emit(self, limit: int) -> int:
        emitted = super()._emit(limit) if self._items else 0
        # What takes all takes it from the first request on, even if that was met by what waited already.
        if emitted == 0 or (self._traits.takes is Takes.ALL and self._next_feed(limit) is not None):
            emitted += self._pull(limit - emitted)
        return emitted

    def _pull(self, limit: int) -> int:
        with self._lock:
            feed = self._next_feed(limit)
            if feed is None or (limit and self._traits.joins and not self._takes_turn()):
                return 0
            wanted = self._wanted(feed, limit)
            if self._feeds[-1] is not feed:
                self._feeds.remove(feed)
                self._feeds.append(feed)
        self._limit, self._delivered, self._accepted = limit, 0, 0
        self._pulling = self._delivering = get_ident()
        try:
            feed.ask(wanted)
        finally:
            self._pulling = self._delivering = None
            self._settle()
        delivered = self._delivered
        return delivered + (super()._emit(limit - delivered) if self._items and delivered < limit else 0)

    def _next_feed(self, limit: int) -> Feed | None:
        if not self._connected or self._parked or self._ended or self._has_end():
            return None
        for feed in self._feeds:
            if self._wanted(feed, limit) > 0:
                return feed
        return None

    def _wanted(self, feed: Feed, limit: int) -> int:
        """How many items to ask a feed for, so that no more than `limit` come out if that can be known."""
        outstanding = feed.outstanding
        if not feed.subscribed:
            return 0
        if self._traits.takes is Takes.ALL or limit == UNBOUNDED:
            return 0 if outstanding else PORTION
        waiting = outstanding + len(self._items) + self._entered - self._left
        if self._traits.takes is Takes.SINGLY or len(self._feeds) > 1:
            return 1 if waiting <= 0 else 0
        return limit - waiting

    def _takes_turn(self) -> bool:
        """Whether to ask now; on a busy trampoline each time is an action of it.

        Sources that an operator joins emit through the trampoline as well, and would never get through to it while this
        one goes on asking.
        """
        trampoline = CurrentThreadScheduler.singleton()
        if self._may_pull or trampoline.schedule_required():
            self._may_pull = False
            return True
        self._parked = True
        trampoline.schedule(self._resume)
        return False

    def _resume(self, _: abc.SchedulerBase | None = None, __: Any = None) -> None:
        with self._lock:
            self._parked = False
            self._may_pull = True
        self.wake()

    def _accept(self, item: Any) -> None:
        if self._pulling != get_ident():
            super()._accept(item)
        elif self._ended:
            pass
        elif self._singly and self._delivered < self._limit and not self._items:
            self._accepted += 1
            self._delivered += self._deliver((item,))
        elif len(self._items) < self._limit - self._delivered + self._capacity:
            # An append is one step also on a free-threaded build.
            self._accepted += 1
            self._items.append(item)
        else:
            self._settle()
            super()._accept(item)

    def _release(self) -> None:
        super()._release()
        with self._lock:
            self._feeds.clear()

    def _settle(self) -> None:
        """Enter what was accepted without the lock."""
        with self._lock:
            self._allowance -= self._accepted
        self._accepted = 0

    def _overflow_error(self) -> Exception:
        return MissingBackpressureError(
            self._capacity,
            "lift the operator with a bigger capacity or with on_overflow='drop_latest' or 'drop_oldest' "
            "(rxwow.operators.lift), or use the operator of the same name in rxwow.operators, if there is one",
            what=f"the operators {', '.join(self._traits.names)}" if self._traits.names else "an operator",
        )
