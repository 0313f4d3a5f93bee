"""concat_map: a stream for each item, one after the other."""

from __future__ import annotations

import concurrent.futures
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, TypeVar, overload

from reactivex import Observable

from rxwow.streams.concatenation import concatenate
from rxwow.streams.flatten import check_count
from rxwow.streams.flowable import Flowable
from rxwow.streams.inner import Inner, mapper_of

__all__ = ["concat_map"]

T = TypeVar("T")
R = TypeVar("R")


@overload
def concat_map(
    mapper: Callable[[T], Observable[R]], *, prefetch: int = 1
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def concat_map(
    mapper: Callable[[T], Awaitable[R] | concurrent.futures.Future[R]], *, prefetch: int = 1
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def concat_map(
    mapper: Callable[[T], AsyncIterable[R] | Iterable[R]], *, prefetch: int = 1
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def concat_map(mapper: Inner[R], *, prefetch: int = 1) -> Callable[[Observable[Any]], Flowable[R]]: ...


def concat_map(
    mapper: Callable[[Any], Inner[Any]] | Inner[Any], *, prefetch: int = 1
) -> Callable[[Observable[Any]], Flowable[Any]]:
    """Turn each item into a stream, and emit the items of these inner streams, one stream after the other.

    An inner stream is subscribed to when the one before has completed, and is asked for what the subscriber has asked
    for and not got yet; nothing waits in between. Nothing is asked for before the first request.

    An error of the source, of an inner stream or of the mapper ends all at once. The source is ahead of the inner
    streams, so its error may come before the items of one that is not at its end.

    Args:
        mapper: gives the inner stream of an item, when it is its turn, on the thread on which the one before has
            completed or on which the item came. See `flat_map` for what it may be.
        prefetch: how many items of the source are taken ahead of the one whose inner stream is subscribed to.

    Returns:
        An operator from an Observable to a Flowable, which emits on the threads of the inner streams and completes when
        the source and the last of them have.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> words = Flowable.from_iterable(["ab", "c"])
    >>> words.pipe(concat_map(lambda word: Flowable.from_iterable(word))).subscribe(print) and None
    a
    b
    c
    """
    inner_of = mapper_of(mapper)
    check_count("prefetch", prefetch)

    def operator(source: Observable[Any]) -> Flowable[Any]:
        return concatenate(Flowable.from_observable(source), inner_of, prefetch)

    return operator
