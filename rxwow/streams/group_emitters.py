"""The emitters of a `group_by`: one hands over the groups, and one for each group its items."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from rxwow.streams.emitter import Emitter, is_valid_request
from rxwow.streams.grouped import Group, GroupedFlowable
from rxwow.streams.inline import InlineEmitter
from rxwow.streams.protocols import Subscriber
from rxwow.streams.relay import offered_loop

if TYPE_CHECKING:
    from rxwow.streams.groups import Groups

__all__ = ["GroupEmitter", "GroupsEmitter"]


class GroupsEmitter(Emitter[GroupedFlowable[Any, Any]]):
    """Hands over the groups.

    `Groups.lock` guards `allowance` (groups requested less groups found), `queue`, `unhanded` (how many are in the
    queue or in `on_next`), `opened` and `cancelled`. `_handing` is compared with the identifier of the thread that
    looks, and only that thread sets it to it, as only the drainer touches `_deferred`.
    """

    __slots__ = ("_deferred", "_groups", "_handing", "allowance", "cancelled", "opened", "queue", "unhanded")

    def __init__(self, subscriber: Subscriber[GroupedFlowable[Any, Any]], groups: Groups) -> None:
        super().__init__(subscriber, groups.platform)
        self._groups = groups
        self._handing: int | None = None
        self._deferred: list[GroupEmitter] = []
        self.allowance = 0
        self.cancelled = False
        self.opened = False
        self.queue: deque[Group] = deque()
        self.unhanded = 0

    def offered_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that the subscriber offers."""
        return offered_loop(self._subscriber)

    def request(self, n: int) -> None:
        if is_valid_request(n):
            with self._groups.lock:
                self.opened = True
                self.allowance += n
        super().request(n)
        self._groups.replenish()

    def defer(self, emitter: GroupEmitter) -> None:
        """Put off the items of a group that a plain observer subscribes from inside `on_next` until that is over.

        It may dispose its subscription from inside its own `on_next`, so it must have that in its hands. RxPY's
        trampoline would do, but may be at work on this thread for as long as the source sends.
        """
        if self._handing == get_ident():
            emitter.deferred = True
            self._deferred.append(emitter)

    def put(self, opened: list[Group]) -> None:
        """Add groups to hand over; called with the lock held, `wake` must follow without it."""
        self.allowance -= len(opened)
        self.unhanded += len(opened)
        self.queue.extend(opened)

    def clear(self) -> None:
        """Discard the groups that were not handed over."""
        with self._groups.lock:
            queue, self.queue = self.queue, deque()
            self.unhanded -= len(queue)
        self._groups.discard(queue)

    def _has_items(self) -> bool:
        return bool(self.queue)

    def _emit(self, limit: int) -> int:
        with self._groups.lock:
            groups = [self.queue.popleft() for _ in range(min(limit, len(self.queue)))]
        if not groups:
            return 0
        flowables: list[GroupedFlowable[Any, Any]] = []
        for group in groups:
            flowable: GroupedFlowable[Any, Any] = GroupedFlowable(group.key, partial(self._groups.subscribe, group))
            group.reference = weakref.ref(flowable)
            flowables.append(flowable)
            # Or the last of them would be held here while it is looked for who holds it.
            del flowable
        self._handing = get_ident()
        try:
            self._deliver(flowables)
        finally:
            del flowables
            self._handing = None
            deferred, self._deferred = self._deferred, []
            self._groups.handed_over(groups)
            for emitter in deferred:
                emitter.resume()
        return len(groups)

    def _stop(self) -> None:
        with self._groups.lock:
            self.cancelled = True
        self.clear()

    def _release(self) -> None:
        if self.queue:
            self.clear()


class GroupEmitter(InlineEmitter[Any]):
    """Emits the items of one group. `deferred` is set by the thread that subscribes, which also resumes it."""

    __slots__ = ("_group", "_groups", "deferred")

    def __init__(self, subscriber: Subscriber[Any], groups: Groups, group: Group) -> None:
        super().__init__(subscriber, groups.platform)
        self._groups = groups
        self._group = group
        self.deferred = False

    def request(self, n: int) -> None:
        if is_valid_request(n):
            self._groups.demand(self._group, n)
        super().request(n)
        if not self._group.items:
            self._groups.replenish()

    def resume(self) -> None:
        """Emit what was put off."""
        self.deferred = False
        self._drain()

    def _begin_drain(self) -> None:
        if not self.deferred:
            super()._begin_drain()

    def _has_items(self) -> bool:
        return bool(self._group.items)

    def _emit(self, limit: int) -> int:
        groups, group = self._groups, self._group
        with groups.lock:
            items = [group.items.popleft() for _ in range(min(limit, len(group.items), groups.portion))]
        if not items:
            return 0
        try:
            self._deliver(items)
        finally:
            groups.replenish(len(items))
        return len(items)

    def _stop(self) -> None:
        self._groups.close(self._group)

    def _release(self) -> None:
        self._groups.close(self._group)
