"""map_async: a coroutine for each item, a few at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from reactivex import Observable, abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import current_platform
from rxwow.streams.async_emitter import AsyncIterableEmitter
from rxwow.streams.async_iterables import _loop_for, _OwnLoopEmitter
from rxwow.streams.calls import Calls
from rxwow.streams.containment import as_error, is_contained
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["map_async"]

T = TypeVar("T")
R = TypeVar("R")


def map_async(
    func: Callable[[T], Awaitable[R]], *, max_concurrency: int = 16, ordered: bool = True
) -> Callable[[Observable[T]], Flowable[R]]:
    """Await `func(item)` for each item, several at the same time, and emit the results.

    At most `max_concurrency` items are in the operator: asked of the source and not yet emitted as a result. The source
    is asked for nothing before the first request. When a call fails, the results before it are emitted first, the
    source and the calls after it are cancelled, and the stream ends when they have ended. Likewise the end of the
    source comes after the results of all its items. As with any source that is awaited, an end is emitted when one more
    item is asked for than there are.

    Each call is a task of its own, with a copy of the context variables of the subscription. All run on one event loop,
    chosen as by `from_async_iterable`: the one of the subscribing thread, else the one that the subscriber offers, else
    one of their own. A cancel returns at once; the calls are cancelled in the next turn of the loop.

    Args:
        func: what to await for an item.
        max_concurrency: how many calls run at the same time at most.
        ordered: whether results are emitted in the order of the items; if not, as they come. In order, calls that have
            finished behind a slow one count too.

    Returns:
        An operator from an Observable to a Flowable, which emits on its event loop; a plain Observable is given demand
        by `from_observable` first.

    Raises:
        InvalidArgumentError: `func` can't be called, or `max_concurrency` is no whole number of at least 1.

    >>> import asyncio
    >>> async def double(number):
    ...     await asyncio.sleep(0.001)
    ...     return 2 * number
    >>> Flowable.from_iterable([1, 2, 3]).pipe(map_async(double)).run()
    6
    """
    if not callable(func):
        raise InvalidArgumentError("func", func, "a function that returns an awaitable")
    if not isinstance(max_concurrency, int) or isinstance(max_concurrency, bool) or max_concurrency < 1:
        raise InvalidArgumentError("max_concurrency", max_concurrency, "a whole number of at least 1")

    def mapped(source: Observable[T]) -> Flowable[R]:
        flowable = Flowable.from_observable(source)

        def publish(subscriber: Subscriber[R], scheduler: abc.SchedulerBase | None) -> Subscription:
            platform = current_platform()
            calls: Calls[T, R] = Calls(func, max_concurrency, ordered, subscriber, platform)
            loop = _loop_for(subscriber, scheduler)
            emitter: AsyncIterableEmitter[R]
            if loop is not None:
                emitter = _Emitter(subscriber, platform, calls, loop)
            else:
                emitter = _EmitterOnItsOwnLoop(subscriber, platform, calls)
            emitter.start()
            if not emitter.ended:
                # At once, and not with the first request: a source that doesn't wait for demand would lose items.
                _subscribe(flowable, calls, scheduler)
            return emitter

        return Flowable(publish)

    return mapped


def _subscribe(flowable: Flowable[T], calls: Calls[T, Any], scheduler: abc.SchedulerBase | None) -> None:
    try:
        flowable.subscribe(calls, scheduler=scheduler)
    except BaseException as error:
        if not is_contained(error):
            raise
        calls.on_error(as_error(error))


class _ResultEmitter(AsyncIterableEmitter[R]):
    """Asks the source for as many items as results were delivered, and cancels it at the end.

    That can't be left to the iterator of the results, which may never be opened, or lose its loop.
    """

    __slots__ = ()

    def _emit(self, limit: int) -> int:
        delivered = super()._emit(limit)
        if delivered:
            calls: Any = self._factory
            calls.request(delivered)
        return delivered

    def _stop(self) -> None:
        super()._stop()
        self._cancel_source()

    def _release(self) -> None:
        super()._release()
        self._cancel_source()

    def _cancel_source(self) -> None:
        calls: Any = self._factory
        calls.cancel_source()


class _Emitter(_ResultEmitter[R]):
    __slots__ = ()


class _EmitterOnItsOwnLoop(_ResultEmitter[R], _OwnLoopEmitter[R]):
    __slots__ = ()
