"""The account on which all groups of a `group_by` live."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rxwow.streams.grouped import Group

if TYPE_CHECKING:
    from rxwow.streams.group_emitters import GroupEmitter

__all__ = ["Account"]


class Account:
    """How much may be asked for, and which of the items that are held can move.

    Every method is called with `Groups.lock` held, which guards all fields. `held` are the items that are neither taken
    nor discarded; `stuck` those of them that nobody has asked for, and `withheld` those of the stuck that have a
    subscriber all the same. `hungry` is the number of subscribed groups that have asked for more than came. `moves`
    grows with all that happens, so that it tells whether anything has.
    """

    __slots__ = ("_asked", "_batch", "held", "hungry", "moves", "prefetch", "stuck", "withheld")

    def __init__(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self._batch = prefetch - prefetch // 4
        self._asked = 0
        self.held = 0
        self.stuck = 0
        self.withheld = 0
        self.hungry = 0
        self.moves = 0

    @property
    def room(self) -> int:
        return self.prefetch - self._asked - self.held

    @property
    def is_idle(self) -> bool:
        """Whether nothing will come or go by itself."""
        return self._asked == 0 and self.held == self.stuck

    def claim(self, least: int | None = None) -> int:
        """Take what there is room for, if it is worth a request."""
        room = self.room
        if room < (self._batch if least is None else least):
            return 0
        self._asked += room
        return room

    # What happens to the items.

    def received(self, count: int) -> None:
        """Note that so many items came, which may be more than was asked for."""
        self._asked = max(0, self._asked - count)
        self.moves += 1

    def put(self, group: Group, items: Sequence[Any]) -> None:
        """Hold items for a group."""
        self._remove(group)
        group.items.extend(items)
        self.held += len(items)
        group.allowance -= len(items)
        self._add(group)

    def taken(self, count: int) -> None:
        """Note that the subscribers of groups have taken items."""
        self.held -= count
        self.moves += count

    # What happens to a group.

    def subscribe(self, group: Group, emitter: GroupEmitter) -> None:
        """Note who emits the items of a group."""
        self._remove(group)
        group.emitter = emitter
        self._add(group)
        self.moves += 1

    def demand(self, group: Group, n: int) -> None:
        """Note that the subscriber of a group asks for `n` more."""
        self._remove(group)
        group.allowance += n
        self._add(group)

    def close(self, group: Group) -> deque[Any]:
        """Count a group out for good; return its items, to be let go of without the lock."""
        self._remove(group)
        group.closed = True
        items, group.items = group.items, deque()
        self.held -= len(items)
        self.moves += 1
        return items

    def _add(self, group: Group, sign: int = 1) -> None:
        excess = sign * max(0, -group.allowance)
        self.stuck += excess
        if group.emitter is not None:
            self.withheld += excess
            self.hungry += sign * (group.allowance > 0)

    def _remove(self, group: Group) -> None:
        self._add(group, -1)
