"""SourceProbe: a source that counts what is asked of it and what it gave, emitted by hand or from an iterable."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from threading import get_ident
from typing import Any, Generic, TypeVar

from reactivex import abc

from rxwow.errors import InvalidArgumentError, UsageError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.inline import InlineEmitter
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.testing.news import News
from rxwow.testing.signals import Signal

__all__ = ["SourceProbe"]

T = TypeVar("T")


class SourceProbe(Flowable[T]):
    """A Flowable for tests that writes down each request and cancel, and counts what it gave.

    Made of an iterable, it takes an item from it when one is requested, on the asking thread. Made of nothing, it is
    emitted by hand: `emit` gives items to all its subscriptions, which hold them until they are requested; what was
    emitted before a subscription is not repeated. It works on real threads and on those of a controlled platform; make
    it where it is used, inside the scenario.

    `_lock` guards all fields but `_items`; the public numbers may be read without it.

    Args:
        items: an iterable, iterated anew by each subscription; None for a source that is emitted by hand.
        patience: seconds that a wait takes at most.

    >>> source = SourceProbe(range(10))
    >>> from rxwow.testing.probe import SubscriberProbe
    >>> probe = SubscriberProbe(demand=2)
    >>> handle = source.subscribe(probe)
    >>> probe.request(3)
    >>> probe.cancel()
    >>> source.requests, source.taken, source.emitted, source.cancels
    ([2, 3], 5, 5, 1)
    """

    def __init__(self, items: Iterable[T] | None = None, *, patience: float = 5.0) -> None:
        if items is not None and not isinstance(items, Iterable):
            raise InvalidArgumentError("items", items, "an iterable, or None for a source that is emitted by hand")
        super().__init__(self._connect)
        self._items = items
        self.patience = patience
        self.signals: list[Signal] = []
        """Each `subscribe`, `request` and `cancel`, of all subscriptions, when it was called."""
        self.requests: list[Any] = []
        """What was requested, call by call; also what is not allowed."""
        self.requested = 0
        """The sum of all valid requests."""
        self.cancels = 0
        """How often `cancel` was called."""
        self.taken = 0
        """How many items were taken from the iterable, or given to `emit`."""
        self.emitted = 0
        """How many items subscribers have got."""
        self._emitters: list[_Emitter[T]] = []
        self._end: Callable[[_Emitter[T]], object] | None = None
        self._platform = current_platform()
        self._lock = self._platform.lock()
        self._news = News(self._platform)

    # What the test does.

    @property
    def subscriptions(self) -> int:
        """How many subscriptions have not ended."""
        return len(self._emitters)

    def emit(self, *items: T) -> None:
        """Give items to all subscriptions; they emit them when they are requested.

        Raises:
            UsageError: the source was made of an iterable, or has been ended.
        """
        emitters = self._opened("emit")
        self._note(taken=len(items))
        for emitter in emitters:
            emitter.put(items)

    def complete(self) -> None:
        """Complete all subscriptions, also later ones, after the items that wait.

        Raises:
            UsageError: see `emit`.
        """
        self._finish("complete", lambda emitter: emitter.complete())

    def fail(self, error: Exception) -> None:
        """End all subscriptions, also later ones, with an error, after the items that wait.

        Raises:
            UsageError: see `emit`.
        """
        self._finish("fail", lambda emitter: emitter.fail(error))

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on what is counted holds.

        Raises:
            AssertionError: it did not hold in time.
        """
        if not self._news.wait_until(condition, self.patience):
            raise AssertionError(f"waited in vain; {self}")

    def wait_for_demand(self, total: int) -> None:
        """Wait until at least `total` items were requested in all.

        Raises:
            AssertionError: they were not, in time.
        """
        self.wait_until(lambda: self.requested >= total)

    def wait_for_cancel(self) -> None:
        """Wait until a subscription is cancelled.

        Raises:
            AssertionError: none was, in time.
        """
        self.wait_until(lambda: self.cancels)

    def __str__(self) -> str:
        return (
            f"the source was requested {self.requests} and cancelled {self.cancels} times; it took {self.taken} items "
            f"and emitted {self.emitted}; {self.subscriptions} subscriptions have not ended"
        )

    def _finish(self, call: str, end: Callable[[_Emitter[T]], object]) -> None:
        emitters = self._opened(call)
        with self._lock:
            self._end = end
        for emitter in emitters:
            end(emitter)

    def _opened(self, call: str) -> Sequence[_Emitter[T]]:
        if self._items is not None:
            raise UsageError(f"{call} is for a SourceProbe made without an iterable")
        with self._lock:
            if self._end is not None:
                raise UsageError(f"{call} came after the source was ended; make a new SourceProbe")
            return tuple(self._emitters)

    # What the subscriptions do.

    def _connect(self, subscriber: Subscriber[T], _: abc.SchedulerBase | None) -> Subscription:
        emitter = _Emitter(subscriber, current_platform(), self, self._items)
        with self._lock:
            self._emitters.append(emitter)
            end = self._end
            self._record("subscribe", None)
        if end is not None:
            end(emitter)
        emitter.start()
        return emitter

    def _record(self, name: str, value: Any) -> None:
        self.signals.append(Signal(len(self.signals), name, value, get_ident(), self._platform.monotonic()))

    def _note_request(self, n: Any) -> None:
        with self._lock:
            self.requests.append(n)
            if is_valid_request(n):
                self.requested += n
            self._record("request", n)
        self._news.tell()

    def _note_cancel(self) -> None:
        with self._lock:
            self.cancels += 1
            self._record("cancel", None)
        self._news.tell()

    def _note(self, *, taken: int = 0, emitted: int = 0, ended: _Emitter[T] | None = None) -> None:
        with self._lock:
            self.taken += taken
            self.emitted += emitted
            if ended in self._emitters:
                self._emitters.remove(ended)
        self._news.tell()


class _Emitter(InlineEmitter[T], Generic[T]):
    """`_queue` is appended to by `put` and taken from by the drainer; a deque guards itself."""

    __slots__ = ("_iterator", "_probe", "_queue", "_rest")

    def __init__(
        self, subscriber: Subscriber[T], platform: Platform, probe: SourceProbe[T], items: Iterable[T] | None
    ) -> None:
        super().__init__(subscriber, platform)
        self._probe = probe
        self._queue: deque[T] = deque()
        self._iterator: Iterator[T] | None = None
        self._rest: int | None = None
        if items is not None:
            self._open(items)

    def _open(self, items: Iterable[T]) -> None:
        try:
            self._iterator = iter(items)
            self._rest = len(items) if isinstance(items, Sized) else None
        except BaseException as error:
            if not is_contained(error):
                raise
            self.fail(as_error(error))
        self._complete_with_last()

    def request(self, n: int) -> None:
        self._probe._note_request(n)
        super().request(n)

    def cancel(self) -> None:
        self._probe._note_cancel()
        super().cancel()

    def put(self, items: Sequence[T]) -> None:
        self._queue.extend(items)
        self.wake()

    def _has_items(self) -> bool:
        return bool(self._queue) if self._iterator is None else not self._has_end()

    def _emit(self, limit: int) -> int:
        if self._iterator is None:
            items = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
        else:
            items = self._take(self._iterator, limit)
        emitted = self._deliver(items) if items else 0
        self._probe._note(emitted=emitted)
        return emitted

    def _take(self, iterator: Iterator[T], limit: int) -> list[T]:
        # One by one for a subscriber that takes them so: it may cancel, and the rest should not have been taken.
        wanted = min(limit, 1024) if self._on_batch is not None else 1
        items: list[T] = []
        try:
            items.extend(itertools.islice(iterator, wanted))
        except BaseException as error:
            if not is_contained(error):
                raise
            self.fail(as_error(error))
        else:
            if len(items) < wanted:
                self.complete()
        self._probe._note(taken=len(items))
        if self._rest is not None:
            self._rest -= len(items)
            self._complete_with_last()
        return items

    def _complete_with_last(self) -> None:
        if self._rest == 0:
            self.complete()

    def _release(self) -> None:
        self._queue.clear()
        self._iterator = None
        self._probe._note(ended=self)
