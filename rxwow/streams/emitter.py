"""The emitting side of a subscription: demand, one signal at a time, one end.

Every source and every operator with a queue emits through an `Emitter`, so the rules of Reactive Streams are kept in
one place. Whoever brings news (more demand, more items, the end) becomes the *drainer* if there is none, and leaves a
note to the drainer if there is one. So signals are serial (§1.3), no thread waits for another, and the stack stays flat
however deep `request` and `on_next` call each other (§3.3).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from rxwow.errors import InvalidRequestError
from rxwow.platform import Platform
from rxwow.streams.containment import is_contained
from rxwow.streams.nobody import NOBODY
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription

__all__ = ["Emitter", "is_valid_request"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")


def is_valid_request(n: object) -> bool:
    """Whether `request(n)` may be called with `n`.

    >>> is_valid_request(1), is_valid_request(0), is_valid_request(True)
    (True, False, False)
    """
    # bool is an int, and request(True) a mistake.
    return isinstance(n, int) and not isinstance(n, bool) and n >= 1


class Emitter(Subscription, Generic[T]):
    """What a subscriber gets in `on_subscribe`; a subclass says where the items come from.

    `_lock` guards `_requested`, `_draining`, `_news`, `_ended`, `_completed`, `_error` and `_at_once`. `_ended` is also
    read without it, between two items: a stale look there costs one more item, which §2.8 allows. `_finished` is the
    drainer's alone.
    """

    __slots__ = (
        "_at_once",
        "_completed",
        "_draining",
        "_ended",
        "_error",
        "_finished",
        "_lock",
        "_news",
        "_on_batch",
        "_on_next",
        "_requested",
        "_subscriber",
    )

    def __init__(self, subscriber: Subscriber[T], platform: Platform) -> None:
        self._lock = platform.lock()
        self._subscriber = subscriber
        self._on_next = subscriber.on_next
        self._on_batch = subscriber.on_next_batch if isinstance(subscriber, BatchSubscriber) else None
        self._requested = 0
        # The thread that calls `start` is the first drainer: nothing is emitted before on_subscribe has returned.
        self._draining = True
        self._news = False
        self._ended = False
        self._completed = False
        self._error: Exception | None = None
        self._at_once = False
        self._finished = False

    # What a subclass says of its items. Called by the drainer alone, but for `_has_items` (also under the lock).

    @abstractmethod
    def _emit(self, limit: int) -> int:
        """Deliver at most `limit` items, by `_deliver`, and return how many."""

    @abstractmethod
    def _has_items(self) -> bool:
        """Whether `_emit` would find an item; must not call user code."""

    def _release(self) -> None:
        """Let go of what the items come from; called once, after the last signal, never while `_emit` runs.

        Must not raise an Exception.
        """

    def _stop(self) -> None:
        """Stop what feeds this emitter, as the stream ends before its items do; called at most once.

        It is called on the thread that cancels, while `_emit` or `_release` may run on another, or after them. Must not
        raise an Exception.
        """

    def _drained(self) -> None:
        """Called by each drainer when it has done its work and another may have begun."""

    # The subscriber's side.

    def request(self, n: int) -> None:
        if not is_valid_request(n):
            self.fail(InvalidRequestError(n), at_once=True)
            return
        with self._lock:
            self._requested = min(self._requested + n, UNBOUNDED)
            if not self._become_drainer():
                return
        self._begin_drain()

    def cancel(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            stops = not self._at_once
            drains = self._become_drainer()
        if stops:
            self._stop()
        if drains:
            self._begin_drain()

    # The source's side.

    def start(self) -> None:
        """Hand the subscription over, then emit what was asked for meanwhile."""
        try:
            self._subscriber.on_subscribe(self)
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                self._begin_drain()
                raise
            self._observer_failed("on_subscribe", error)
        self._begin_drain()

    def wake(self) -> None:
        """Say that there are items, or an end, to emit."""
        with self._lock:
            if not self._become_drainer():
                return
        self._begin_drain()

    def complete(self) -> None:
        """Emit `on_completed` after the items that are left; the first end that a source gives counts."""
        with self._lock:
            self._completed = True
            if not self._become_drainer():
                return
        self._begin_drain()

    def fail(self, error: Exception, *, at_once: bool = False) -> bool:
        """Emit `on_error` after the items that are left, or in their place, and that of another end, when `at_once`.

        Returns whether it is not too late for that.
        """
        with self._lock:
            if self._ended or self._at_once or (self._has_end() and not at_once):
                return False
            self._error = error
            self._at_once = at_once
            drains = self._become_drainer()
        if at_once:
            self._stop()
        if drains:
            self._begin_drain()
        return True

    @property
    def ended(self) -> bool:
        """Whether the last signal was given or the subscriber cancelled."""
        return self._ended

    # The drain.

    def _become_drainer(self) -> bool:
        if self._draining:
            self._news = True
            return False
        self._draining = True
        return True

    def _begin_drain(self) -> None:
        """Drain on the calling thread; a source that is bound to a thread passes the role on to that thread."""
        self._drain()

    def _drain(self) -> None:
        try:
            while self._drain_once():
                pass
        except BaseException:
            self._abandon()
            raise
        self._drained()

    def _drain_once(self) -> bool:
        """Emit what is there and asked for; return whether to look again.

        An emitter that has ended keeps its drainer for ever, so that nobody can emit any more.
        """
        with self._lock:
            self._news = False
            limit = self._requested
            ended = self._ended
            terminal = not ended and (self._at_once or (self._has_end() and not self._has_items()))
            if terminal:
                self._ended = True
        if terminal:
            self._signal_end()
        if ended or terminal:
            self._finish()
            return False
        emitted = self._emit(limit) if limit else 0
        with self._lock:
            # Not `limit`: everything may have been requested meanwhile, and that is never used up.
            if self._requested != UNBOUNDED:
                self._requested -= emitted
            if self._news or self._ended:
                return True
            again = self._requested > 0 if self._has_items() else self._has_end()
            self._draining = again
            return again

    def _has_end(self) -> bool:
        return self._completed or self._error is not None

    def _deliver(self, items: Sequence[T]) -> int:
        """Give `items` to the subscriber; return how many were given before it cancelled or failed."""
        delivered = 0
        try:
            if self._on_batch is not None:
                # It may have been cancelled while the items were waited for.
                if not (self._ended or self._at_once):
                    delivered = len(items)
                    self._on_batch(items)
            else:
                on_next = self._on_next
                for item in items:
                    if self._ended or self._at_once:
                        break
                    delivered += 1
                    on_next(item)
        except BaseException as error:
            if not is_contained(error):
                raise
            self._observer_failed("on_next", error)
        return delivered

    def _signal_end(self) -> None:
        try:
            if self._error is not None:
                self._subscriber.on_error(self._error)
            else:
                self._subscriber.on_completed()
        except BaseException as error:
            if not is_contained(error):
                raise
            self._observer_failed("on_completed" if self._error is None else "on_error", error)

    def _observer_failed(self, signal: str, error: BaseException) -> None:
        # §2.13: a subscriber that raises has broken the contract; it gets no further signal, not even on_error.
        logger.error("%s of %r raised; its subscription is cancelled", signal, self._subscriber, exc_info=error)
        self.cancel()

    def _abandon(self) -> None:
        """End after a KeyboardInterrupt or the like: it goes on up the drainer's stack, and nobody drains any more."""
        with self._lock:
            stops = not self._ended and not self._at_once
            self._ended = True
        if stops:
            self._stop()
        self._finish()

    def _finish(self) -> None:
        """Release, once, even if a KeyboardInterrupt came in the middle of it; and forget the subscriber (§3.13)."""
        if self._finished:
            return
        self._finished = True
        try:
            self._release()
        finally:
            self._subscriber = NOBODY
            self._on_next = NOBODY.on_next
            self._on_batch = None
