"""The mailbox: the messages of one key that wait for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rxwow.execution.completion import Waiting
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.worker import Worker

__all__ = ["Mailbox", "NoKey"]


class NoKey:
    """Stands for the key of a message that has none; equal to nothing else, so the message has a mailbox of its own."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"no key ({type(self.error).__name__})"


class Mailbox(deque[Any]):
    """The FIFO of one active key of one dispatch; it exists only while it has unfinished messages.

    It is a deque, and not an object that has one, because a message that comes alone pays for its mailbox.

    A message is taken by `popleft` and by nothing else: by the worker's turn to be handled, or by the dispatch's end to
    be discarded. `popleft` is atomic (a deque guards itself, on free-threaded CPython too), so each message is taken
    once.

    `key`, `dispatch` and `worker` don't change while it exists. `waiting` is set while the message at the head waits
    for something and holds no worker; the dispatch's lock guards it.
    """

    __slots__ = ("dispatch", "key", "waiting", "worker")

    key: Hashable
    dispatch: Dispatch
    worker: Worker
    waiting: Waiting | None

    @property
    def key_at_hand(self) -> Hashable:
        """The key of the message that was taken last; for whoever looks from another thread, as it happens to be."""
        return self.key
