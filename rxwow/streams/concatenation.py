"""concat: one stream after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from reactivex import Observable, abc

from rxwow.platform import Platform, current_platform
from rxwow.streams.combining import Combining, Upstream
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flatten import replenish_at
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import Inner, Subscribe, check_observables, flowable_of, subscribe, subscribe_inner
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription

__all__ = ["concat", "concatenate"]

T = TypeVar("T")
R = TypeVar("R")


def concat(*sources: Observable[T]) -> Callable[[Observable[T]], Flowable[T]]:
    """Emit the items of the source, then those of each of `sources`.

    The source is subscribed to at once, each of the others when the one before has completed. It is asked for what the
    subscriber has asked for and not got yet; nothing waits in between. An error ends all.

    Args:
        sources: what comes after the source.

    Returns:
        An operator from an Observable to a Flowable, which emits on the threads of the streams.

    Raises:
        InvalidArgumentError: one of `sources` is no Observable.

    >>> Flowable.from_iterable([1]).pipe(concat(Flowable.from_iterable([2, 3]))).subscribe(print) and None
    1
    2
    3
    """
    check_observables(sources)

    def operator(source: Observable[T]) -> Flowable[T]:
        streams = Flowable.from_iterable((Flowable.from_observable(source), *sources))
        return concatenate(streams, _itself, 1, eager=True)

    return operator


def _itself(stream: T) -> T:
    return stream


def concatenate(
    source: Flowable[T], mapper: Callable[[T], Inner[R]], prefetch: int, *, eager: bool = False
) -> Flowable[R]:
    """Make the Flowable of `concat_map`.

    Args:
        source: gives what the mapper takes.
        mapper: gives the inner streams.
        prefetch: see `concat_map`.
        eager: subscribe to the first inner stream together with the result; it is asked when that is.
    """

    def publish(subscriber: Subscriber[R], scheduler: abc.SchedulerBase | None) -> Subscription:
        concatenation = _Concatenation(subscriber, current_platform(), scheduler, mapper, prefetch, eager=eager)
        concatenation.start()
        concatenation.connect(source)
        return concatenation

    return Flowable(publish)


class _Outer(Upstream):
    """The stream of what the inner streams are made from."""

    __slots__ = ("_concatenation",)

    def __init__(self, concatenation: _Concatenation[Any], due: int, *, eager: bool) -> None:
        super().__init__(concatenation, due, eager=eager)
        self._concatenation = concatenation

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._concatenation.admit(items)

    def on_completed(self) -> None:
        self._concatenation.outer_completed()


class _Inner(Upstream):
    """The inner stream whose turn it is."""

    __slots__ = ("_concatenation",)

    def __init__(self, concatenation: _Concatenation[Any], due: int) -> None:
        super().__init__(concatenation, due)
        self._concatenation = concatenation

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._concatenation.offer(items, self)

    def on_completed(self) -> None:
        self._concatenation.inner_completed(self)


class _Concatenation(Combining[R]):
    """Passes the demand on to one inner stream after the other, and its items back.

    `_lock` guards all fields. `_values` is what is ahead, `_taken` how many of them have had their turn since the
    source was asked for more. `_owed` is what the subscriber has asked for and no inner stream has given yet.
    `_advancing` says that a thread is in the loop that goes on to the next inner stream. `_passing` holds what an inner
    stream gives while it is handed on.
    """

    __slots__ = (
        "_advancing",
        "_current",
        "_mapper",
        "_outer",
        "_outer_done",
        "_owed",
        "_passing",
        "_replenish_at",
        "_subscribe",
        "_taken",
        "_values",
    )

    def __init__(
        self,
        subscriber: Subscriber[R],
        platform: Platform,
        scheduler: abc.SchedulerBase | None,
        mapper: Callable[[Any], Inner[R]],
        prefetch: int,
        *,
        eager: bool,
    ) -> None:
        super().__init__(subscriber, platform, scheduler)
        self._mapper = mapper
        self._replenish_at = replenish_at(prefetch)
        self._subscribe: Subscribe = subscribe if eager else subscribe_inner
        self._outer = _Outer(self, prefetch, eager=eager)
        self._outer_done = False
        self._current: _Inner | None = None
        self._values: deque[Any] = deque()
        self._taken = 0
        self._owed = 0
        self._advancing = False
        self._passing: deque[R] = deque()

    def connect(self, source: Flowable[Any]) -> None:
        self.subscribe_to(self._outer, source, subscribe)

    def request(self, n: int) -> None:
        if is_valid_request(n):
            with self._lock:
                self._owed = min(self._owed + n, UNBOUNDED)
                if self._current is not None:
                    self._credit(self._current, n)
        super().request(n)

    # What the outer stream says.

    def admit(self, values: Sequence[Any]) -> None:
        with self._lock:
            if self._is_over():
                return
            self._values.extend(values)
        self._advance()
        self.ask_emitting(self._outer)

    def outer_completed(self) -> None:
        with self._lock:
            self._outer_done = True
            self._upstreams.pop(self._outer, None)
        self._advance()

    # What the inner stream says.

    def offer(self, items: Sequence[R], inner: _Inner) -> None:
        with self._lock:
            if self._is_over():
                return
            if self._owed != UNBOUNDED:
                self._owed -= len(items)
            self._passing.extend(items)
            drains = self._become_drainer()
        if drains:
            self._begin_drain()
        self.ask_emitting(inner)

    def inner_completed(self, inner: _Inner) -> None:
        with self._lock:
            self._upstreams.pop(inner, None)
            self._current = None
        self._advance()

    # From one inner stream to the next.

    def _advance(self) -> None:
        """Go on to the next inner stream if it is its turn, and to those after it as long as they complete at once.

        Only one thread does. Whoever else comes has changed under the lock what the loop looks at.
        """
        with self._lock:
            if self._advancing:
                return
            self._advancing = True
        while self._begin_next():
            # After the subscription: an inner stream that emits at once is at its end before the source goes on.
            self.ask()

    def _begin_next(self) -> bool:
        value: Any = None
        inner: _Inner | None = None
        drains = False
        with self._lock:
            if self._current is None and self._values and not self._is_over():
                value = self._values.popleft()
                inner = self._current = _Inner(self, max(0, self._owed))
                self._count_taken()
            else:
                self._advancing = False
                self._completed = self._outer_done and self._current is None and not self._values
                drains = self._completed and self._become_drainer()
        if inner is not None:
            self._begin(value, inner)
        elif drains:
            self._begin_drain()
        return inner is not None

    def _count_taken(self) -> None:
        self._taken += 1
        if self._taken >= self._replenish_at and not self._outer_done:
            self._credit(self._outer, self._taken)
            self._taken = 0

    def _begin(self, value: Any, inner: _Inner) -> None:
        try:
            flowable = flowable_of(self._mapper(value), "what the mapper returns")
        except BaseException as error:
            if not is_contained(error):
                self.cancel()
                raise
            self.failed(as_error(error))
            return
        self.subscribe_to(inner, flowable, self._subscribe)

    # What the emitter asks.

    def failed(self, error: Exception) -> None:
        # All that is passing was asked for, so the error has nothing to wait for; and nothing of it is lost.
        self.fail(error)

    def _is_over(self) -> bool:
        return self._error is not None or super()._is_over()

    def _has_items(self) -> bool:
        return bool(self._passing)

    def _emit(self, limit: int) -> int:
        with self._lock:
            items = [self._passing.popleft() for _ in range(min(limit, len(self._passing)))]
        return self._deliver(items) if items else 0

    def _forget(self) -> list[deque[Any]]:
        waiting: list[deque[Any]] = [self._values, self._passing]
        self._values, self._passing = deque(), deque()
        self._current = None
        return waiting
