"""The watch over a `group_by` that stands still."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Final

from rxwow.errors import StalledGroupsError

if TYPE_CHECKING:
    from rxwow.streams.groups import Groups

__all__ = ["STALL_PATIENCE", "StallWatch"]

STALL_PATIENCE: Final = 5.0
"""Seconds in which a group that holds everything up has to be subscribed, before the stream fails."""

FIRST_LOOK: Final = 0.01
"""Seconds until a stalled stream looks for groups that were dropped; after each look twice as many."""


class StallWatch:
    """Looks for groups that were dropped, which nobody tells, and fails the stream when patience is at its end.

    It has a thread while the stream stands still. A weak reference could tell of a dropped group, but wherever the
    collector runs: also under the lock that would be needed. `Groups.lock` guards `_watching`.
    """

    __slots__ = ("_groups", "_over", "_watching")

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._over = groups.platform.event()
        self._watching = False

    def begin(self) -> None:
        """Watch, if the stream stands still and nobody watches yet."""
        with self._groups.lock:
            begins = not self._watching and self._is_stalled()
            self._watching |= begins
        if begins:
            # At the end of the interpreter no thread can be started, and nobody waits any more.
            with contextlib.suppress(RuntimeError):
                self._groups.platform.thread(self._watch, "rxwow-group-by").start()

    def end(self) -> None:
        """Watch no more."""
        self._over.set()

    def _is_stalled(self) -> bool:
        """Whether somebody waits for what only a subscription to a group, or demand for groups, can bring."""
        groups = self._groups
        account, outlet = groups.account, groups.outlet
        waits = account.hungry > 0 or (outlet.allowance > 0 and not outlet.cancelled)
        moves = groups.done or account.withheld or not account.is_idle or outlet.unhanded > max(0, -outlet.allowance)
        return waits and not moves and account.room <= 0

    def _watch(self) -> None:
        groups = self._groups
        moves, waited, pause = -1, 0.0, FIRST_LOOK
        while not self._over.wait(pause):
            waited += pause
            last = waited >= STALL_PATIENCE
            if last:
                # What is in a cycle, or was dropped by another thread on a free-threaded build, may still be there.
                gc.collect()
            groups.replenish()
            with groups.lock:
                if not self._is_stalled():
                    self._watching = False
                    return
                same = moves == groups.account.moves
                moves = groups.account.moves
            if not same:
                waited, pause = 0.0, FIRST_LOOK
            elif last:
                self._fail()
                return
            else:
                pause = min(2 * pause, STALL_PATIENCE - waited)

    def _fail(self) -> None:
        groups = self._groups
        with groups.lock:
            largest = max(groups.live, key=lambda group: len(group.items), default=None)
            waiting = 0 if largest is None else len(largest.items)
        key = None if largest is None else largest.key
        error = StalledGroupsError(key, waiting, groups.account.prefetch, STALL_PATIENCE)
        groups.end(error, at_once=True)
