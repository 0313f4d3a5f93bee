"""group_by: a stream of groups, which live on one demand account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from reactivex import Observable, abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import current_platform
from rxwow.streams.emitter import is_valid_request
from rxwow.streams.flowable import Flowable
from rxwow.streams.grouped import GroupedFlowable
from rxwow.streams.groups import Groups
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["GroupedFlowable", "group_by"]

T = TypeVar("T")
K = TypeVar("K")
E = TypeVar("E")


@overload
def group_by(
    key_mapper: Callable[[T], K], element_mapper: None = None, *, prefetch: int = 256
) -> Callable[[Observable[T]], Flowable[GroupedFlowable[K, T]]]: ...


@overload
def group_by(
    key_mapper: Callable[[T], K], element_mapper: Callable[[T], E], *, prefetch: int = 256
) -> Callable[[Observable[T]], Flowable[GroupedFlowable[K, E]]]: ...


def group_by(
    key_mapper: Callable[[Any], Any], element_mapper: Callable[[Any], Any] | None = None, *, prefetch: int = 256
) -> Callable[[Observable[Any]], Flowable[GroupedFlowable[Any, Any]]]:
    """Emit a group for each new key, which emits the items of that key in their order.

    All groups live on one account: the source is asked for `prefetch` items at the first request for groups, and for
    more as the subscribers of groups have taken theirs (three quarters at a time, or less where nothing else could
    move). So a subscribed group without demand holds up the others when its items use up the account. To do work for
    each of many keys, `keyed_dispatch` is made.

    A group is subscribed at most once; `group.pipe(share())` serves several. The items of a group that is cancelled,
    or that everybody has dropped without subscribing, are discarded from then on, and its key stays known so that it
    does not come again: a key for each such group is what is kept. A group that is held and not subscribed keeps its
    items, also after the end. Where such groups, or groups that wait for demand, use up the account while somebody
    else waits for an item or a group, nothing moves until they are subscribed. They have 5 seconds for that
    (`STALL_PATIENCE`; a subscription may be on its way through a queue or an event loop); then the stream fails with
    a `StalledGroupsError` that names the largest group. So it never hangs for want of a subscriber.

    Cancelling the stream of groups leaves the groups that are subscribed running; the source is cancelled when the last
    of them is cancelled too. A group that was not subscribed by then refuses its subscriber.

    Args:
        key_mapper: gives the key of an item, once for each, on the thread that emits the item. Equal keys are one key.
        element_mapper: gives what the group emits for an item; the item itself if None.
        prefetch: how many items the groups may hold together, at least 1, items that are asked for included.

    Returns:
        An operator from an Observable to a Flowable of `GroupedFlowable`. Groups and items are emitted on the thread
        that brings or requests them; the order between groups is not promised. The end reaches all groups after their
        items. An error of a mapper is the error of all; one for a key that can't be hashed is `InvalidKeyError`.

    Raises:
        InvalidArgumentError: a mapper can't be called, or `prefetch` is below 1.

    >>> totals = {}
    >>> def add_up(group):
    ...     group.subscribe(lambda number: totals.update({group.key: totals.get(group.key, 0) + number}))
    >>> Flowable.from_iterable(range(10)).pipe(group_by(lambda number: number % 3)).subscribe(add_up) and None
    >>> totals
    {0: 18, 1: 12, 2: 15}
    """
    if not callable(key_mapper):
        raise InvalidArgumentError("key_mapper", key_mapper, "a function")
    if element_mapper is not None and not callable(element_mapper):
        raise InvalidArgumentError("element_mapper", element_mapper, "a function, or None")
    # The same rule, for the same reasons.
    if not is_valid_request(prefetch):
        raise InvalidArgumentError("prefetch", prefetch, "a whole number of at least 1")

    def operator(source: Observable[Any]) -> Flowable[GroupedFlowable[Any, Any]]:
        flowable = Flowable.from_observable(source)

        def publish(subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> Subscription:
            groups = Groups(subscriber, current_platform(), key_mapper, element_mapper, prefetch)
            groups.outlet.start()
            groups.connect(flowable, scheduler)
            return groups.outlet

        return Flowable(publish)

    return operator
