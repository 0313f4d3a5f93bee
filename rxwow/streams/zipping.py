"""zip: the items of several streams side by side."""

# ruff: noqa: A001 - the operator has the name that it has in RxPY

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from threading import get_ident
from typing import Any, TypeAlias, TypeVar, overload

from reactivex import Observable, abc
from reactivex.scheduler import CurrentThreadScheduler

from rxwow.platform import Platform, current_platform
from rxwow.streams.combining import Combining, Upstream
from rxwow.streams.flatten import PREFETCH, check_count, replenish_at
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import Inner, flowable_of, subscribe
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["zip"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

_Source: TypeAlias = Observable[T] | AsyncIterable[T] | Iterable[T]


@overload
def zip(*, prefetch: int = PREFETCH) -> Callable[[Observable[T]], Flowable[tuple[T]]]: ...


@overload
def zip(first: _Source[A], /, *, prefetch: int = PREFETCH) -> Callable[[Observable[T]], Flowable[tuple[T, A]]]: ...


@overload
def zip(
    first: _Source[A], second: _Source[B], /, *, prefetch: int = PREFETCH
) -> Callable[[Observable[T]], Flowable[tuple[T, A, B]]]: ...


@overload
def zip(
    first: _Source[A], second: _Source[B], third: _Source[C], /, *, prefetch: int = PREFETCH
) -> Callable[[Observable[T]], Flowable[tuple[T, A, B, C]]]: ...


@overload
def zip(*sources: _Source[Any], prefetch: int = PREFETCH) -> Callable[[Observable[Any]], Flowable[tuple[Any, ...]]]: ...


def zip(*sources: _Source[Any], prefetch: int = PREFETCH) -> Callable[[Observable[Any]], Flowable[tuple[Any, ...]]]:
    """Emit a tuple of the next item of the source and of each of `sources`, when all have one.

    Each stream is asked for `prefetch` items at first, so no more than that wait for the slowest one or for the
    subscriber; when three quarters of them were taken, as many are asked for again. Nothing is asked for before the
    first request. It completes, and cancels the others, as soon as a stream that has completed has no item left. An
    error of one ends all at once, and what waits is dropped.

    A plain Observable can't be held up if it sends on the very thread that subscribes, for the others come after it:
    then what it is ahead of them is kept without bound, as by RxPY.

    Args:
        sources: what is zipped with the source: Observables, or iterables, async or not. They are subscribed to
            together with it.
        prefetch: see above.

    Returns:
        An operator from an Observable to a Flowable of tuples, emitted on the thread that completed the tuple, or that
        requests it.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> letters = Flowable.from_iterable("ab")
    >>> letters.pipe(zip(Flowable.from_iterable([1, 2, 3]))).subscribe(print) and None
    ('a', 1)
    ('b', 2)
    """
    check_count("prefetch", prefetch)
    others = [(flowable_of(source, "sources"), _is_plain(source)) for source in sources]

    def operator(source: Observable[Any]) -> Flowable[tuple[Any, ...]]:
        streams = [(Flowable.from_observable(source), _is_plain(source)), *others]

        def publish(subscriber: Subscriber[tuple[Any, ...]], scheduler: abc.SchedulerBase | None) -> Subscription:
            zipping = _Zipping(subscriber, current_platform(), scheduler, streams, prefetch)
            zipping.start()
            zipping.connect(streams)
            return zipping

        return Flowable(publish)

    return operator


def _is_plain(source: Inner[Any]) -> bool:
    return isinstance(source, Observable) and not isinstance(source, Flowable)


class _Lane(Upstream):
    """One stream, and what it gave that waits for the others; the operator's `_lock` guards these fields too.

    `thread` is the one that a plain Observable was subscribed to on: it must not be held up while others wait for it.
    """

    __slots__ = ("_zipping", "done", "items", "thread")

    def __init__(self, zipping: _Zipping, due: int, *, plain: bool) -> None:
        super().__init__(zipping, due)
        self._zipping = zipping
        self.items: deque[Any] = deque()
        self.done = False
        self.thread = get_ident() if plain else None

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._zipping.offer(items, self)

    def on_completed(self) -> None:
        self._zipping.lane_completed(self)


class _Zipping(Combining[tuple[Any, ...]]):
    """Has a tuple to emit when no lane is empty.

    `_lock` guards all fields. `_empty` counts the lanes without an item, `_taken` the tuples since the streams were
    asked for more. `_connecting` says that not all streams are subscribed to yet; only the thread that subscribes
    changes it, and only to that thread does it matter.
    """

    __slots__ = ("_connecting", "_empty", "_lanes", "_replenish_at", "_taken")

    def __init__(
        self,
        subscriber: Subscriber[tuple[Any, ...]],
        platform: Platform,
        scheduler: abc.SchedulerBase | None,
        streams: Sequence[tuple[Flowable[Any], bool]],
        prefetch: int,
    ) -> None:
        super().__init__(subscriber, platform, scheduler)
        self._lanes = [_Lane(self, prefetch, plain=plain) for _, plain in streams]
        self._empty = len(self._lanes)
        self._replenish_at = replenish_at(prefetch)
        self._taken = 0
        self._connecting = True

    def connect(self, streams: Sequence[tuple[Flowable[Any], bool]]) -> None:
        # Those that a cancel has taken away are not subscribed.
        for lane, (flowable, _) in builtins.zip(list(self._lanes), streams, strict=False):
            self.subscribe_to(lane, flowable, subscribe)
        with self._lock:
            self._connecting = False

    # What the streams say.

    def offer(self, items: Sequence[Any], lane: _Lane) -> None:
        holds_others_up = lane.thread == get_ident() and (
            self._connecting or not CurrentThreadScheduler.singleton().schedule_required()
        )
        with self._lock:
            if self._is_over() or self._completed:
                return
            if not lane.items:
                self._empty -= 1
            lane.items.extend(items)
            if holds_others_up:
                lane.due += len(items)
            drains = self._has_items() and self._become_drainer()
        if drains:
            self._begin_drain()
        self.ask_emitting(lane)

    def lane_completed(self, lane: _Lane) -> None:
        with self._lock:
            self._upstreams.pop(lane, None)
            lane.done = True
            if lane.items:
                return
            self._completed = True
            drains = self._become_drainer()
        if drains:
            self._begin_drain()

    # What the emitter asks.

    def _has_items(self) -> bool:
        return self._empty == 0

    def _emit(self, limit: int) -> int:
        with self._lock:
            if not self._has_items():
                return 0
            count = min(limit, *(len(lane.items) for lane in self._lanes))
            columns = [[lane.items.popleft() for _ in range(count)] for lane in self._lanes]
            exhausted = [lane for lane in self._lanes if not lane.items]
            self._empty = len(exhausted)
            if any(lane.done for lane in exhausted):
                self._completed = True
        emitted = self._deliver(list(builtins.zip(*columns, strict=True)))
        with self._lock:
            self._taken += count
            if self._taken >= self._replenish_at and not self._completed:
                for lane in self._upstreams:
                    self._credit(lane, self._taken)
                self._taken = 0
        return emitted

    def _forget(self) -> list[deque[Any]]:
        waiting = [lane.items for lane in self._lanes]
        self._lanes = []
        # No tuple will ever be complete.
        self._empty = 1
        return waiting
