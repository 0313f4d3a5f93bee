"""merge: the items of several streams, as they come."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from reactivex import Observable

from rxwow.streams.flatten import PREFETCH, check_count, flatten
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import check_observables
from rxwow.streams.protocols import UNBOUNDED

__all__ = ["merge"]

T = TypeVar("T")


@overload
def merge(
    *, max_concurrency: int | None = None, prefetch: int = PREFETCH
) -> Callable[[Observable[Observable[T] | Awaitable[T] | concurrent.futures.Future[T]]], Flowable[T]]: ...


@overload
def merge(
    source: Observable[T], /, *sources: Observable[T], max_concurrency: int | None = None, prefetch: int = PREFETCH
) -> Callable[[Observable[T]], Flowable[T]]: ...


def merge(
    *sources: Observable[Any], max_concurrency: int | None = None, prefetch: int = PREFETCH
) -> Callable[[Observable[Any]], Flowable[Any]]:
    """Emit the items of the source and of `sources` as they come; or, without `sources`, those of a stream of streams.

    Items of one stream keep their order, and streams that have items ready take turns. A slow subscriber bounds what
    waits to `prefetch` items for each stream. Nothing is asked for before the first request. An error of one stream
    ends all at once: the others are cancelled, and items that wait for demand are dropped.

    Args:
        sources: what is merged with the source; subscribed to together with it, also before the first request. If there
            are none, the items of the source are the streams: Observables, futures or awaitables.
        max_concurrency: how many streams are subscribed to at a time, the source being one; the others follow as these
            complete. None for all.
        prefetch: how many items are asked of a stream at first. When three quarters of them were taken, as many are
            asked for again.

    Returns:
        An operator from an Observable to a Flowable. It emits on the threads of the streams, one at a time, or on the
        thread that requests what is ready, and completes when all have. A stream that emits where it is asked may be
        asked on the thread of another one, which waits as long as it has items for the demand.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> odd, even = Flowable.from_iterable([1, 3]), Flowable.from_iterable([2])
    >>> odd.pipe(merge(even)).subscribe(print) and None
    1
    3
    2
    """
    check_observables(sources)
    if max_concurrency is not None:
        check_count("max_concurrency", max_concurrency)
    check_count("prefetch", prefetch)
    limit = UNBOUNDED if max_concurrency is None else max_concurrency

    def operator(source: Observable[Any]) -> Flowable[Any]:
        if not sources:
            return flatten(Flowable.from_observable(source), _itself, limit, prefetch)
        streams = Flowable.from_iterable((Flowable.from_observable(source), *sources))
        return flatten(streams, _itself, limit, prefetch, eager=True)

    return operator


def _itself(stream: T) -> T:
    return stream
