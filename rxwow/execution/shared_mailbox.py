"""The mailbox that keys share while their messages cost next to nothing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from rxwow.execution.mailbox import Mailbox

__all__ = ["SHARED", "SharedMailbox"]


class _Shared:
    __slots__ = ()

    def __repr__(self) -> str:
        return "several keys"


SHARED: Final = _Shared()
"""Stands for the key of each `SharedMailbox`."""


class SharedMailbox(Mailbox):
    """The messages of several keys that came together, and are handled in the order in which they came.

    That order is each key's order too, as long as all of them are handled on one worker, and none begins before the one
    before it is finished. So messages of which no handler waits or fails need no mailbox for each key, which is nearly
    half of what a message costs if the handler does nothing. The first that is not like that has all shared mailboxes
    of its dispatch divided among their keys; see `MailboxSet.divide`.

    `keys` are those of the messages that it had at first, in their order, and `distinct` has each of them, until it is
    divided; the dispatch's lock guards them. `begun`, of its worker's thread, is how many messages had begun when that
    last left it; unlike the length, it is exact while the end of the dispatch takes the rest.
    """

    __slots__ = ("begun", "distinct", "keys")

    keys: Sequence[Hashable]
    distinct: AbstractSet[Hashable]
    begun: int

    @property
    def key_at_hand(self) -> Hashable:
        keys = self.keys
        return keys[max(0, len(keys) - len(self) - 1)] if keys else SHARED

    def unfinished(self) -> list[tuple[Hashable, int]]:
        """Return the key at hand, if a message was taken, with 0; then that of each message that is queued, with 1."""
        begun = len(self.keys) - len(self)
        return [(key, 0) for key in self.keys[begun - 1 : begun] if begun] + [(key, 1) for key in self.keys[begun:]]
