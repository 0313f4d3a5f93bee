"""from_iterable: the source that is pulled."""

from __future__ import annotations

import itertools
import logging
import operator
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar, cast

from reactivex import abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.description import describe
from rxwow.streams.emitter import Emitter
from rxwow.streams.flowable import Flowable
from rxwow.streams.inline import InlineEmitter
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["SLOW_PULL", "from_iterable"]

logger = logging.getLogger("rxwow.streams")

T = TypeVar("T")

IterableOrFactory: TypeAlias = Iterable[T] | Callable[[], Iterable[T]]

_NOTHING: Final = object()

SLOW_PULL: Final = 0.1
"""Seconds; a pull that takes longer is logged, once a subscription, with the advice to say `blocking=True`."""

MOST_ITEMS_A_PULL: Final = 1024

LONG_PULL: Final = 0.005
"""Seconds; after a batch that took longer the next is a single item, so that a slow source's items don't wait."""


def from_iterable(iterable_or_factory: IterableOrFactory[T], *, blocking: bool = False) -> Flowable[T]:
    """Emit the items of an iterable, as they are requested.

    Nothing is pulled before it is requested, and never more than that. The thread that requests pulls and emits; with
    a keyed dispatch that is the worker whose messages have just finished, so nothing is handed from thread to thread.

    Args:
        iterable_or_factory: an iterable, or a function that makes a fresh one for each subscription. What was made for
            the subscription (a generator, or an iterator with a `close` method) is closed at its end.
        blocking: give each subscription a thread of its own to pull and emit on. For an iterable that waits (a socket,
            standard input) or is bound to one thread (a database cursor).

    Returns:
        A Flowable that completes at its end; an exception of the iterable is its `on_error`. One whose length is known
        completes with its last item, another when it is asked for more.

    Raises:
        InvalidArgumentError: `iterable_or_factory` is neither.

    >>> Flowable.from_iterable(range(3)).run()
    2
    """
    _check_argument(iterable_or_factory)

    def publish(subscriber: Subscriber[T], _: abc.SchedulerBase | None) -> Subscription:
        emitter: _IterableEmitter[T]
        if blocking:
            emitter = _BlockingEmitter(subscriber, current_platform(), iterable_or_factory)
        else:
            emitter = _IterableEmitter(subscriber, current_platform(), iterable_or_factory)
        emitter.start()
        return emitter

    return Flowable(publish)


def _check_argument(iterable_or_factory: object) -> None:
    if not isinstance(iterable_or_factory, Iterable) and not callable(iterable_or_factory):
        allowed = "an iterable or a function that makes one"
        raise InvalidArgumentError("iterable_or_factory", iterable_or_factory, allowed)


class _IterableEmitter(InlineEmitter[T]):
    """Pulls its iterator on the draining thread; only the drainer touches the fields that are declared here."""

    __slots__ = ("_ahead", "_closes", "_factory", "_iterator", "_most", "_platform", "_warned")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, factory: IterableOrFactory[T]) -> None:
        super().__init__(subscriber, platform)
        self._platform = platform
        self._factory = factory
        self._iterator: Iterator[T] | None = None
        self._closes = False
        self._ahead: list[T] = []
        self._most = 1
        self._warned = False

    def start(self) -> None:
        self._look_for_end()
        super().start()

    def _has_items(self) -> bool:
        return not self._has_end()

    def _emit(self, limit: int) -> int:
        iterator = self._open()
        if iterator is None:
            return 0
        if self._on_batch is None:
            return self._emit_singly(iterator, limit)
        return self._emit_batch(iterator, min(limit, self._most))

    def _emit_batch(self, iterator: Iterator[T], limit: int) -> int:
        items, self._ahead = self._ahead, []
        self._pull(iterator, items, limit)
        self._look_for_end()
        return self._deliver(items) if items else 0

    def _emit_singly(self, iterator: Iterator[T], limit: int) -> int:
        """Pull one item at a time, so that a subscriber that cancels leaves the next in the iterator."""
        # Without a function for each step, which cost a plain observer a third more for each item.
        emitted = 0
        ahead, monotonic, on_batch = self._ahead, self._platform.monotonic, self._on_batch
        give: Callable[[T], object] = self._on_next if on_batch is None else lambda item: on_batch((item,))
        while emitted < limit and not self._ended and not self._at_once:
            began = monotonic()
            try:
                item: Any = ahead.pop() if ahead else next(iterator, _NOTHING)
            except BaseException as error:
                if not is_contained(error):
                    raise
                self._set_error(error)
                break
            took = monotonic() - began
            if took > SLOW_PULL:
                self._warn_slow_pull(took)
            if item is _NOTHING:
                self._set_completed()
                break
            if emitted + 1 == limit:
                # With more demand the end is found by going on.
                self._look_for_end()
            if self._ended or self._at_once:
                # Cancelled while the item was waited for.
                break
            emitted += 1
            try:
                give(item)
            except BaseException as error:
                if not is_contained(error):
                    raise
                self._observer_failed("on_next", error)
        return emitted

    def _open(self) -> Iterator[T] | None:
        if self._iterator is not None:
            return self._iterator
        factory: Any = self._factory
        try:
            iterable = cast(Iterable[T], factory if isinstance(factory, Iterable) else factory())
            self._iterator = iter(iterable)
        except BaseException as error:
            if not is_contained(error):
                raise
            self._set_error(error)
            return None
        self._closes = iterable is not factory or self._iterator is not iterable or isinstance(iterable, Generator)
        return self._iterator

    def _pull(self, iterator: Iterator[T], items: list[T], wanted: int) -> None:
        """Add to `items` until there are as many as `wanted`."""
        count = wanted - len(items)
        if count <= 0:
            return
        began = self._platform.monotonic()
        try:
            # extend keeps what came before an exception, where list(...) would lose it.
            items.extend(itertools.islice(iterator, count))
        except BaseException as error:
            if not is_contained(error):
                raise
            self._set_error(error)
        else:
            if len(items) < wanted:
                self._set_completed()
        took = self._platform.monotonic() - began
        self._most = 1 if took > LONG_PULL else min(2 * self._most, MOST_ITEMS_A_PULL)
        if took > SLOW_PULL:
            self._warn_slow_pull(took)

    def _look_for_end(self) -> None:
        """Complete with the last item where the end can be seen without waiting for it.

        A length hint of zero only permits a look ahead: it is an estimate, so what comes all the same is kept.
        """
        iterator = self._iterator
        if iterator is None:
            if not hasattr(self._factory, "__len__"):
                return
            iterator = self._open()
            if iterator is None:
                return
        if self._ahead or self._has_end():
            return
        try:
            hint = operator.length_hint(iterator, 1)
        except Exception:  # noqa: BLE001 - the iterator's own hint may fail; it is only a hint
            hint = 1
        if hint == 0:
            self._pull(iterator, self._ahead, 1)

    def _set_error(self, error: BaseException) -> None:
        with self._lock:
            if not self._has_end():
                self._error = as_error(error)

    def _set_completed(self) -> None:
        with self._lock:
            self._completed = True

    def _warn_slow_pull(self, seconds: float) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "pulling %s took %.3f s and held the thread that asked for it; a source that waits should be made with "
                "Flowable.from_iterable(..., blocking=True)",
                describe(self._factory),
                seconds,
            )

    def _release(self) -> None:
        iterator, self._iterator = self._iterator, None
        self._ahead = []
        close: Any = getattr(iterator, "close", None)
        if close is not None and self._closes:
            try:
                close()
            except BaseException as error:
                if not is_contained(error):
                    raise
                logger.exception("closing %s raised", describe(self._factory))


class _BlockingEmitter(_IterableEmitter[T]):
    """Pulls, emits and closes on a thread of its own, which is the only drainer."""

    __slots__ = ("_drain_due", "_thread")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, factory: IterableOrFactory[T]) -> None:
        super().__init__(subscriber, platform, factory)
        # It has the advice already.
        self._warned = True
        self._drain_due = platform.event()
        self._thread = platform.thread(self._serve, "rxwow-source")

    def start(self) -> None:
        self._thread.start()
        # Past the parent, which would open the iterable on this thread: a database cursor may be bound to its maker's.
        Emitter[T].start(self)

    def _begin_drain(self) -> None:
        self._drain_due.set()

    def _serve(self) -> None:
        try:
            self._look_for_end()
        except BaseException:
            self._abandon()
            raise
        while not self._finished:
            self._drain_due.wait()
            self._drain_due.clear()
            self._drain()

    def _emit(self, limit: int) -> int:
        # One at a time: the next may be long in coming, and the last must not wait for it.
        iterator = self._open()
        return 0 if iterator is None else self._emit_singly(iterator, limit)
