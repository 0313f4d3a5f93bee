"""run: wait for the end of a Flowable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from reactivex import abc
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from rxwow.platform import Platform, current_platform
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import about_to_wait, check_may_wait
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscription
from rxwow.streams.waiting import wait_for

__all__ = ["run"]

T = TypeVar("T")

_NOTHING: Final = object()


def run(flowable: Flowable[T], scheduler: abc.SchedulerBase | None = None) -> T:
    """Subscribe, wait for the end and return the last item.

    The items are asked for without bound and emitted where the source emits; the calling thread waits. A
    KeyboardInterrupt cancels the subscription before it goes on.

    Args:
        flowable: what to run.
        scheduler: where to subscribe, and so where a source that emits on the subscribing thread emits; by default the
            calling thread.

    Returns:
        The last item.

    Raises:
        SequenceContainsNoElementsError: there was no item, as RxPY's `run` has it.
        BlockingCallError: the calling thread is a worker.
        Exception: what `on_error` brought.

    >>> run(Flowable.from_iterable("abc"))
    'c'
    """
    check_may_wait("run()", "return the Flowable from the handler, or await it on an event loop of your own")
    last_item: _LastItem[T] = _LastItem(current_platform())
    try:
        with about_to_wait():
            if scheduler is None:
                flowable.subscribe(last_item)
            else:
                last_item.scheduled = scheduler.schedule(_subscribing(flowable, last_item))
            last_item.wait()
    except BaseException:
        last_item.cancel()
        raise
    return last_item.result()


def _subscribing(flowable: Flowable[T], last_item: _LastItem[T]) -> abc.ScheduledAction[Any]:
    def subscribe(scheduler: abc.SchedulerBase, _: Any = None) -> None:
        try:
            flowable.subscribe(last_item, scheduler=scheduler)
        except BaseException as error:
            # It would end a thread that nobody looks at, and leave the caller waiting.
            if not is_contained(error):
                raise
            last_item.on_error(as_error(error))

    return subscribe


class _LastItem(BatchSubscriber[T], Generic[T]):
    """Keeps the last item; `_lock` guards `_subscription` and `_cancelled`, the source's signals come one at a time."""

    __slots__ = ("_cancelled", "_ended", "_error", "_item", "_lock", "_platform", "_subscription", "scheduled")

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._lock = platform.lock()
        self._ended = platform.event()
        self._subscription: Subscription | None = None
        self._cancelled = False
        self._item: Any = _NOTHING
        self._error: Exception | None = None
        self.scheduled: abc.DisposableBase | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscription = subscription
            cancelled = self._cancelled
        if cancelled:
            subscription.cancel()
        else:
            subscription.request(UNBOUNDED)

    def on_next(self, value: T) -> None:
        self._item = value

    def on_next_batch(self, items: Sequence[T]) -> None:
        self._item = items[-1]

    def on_error(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    def on_completed(self) -> None:
        self._ended.set()

    def wait(self) -> None:
        wait_for(self._ended, self._platform)

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            subscription = self._subscription
        if self.scheduled is not None:
            self.scheduled.dispose()
        if subscription is not None:
            subscription.cancel()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        if self._item is _NOTHING:
            raise SequenceContainsNoElementsError
        item: T = self._item
        return item
