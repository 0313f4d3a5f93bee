"""subscribe_on: a source that is subscribed, and asked, on a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

from reactivex import Observable, abc

from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import is_contained
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.streams.relay import Relay
from rxwow.streams.scheduling import check_scheduler, refusal

__all__ = ["subscribe_on"]

T = TypeVar("T")


def subscribe_on(scheduler: abc.SchedulerBase) -> Callable[[Observable[T]], Flowable[T]]:
    """Subscribe to the source on a scheduler, and ask it there.

    A source that emits on the asking thread, such as `from_iterable`, therefore emits on the scheduler. What is
    requested while an action is on its way there is asked for by that same action, and what is requested inside
    `on_next` on the scheduler needs none.

    A plain Observable, which is given demand by `from_observable`, is subscribed on the scheduler, and asked on the
    requesting thread: it may hold up the scheduler's thread until somebody asks. For the same reason a
    `from_observable(..., on_overflow="block")` that is subscribed further up needs a scheduler with threads to spare.

    Args:
        scheduler: any scheduler of RxPY; the source gets it as its subscribe-time scheduler. It has to live until the
            stream has ended.

    Returns:
        An operator from an Observable to a Flowable with the same items and the same end, on the threads on which the
        source emits. A cancel goes to the source on the cancelling thread; one that comes before the action means that
        the source is never subscribed. A scheduler that refuses an action ends the stream with an `RxwowError`.

    Raises:
        InvalidArgumentError: `scheduler` is none.

    >>> from reactivex.scheduler import NewThreadScheduler
    >>> Flowable.from_iterable(range(1000)).pipe(subscribe_on(NewThreadScheduler())).run()
    999
    """
    check_scheduler(scheduler)

    def operator(source: Observable[T]) -> Flowable[T]:
        flowable = Flowable.from_observable(source)
        asks_there = flowable is source

        def publish(subscriber: Subscriber[T], _: abc.SchedulerBase | None) -> Subscription:
            relay = _LateRelay(subscriber, current_platform(), scheduler, asks_there=asks_there)
            relay.start()
            relay.connect_late(flowable)
            return relay

        return Flowable(publish)

    return operator


class _LateRelay(Relay[T]):
    """Asks the source for what its subscriber requests, in actions of a scheduler, of which there is one at a time.

    `_lock` guards `_unasked`, what was requested and not asked for yet, and `_acting`, whether an action is on its way
    or at work. `_actor` is compared with the identifier of the thread that looks, and only that thread sets it to it.
    """

    __slots__ = ("_acting", "_actor", "_asks_there", "_scheduler", "_unasked")

    def __init__(
        self, subscriber: Subscriber[T], platform: Platform, scheduler: abc.SchedulerBase, *, asks_there: bool
    ) -> None:
        super().__init__(subscriber, platform)
        self._scheduler = scheduler
        self._asks_there = asks_there
        self._unasked = 0
        # From the beginning, by the action that subscribes.
        self._acting = True
        self._actor: int | None = None

    def connect_late(self, source: Flowable[T]) -> None:
        """Subscribe to the source on the scheduler."""

        def subscribe(scheduler: abc.SchedulerBase, _: object = None) -> None:
            self._actor = get_ident()
            try:
                self.connect(source, scheduler)
            finally:
                self._actor = None
            self._act()

        if not self._ended:
            self._schedule(subscribe)

    def request(self, n: int) -> None:
        super().request(n)
        if is_valid_request(n):
            self._ask(n)

    def upstream_subscribed(self, upstream: Subscription) -> None:
        super().upstream_subscribed(upstream)
        self._ask(0)

    def _ask(self, n: int) -> None:
        """Ask for `n` more, and what is unasked, where that may be done: here, or in an action."""
        with self._lock:
            self._unasked = min(self._unasked + n, UNBOUNDED)
            upstream = self._upstream
            if upstream is None or not self._unasked:
                return
            here = not self._asks_there or self._actor == get_ident()
            if here:
                n, self._unasked = self._unasked, 0
            elif self._acting:
                return
            else:
                self._acting = True
        if here:
            upstream.request(n)
        else:
            self._schedule(self._act)

    def _act(self, _: abc.SchedulerBase | None = None, __: object = None) -> None:
        """Ask, on the scheduler, until nothing is unasked."""
        while True:
            with self._lock:
                n, self._unasked = self._unasked, 0
                upstream = self._upstream
                if upstream is None:
                    # It may still come, and then asks itself.
                    self._unasked = n
                if upstream is None or not n:
                    self._acting = False
                    return
            self._actor = get_ident()
            try:
                upstream.request(n)
            finally:
                self._actor = None

    def _schedule(self, action: abc.ScheduledAction[object]) -> None:
        try:
            self._scheduler.schedule(action)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self.fail(refusal("subscribe_on", self._scheduler, error), at_once=True)
