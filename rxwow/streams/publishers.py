"""from_publisher: a publisher of another Reactive Streams library as a source."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxwow.errors import InvalidArgumentError, MissingBackpressureError, RxwowError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.description import describe
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.foreign import ForeignPublisher, ForeignSubscription
from rxwow.streams.guard import is_about_to_wait, running_loop
from rxwow.streams.observables import ObservableSubscription
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription

__all__ = ["from_publisher"]

logger = logging.getLogger("rxwow.streams")

MOST_AT_ONCE: Final = 2**31 - 1
"""The largest `n` of a request to a foreign publisher: the wire formats of some have no more than 31 bits for it."""


def from_publisher(publisher: ForeignPublisher, *, capacity: int = 256) -> Flowable[Any]:
    """Give a publisher of another Reactive Streams library the rules of this one.

    The publisher is subscribed together with the Flowable and asked for what is requested, for the first time after its
    `subscribe` has returned. If it is subscribed on a thread that runs an event loop, `request` and `cancel` of its
    subscription are called on that loop only, as libraries of asyncio need it; else on the thread that asks. An item
    is emitted on the thread on which the publisher sends it.

    A publisher that breaks the rules is kept to them: signals from several threads are put in order, what comes after
    its end is dropped, and what it sends unasked waits until it is asked for. Some do that by design, such as an
    RSocket requester, which asks for its first `initial_request_n` items by itself, and for all if it is not told how
    many: say `.initial_request_n(n)` with an `n` up to `capacity`.

    Args:
        publisher: an object with `subscribe(subscriber)`, which calls the subscriber's `on_subscribe(subscription)`,
            `on_next(value, is_complete=False)`, `on_error(exception)` and `on_complete()`. A Flowable is returned as it
            is.
        capacity: how many items may wait that were not asked for, at least 1.

    Returns:
        A Flowable that ends as the publisher ends; with `MissingBackpressureError` if more come unasked than fit, and
        with `RxwowError` if the event loop was closed before the end.

    Raises:
        InvalidArgumentError: `publisher` has no `subscribe`, or `capacity` is no whole number of at least 1.

    >>> from rxwow.streams.publishing import to_publisher
    >>> from_publisher(to_publisher(Flowable.from_iterable("abc"))).run()
    'c'
    """
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise InvalidArgumentError("capacity", capacity, "a whole number of at least 1")
    known, plain = isinstance(publisher, Flowable), isinstance(publisher, Observable)
    if known:
        given: Any = publisher
        flowable: Flowable[Any] = given
        return flowable
    if plain or not callable(getattr(publisher, "subscribe", None)):
        allowed = "a publisher, with a method subscribe(subscriber); an Observable goes to Flowable.from_observable"
        raise InvalidArgumentError("publisher", publisher, allowed)

    def publish(subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
        subscription = _PublisherSubscription(subscriber, current_platform(), publisher, capacity)
        subscription.start()
        subscription.subscribe()
        return subscription

    return Flowable(publish)


class _PublisherSubscription(ObservableSubscription[Any]):
    """Asks a foreign subscription; what comes of it is accepted, and waits, as `from_observable` has it.

    `_lock` guards `_foreign`, `_wanted`, `_outstanding`, `_over` and `_deferred` too. `_wanted` is what was requested
    and not yet asked of the publisher, `_outstanding` what was asked and has not come. `_deferred` are the calls that
    wait for the publisher's `subscribe` to return; None when it has.
    """

    __slots__ = ("_deferred", "_foreign", "_loop", "_outstanding", "_over", "_publisher", "_wanted")

    def __init__(
        self, subscriber: Subscriber[Any], platform: Platform, publisher: ForeignPublisher, capacity: int
    ) -> None:
        super().__init__(subscriber, platform, OverflowStrategy.BUFFER, capacity)
        self._publisher = publisher
        self._loop = None if is_about_to_wait() else running_loop()
        self._foreign: ForeignSubscription | None = None
        self._wanted = 0
        self._outstanding = 0
        self._over = False
        self._deferred: list[Callable[[], object]] | None = []

    def subscribe(self) -> None:
        """Subscribe to the publisher."""
        if self._ended:
            return
        try:
            self._publisher.subscribe(_Listener(self))
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self._publisher_failed(error)
        with self._lock:
            deferred, self._deferred = self._deferred or [], None
        for action in deferred:
            self._call(action)

    def request(self, n: int) -> None:
        # First, since a publisher may send before its own `request` returns.
        super().request(n)
        if is_valid_request(n):
            with self._lock:
                self._wanted = min(self._wanted + n, UNBOUNDED)
            self._ask()

    def _ask(self) -> None:
        """Ask for what is wanted, as much as fits in one request, and for the rest when that has come."""
        with self._lock:
            foreign = self._foreign
            n = min(self._wanted, MOST_AT_ONCE - self._outstanding)
            if foreign is None or n <= 0 or self._over or self._ended:
                return
            self._outstanding += n
            if self._wanted != UNBOUNDED:
                self._wanted -= n

        def request() -> None:
            # It may have had to wait, for the loop or for the publisher's `subscribe`.
            if not self._ended:
                foreign.request(n)

        self._call(request)

    def _call(self, action: Callable[[], object]) -> None:
        with self._lock:
            if self._deferred is not None:
                # RSocket would send a request of this moment to the other side ahead of what it belongs to.
                self._deferred.append(action)
                return
        loop = self._loop
        if loop is None or running_loop() is loop:
            self._act(action)
            return
        try:
            loop.call_soon_threadsafe(self._act, action)
        except RuntimeError:
            if not loop.is_closed():
                raise
            self.fail(
                RxwowError(
                    f"the event loop of {describe(self._publisher)} was closed before the end; keep the loop open "
                    "until the stream has ended, or cancel the subscription first"
                ),
                at_once=True,
            )

    def _act(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:
            if not is_contained(error):
                raise
            self._publisher_failed(error)

    def _publisher_failed(self, error: BaseException) -> None:
        if self._ended:
            logger.error("%s raised after the end of its stream", describe(self._publisher), exc_info=error)
        self.fail(as_error(error), at_once=True)

    # What the publisher says, on its threads.

    def listen(self, foreign: ForeignSubscription) -> None:
        """Take the foreign subscription; a second one is cancelled (§2.5)."""
        with self._lock:
            second = self._foreign is not None
            if not second:
                self._foreign = foreign
        if second:
            self._call(foreign.cancel)
            return
        # Called at once if the stream has ended already.
        self._upstream.disposable = Disposable(self._cancel_foreign)
        self._ask()

    def take(self, value: Any, is_last: bool) -> None:
        """Accept an item."""
        with self._lock:
            # Half of the largest request: asked again early enough, and rarely.
            asks = self._wanted > 0 and 0 < self._outstanding <= MOST_AT_ONCE // 2
            self._outstanding = max(0, self._outstanding - 1)
        self._accept(value)
        if is_last:
            self.end(None)
        elif asks:
            self._ask()

    def end(self, error: object) -> None:
        """Accept the end; the first one counts."""
        with self._lock:
            if self._over:
                return
            self._over = True
        if error is None:
            self.complete()
        else:
            self.fail(as_error(error))

    def _cancel_foreign(self) -> None:
        with self._lock:
            foreign, over = self._foreign, self._over
            self._over = True
        # One that has ended is not to hear of it: RSocket would tell the other side, which has forgotten the stream.
        if foreign is not None and not over:
            self._call(foreign.cancel)

    def _overflow_error(self) -> Exception:
        return MissingBackpressureError(
            self._capacity,
            "let it send fewer of its own accord (RSocket: initial_request_n), or give from_publisher more capacity",
            what=f"the publisher {describe(self._publisher)}",
        )


class _Listener:
    """The foreign side's subscriber."""

    __slots__ = ("_subscription",)

    def __init__(self, subscription: _PublisherSubscription) -> None:
        self._subscription = subscription

    def on_subscribe(self, subscription: ForeignSubscription) -> None:
        self._subscription.listen(subscription)

    def on_next(self, value: Any, is_complete: bool = False) -> None:
        self._subscription.take(value, is_complete)

    def on_error(self, exception: Exception) -> None:
        # None would be taken for no error.
        self._subscription.end(RxwowError("the publisher failed with None") if exception is None else exception)

    def on_complete(self) -> None:
        self._subscription.end(None)
