"""grouped_dispatch: the older model, in which keys share a fixed number of groups."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, overload

from reactivex import Observable

from rxwow.errors import InvalidArgumentError
from rxwow.execution.failure import FAIL, OnFailure
from rxwow.execution.keyed_dispatch import keyed_dispatch
from rxwow.execution.options import check_callable, check_count
from rxwow.execution.parallelism import available_cpus
from rxwow.execution.scheduler import KeyedScheduler
from rxwow.execution.stable_hash import stable_hash
from rxwow.streams.flowable import Flowable

__all__ = ["MessageParallelism", "grouped_dispatch"]

T = TypeVar("T")
R = TypeVar("R")


class MessageParallelism:
    """How many groups there are by default."""

    GROUPS_A_CPU: Final = 64

    DEFAULT: Final = GROUPS_A_CPU * available_cpus()
    """64 for each CPU that this process may use."""


@overload
def grouped_dispatch(
    key: Callable[[T], Any],
    handler: Callable[[T], Awaitable[R]],
    *,
    parallelism: int = MessageParallelism.DEFAULT,
    scheduler: KeyedScheduler | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def grouped_dispatch(
    key: Callable[[T], Any],
    handler: Callable[[T], concurrent.futures.Future[R]],
    *,
    parallelism: int = MessageParallelism.DEFAULT,
    scheduler: KeyedScheduler | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def grouped_dispatch(
    key: Callable[[T], Any],
    handler: Callable[[T], Observable[R]],
    *,
    parallelism: int = MessageParallelism.DEFAULT,
    scheduler: KeyedScheduler | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def grouped_dispatch(
    key: Callable[[T], Any],
    handler: Callable[[T], R],
    *,
    parallelism: int = MessageParallelism.DEFAULT,
    scheduler: KeyedScheduler | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


def grouped_dispatch(
    key: Callable[[Any], Any],
    handler: Callable[[Any], Any],
    *,
    parallelism: int = MessageParallelism.DEFAULT,
    scheduler: KeyedScheduler | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[Any], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[Any]], Flowable[Any]]:
    """Handle the messages of one group of keys one at a time, and those of different groups side by side.

    Each key belongs to one of `parallelism` groups, by a hash that is the same in every process. So messages of one key
    are in order as with `keyed_dispatch`, and keys that share a group wait for each other: for a slow handler, and for
    the whole backoff of a retry. It is here to be compared with, and for those who rely on a fixed number of lanes; in
    all else it is `keyed_dispatch` with the group as the key.

    Args:
        key: gives the key of a message: a str, bytes, int, UUID, or a tuple of such. A message with another key is
            handled as failed.
        handler: see `keyed_dispatch`.
        parallelism: how many groups there are; 64 for each CPU by default.
        scheduler: on whose executor the handlers run, such as one of an `AggregateSchedulerSupplier`; that of
            `KeyedExecutor.shared()` if None.
        max_in_flight: see `keyed_dispatch`.
        throughput: see `keyed_dispatch`; of one group.
        on_failure: see `keyed_dispatch`; a retry holds up its group.
        on_discard: see `keyed_dispatch`.
        run_in: see `keyed_dispatch`.
        name: see `keyed_dispatch`.

    Returns:
        An operator from an Observable of messages to a Flowable of results; see `keyed_dispatch`.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> orders = Flowable.from_iterable([("ann", 5), ("bob", 3), ("ann", 2)])
    >>> seen = orders.pipe(grouped_dispatch(lambda order: order[0], lambda order: order[1], parallelism=1)).to_list()
    >>> Flowable.from_observable(seen).run()
    [5, 3, 2]
    """
    check_callable("key", key)
    check_count("parallelism", parallelism)
    if scheduler is not None and not isinstance(scheduler, KeyedScheduler):
        raise InvalidArgumentError("scheduler", scheduler, "a KeyedScheduler, or None for the shared executor")

    def group_of(item: Any) -> int:
        return stable_hash(key(item)) % parallelism

    return keyed_dispatch(
        group_of,
        handler,
        executor=None if scheduler is None else scheduler.executor,
        max_in_flight=max_in_flight,
        throughput=throughput,
        on_failure=on_failure,
        on_discard=on_discard,
        run_in=run_in,
        name=name,
    )
