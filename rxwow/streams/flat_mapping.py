"""flat_map: a stream for each item, side by side."""

from __future__ import annotations

import concurrent.futures
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar, overload

from reactivex import Observable

from rxwow.streams.flatten import PREFETCH, check_count, flatten
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import Inner, mapper_of

__all__ = ["MAX_CONCURRENCY", "flat_map"]

T = TypeVar("T")
R = TypeVar("R")

MAX_CONCURRENCY: Final = 256


@overload
def flat_map(
    mapper: Callable[[T], Observable[R]], *, max_concurrency: int = MAX_CONCURRENCY, prefetch: int = PREFETCH
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def flat_map(
    mapper: Callable[[T], Awaitable[R] | concurrent.futures.Future[R]],
    *,
    max_concurrency: int = MAX_CONCURRENCY,
    prefetch: int = PREFETCH,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def flat_map(
    mapper: Callable[[T], AsyncIterable[R] | Iterable[R]],
    *,
    max_concurrency: int = MAX_CONCURRENCY,
    prefetch: int = PREFETCH,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def flat_map(
    mapper: Inner[R], *, max_concurrency: int = MAX_CONCURRENCY, prefetch: int = PREFETCH
) -> Callable[[Observable[Any]], Flowable[R]]: ...


def flat_map(
    mapper: Callable[[Any], Inner[Any]] | Inner[Any],
    *,
    max_concurrency: int = MAX_CONCURRENCY,
    prefetch: int = PREFETCH,
) -> Callable[[Observable[Any]], Flowable[Any]]:
    """Turn each item into a stream, and emit the items of these inner streams as they come.

    Items of one inner stream keep their order; inner streams that have items ready take turns. One that emits on the
    thread that asks it, as `from_iterable` does, keeps that thread for as long as there is demand. At most
    `max_concurrency` are subscribed to at a time, so a slow subscriber bounds what waits to `max_concurrency` times
    `prefetch` items. Nothing is asked for before the first request.

    An error of the source, of an inner stream or of the mapper ends all at once: the others are cancelled, and items
    that wait for demand are dropped.

    Args:
        mapper: gives the inner stream of an item, on the thread that emits the item: an Observable, a future, an
            awaitable, or an iterable, async or not; or it is one of these itself, and the same for each item. Inner
            streams get the subscribe-time scheduler. A plain Observable is given demand by `from_observable`.
        max_concurrency: how many items of the source are asked for at first, and so how many inner streams there are at
            most; one more is asked for when an inner stream has completed and its items were taken.
        prefetch: how many items are asked of an inner stream at first. When three quarters of them were taken, as many
            are asked for again.

    Returns:
        An operator from an Observable to a Flowable. It emits on the threads of the inner streams, one at a time, or
        on the thread that requests what is ready, and completes when the source and all inner streams have.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> words = Flowable.from_iterable(["ab", "c"])
    >>> words.pipe(flat_map(lambda word: Flowable.from_iterable(word))).subscribe(print) and None
    a
    b
    c
    """
    inner_of = mapper_of(mapper)
    check_count("max_concurrency", max_concurrency)
    check_count("prefetch", prefetch)

    def operator(source: Observable[Any]) -> Flowable[Any]:
        return flatten(Flowable.from_observable(source), inner_of, max_concurrency, prefetch)

    return operator
