"""flatten: the items of many inner streams, as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Final, TypeVar

from reactivex import abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.combining import Combining, Upstream
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import Inner, Subscribe, flowable_of, subscribe, subscribe_inner
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription

__all__ = ["PREFETCH", "check_count", "flatten", "replenish_at"]

T = TypeVar("T")
R = TypeVar("R")

PREFETCH: Final = 32


def flatten(
    source: Flowable[T],
    mapper: Callable[[T], Inner[R]],
    max_concurrency: int,
    prefetch: int,
    *,
    eager: bool = False,
) -> Flowable[R]:
    """Make the Flowable of `flat_map`.

    Args:
        source: gives what the mapper takes.
        mapper: gives the inner streams.
        max_concurrency: see `flat_map`; `UNBOUNDED` for all.
        prefetch: see `flat_map`.
        eager: subscribe to the inner streams together with the result; they are asked when it is.
    """

    def publish(subscriber: Subscriber[R], scheduler: abc.SchedulerBase | None) -> Subscription:
        flattening = _Flattening(subscriber, current_platform(), scheduler, mapper, prefetch)
        flattening.start()
        flattening.connect(source, max_concurrency, eager=eager)
        return flattening

    return Flowable(publish)


def check_count(argument: str, value: object) -> None:
    """Refuse what is no whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgumentError(argument, value, "a whole number of at least 1")


def replenish_at(prefetch: int) -> int:
    """Return after how many items taken as many are asked for again: three quarters, so the source needn't stop."""
    return max(1, prefetch * 3 // 4)


class _Outer(Upstream):
    """The stream of what the inner streams are made from."""

    __slots__ = ("_flattening",)

    def __init__(self, flattening: _Flattening[Any], due: int, *, eager: bool) -> None:
        super().__init__(flattening, due, eager=eager)
        self._flattening = flattening

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._flattening.admit(items, self)

    def on_completed(self) -> None:
        self._flattening.outer_completed(self)


class _Inner(Upstream):
    """One inner stream, and what it gave that waits to be taken; `_lock` of the operator guards these fields too.

    `taking` says that the drainer is giving its last items to the subscriber, or some of them. It keeps its place
    among the inner streams until that is done.
    """

    __slots__ = ("_flattening", "done", "items", "taken", "taking")

    def __init__(self, flattening: _Flattening[Any], due: int) -> None:
        super().__init__(flattening, due)
        self._flattening = flattening
        self.items: deque[Any] = deque()
        self.taken = 0
        self.taking = False
        self.done = False

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._flattening.offer(items, self)

    def on_completed(self) -> None:
        self._flattening.inner_completed(self)


class _Flattening(Combining[R]):
    """Takes turns with the inner streams that have items.

    `_lock` guards all fields. `_ready` holds the inner streams that have items, each once. `_active` counts those that
    have their place. `_admitting` is the thread on which the outer stream is giving items.
    """

    __slots__ = (
        "_active",
        "_admitting",
        "_mapper",
        "_outer",
        "_outer_done",
        "_prefetch",
        "_ready",
        "_replenish_at",
        "_subscribe",
    )

    def __init__(
        self,
        subscriber: Subscriber[R],
        platform: Platform,
        scheduler: abc.SchedulerBase | None,
        mapper: Callable[[Any], Inner[R]],
        prefetch: int,
    ) -> None:
        super().__init__(subscriber, platform, scheduler)
        self._mapper = mapper
        self._prefetch = prefetch
        self._replenish_at = replenish_at(prefetch)
        self._ready: deque[_Inner] = deque()
        self._active = 0
        self._outer: _Outer | None = None
        self._outer_done = False
        self._admitting: int | None = None
        self._subscribe: Subscribe = subscribe

    def connect(self, source: Flowable[Any], max_concurrency: int, *, eager: bool) -> None:
        self._subscribe = subscribe if eager else subscribe_inner
        outer = _Outer(self, max_concurrency, eager=eager)
        if max_concurrency != UNBOUNDED:
            self._outer = outer
        self.subscribe_to(outer, source, subscribe)

    # What the outer stream says.

    def admit(self, values: Sequence[Any], outer: _Outer) -> None:
        """Subscribe to the inner streams of `values`."""
        with self._lock:
            self._admitting = get_ident()
        try:
            for value in values:
                if self._is_over():
                    return
                self._begin(value)
        finally:
            with self._lock:
                self._admitting = None
        # For all that have completed meanwhile, in one request.
        self.ask_emitting(outer)

    def _begin(self, value: Any) -> None:
        try:
            flowable = flowable_of(self._mapper(value), "what the mapper returns")
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self.failed(as_error(error))
            return
        with self._lock:
            self._active += 1
        inner = _Inner(self, self._prefetch)
        self.subscribe_to(inner, flowable, self._subscribe)

    def outer_completed(self, outer: _Outer) -> None:
        with self._lock:
            self._outer_done = True
            self._outer = None
            self._upstreams.pop(outer, None)
            self._completed = not self._active
            drains = self._completed and self._become_drainer()
        if drains:
            self._begin_drain()

    # What the inner streams say.

    def offer(self, items: Sequence[Any], inner: _Inner) -> None:
        """Keep `items` until it is the turn of `inner`, which may be now."""
        with self._lock:
            if self._is_over():
                return
            if not inner.items:
                self._ready.append(inner)
            inner.items.extend(items)
            drains = self._become_drainer()
        if drains:
            self._begin_drain()
        self.ask_emitting(inner)

    def inner_completed(self, inner: _Inner) -> None:
        with self._lock:
            self._upstreams.pop(inner, None)
            inner.done = True
            if inner.items or inner.taking:
                return
            self._leave()
            drains = self._completed and self._become_drainer()
        if drains:
            self._begin_drain()
        else:
            self.ask()

    def _leave(self) -> None:
        """Give the place of an inner stream free, with the lock held."""
        self._active -= 1
        if self._outer_done:
            self._completed = not self._active
        elif self._outer is None:
            # All have their place.
            return
        elif self._admitting == get_ident():
            # `admit` asks, for several at once.
            self._outer.due += 1
        else:
            self._credit(self._outer, 1)

    # What the emitter asks.

    def _has_items(self) -> bool:
        return bool(self._ready)

    def _emit(self, limit: int) -> int:
        with self._lock:
            if not self._ready:
                return 0
            inner = self._ready.popleft()
            items = self._take(inner, limit)
        emitted = self._deliver(items)
        with self._lock:
            inner.taking = False
            if not inner.done:
                inner.taken += len(items)
                if inner.taken >= self._replenish_at:
                    self._credit(inner, inner.taken)
                    inner.taken = 0
            elif not inner.items:
                self._leave()
        return emitted

    def _take(self, inner: _Inner, limit: int) -> list[Any]:
        inner.taking = True
        if len(inner.items) <= limit:
            items = list(inner.items)
            inner.items.clear()
            return items
        items = [inner.items.popleft() for _ in range(limit)]
        self._ready.append(inner)
        return items

    def _forget(self) -> list[deque[Any]]:
        waiting = [inner.items for inner in self._ready]
        self._ready.clear()
        return waiting
