"""A group: what the subscriber of a `group_by` has of it, and what is kept of it behind that."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rxwow.errors import UsageError
from rxwow.streams.description import describe
from rxwow.streams.flowable import Flowable, Publish

if TYPE_CHECKING:
    from rxwow.streams.group_emitters import GroupEmitter

__all__ = ["Group", "GroupedFlowable"]

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")


class GroupedFlowable(Flowable[T_co], Generic[K, T_co]):
    """The items of one key; emitted by `group_by`, and subscribed once.

    Args:
        key: what the key mapper returned for its first item.
        publish: starts the subscription; see `Flowable`.
    """

    def __init__(self, key: K, publish: Publish[T_co]) -> None:
        super().__init__(publish)
        self.key = key


class Group:
    """What is kept of one key. `Groups.lock` guards all fields but `key` and `reference`.

    `allowance` is what the subscriber has requested less what came for it, so what is below zero can't move.
    `reference` is set by the drainer of the groups, before anybody can have the group.
    """

    __slots__ = ("allowance", "closed", "emitter", "items", "key", "reference")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.items: deque[Any] = deque()
        self.allowance = 0
        self.closed = False
        self.emitter: GroupEmitter | None = None
        self.reference: weakref.ref[GroupedFlowable[Any, Any]] | None = None

    def is_dropped(self) -> bool:
        """Whether nobody has the group that was handed over; never asked under a lock, as it may be the last to go."""
        return self.reference is not None and self.reference() is None

    def refusal(self, *, taken: bool) -> UsageError:
        """Say why a subscriber can't have the group: it is `taken`, or was closed."""
        if taken:
            return UsageError(
                f"the group {describe(self.key)} has been subscribed before; a group has one subscriber, and "
                "group.pipe(share()) serves several"
            )
        return UsageError(
            f"the group {describe(self.key)} has nothing to give: the stream of groups, and all groups that were "
            "subscribed, had been cancelled when this one was subscribed; subscribe to a group before cancelling the "
            "others"
        )
