"""The mailbox: the messages of one key that wait for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from rxwow.errors import UsageError
from rxwow.execution.completion import DUE, Waiting
from rxwow.streams.containment import is_contained

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.worker import Worker

__all__ = ["Mailbox", "MailboxSet", "NoKey"]


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


class MailboxSet:
    """The mailboxes of the active keys of one dispatch.

    Every method is called with the dispatch's lock held: that a message is put into a mailbox, and that an empty
    mailbox is retired, are decided under one lock, so no message can be put into a mailbox that nobody serves any more.
    """

    __slots__ = ("_by_key", "_dispatch", "_spare", "peak")

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._by_key: dict[Hashable, Mailbox] = {}
        self.peak = 0
        # Mailboxes to use again. A new one costs a seventh of all that a message costs, most of it for the allocation
        # of its deque; never more are kept than were in use at a time.
        self._spare: list[Mailbox] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def put_singly(self, keys: Sequence[Hashable], items: Sequence[Any]) -> list[Mailbox]:
        """Do what `put` does, with messages among them that have no key."""
        made: list[Mailbox] = []
        for key, item in zip(keys, items, strict=True):
            if isinstance(key, NoKey):
                made.append(self._put_keyless(key, item))
            else:
                made += self.put((key,), (item,))
        return made

    def _put_keyless(self, key: NoKey, item: Any) -> Mailbox:
        mailbox = self._by_key[key] = Mailbox((item,))
        mailbox.key = key
        mailbox.dispatch = self._dispatch
        # Its first turn finds an attempt that is due, and lets it fail.
        mailbox.waiting = Waiting(item, 0, "key")
        mailbox.waiting.outcome = DUE
        return mailbox

    def put(self, keys: Sequence[Hashable], items: Sequence[Any]) -> list[Mailbox]:
        """Put each item into the mailbox of its key; return the mailboxes that were made for it."""
        by_key = self._by_key
        dispatch = self._dispatch
        find = by_key.get
        spare = self._spare
        made: list[Mailbox] = []
        for key, item in zip(keys, items, strict=True):
            try:
                mailbox = find(key)
                if mailbox is None:
                    if spare:
                        mailbox = spare.pop()
                    else:
                        mailbox = Mailbox()
                        mailbox.dispatch = dispatch
                        mailbox.waiting = None
                    by_key[key] = mailbox
                    mailbox.append(item)
                    mailbox.key = key
                    made.append(mailbox)
                else:
                    mailbox.append(item)
            except BaseException as error:
                if not is_contained(error):
                    raise
                # The equality of two keys raised: that is the message's failure.
                made.append(self._put_keyless(NoKey(error), item))
        self.peak = max(self.peak, len(by_key))
        return made

    def retire(self, mailboxes: Sequence[Mailbox]) -> tuple[list[Mailbox], UsageError | None]:
        """Remove those of `mailboxes` that are empty.

        Returns:
            The others, to which messages were added meanwhile, and None; or the error that the dispatch must end with,
            as its mailboxes can't be told from each other any more.
        """
        filled: list[Mailbox] = []
        by_key = self._by_key
        try:
            for mailbox in mailboxes:
                if mailbox:
                    filled.append(mailbox)
                else:
                    del by_key[mailbox.key]
                    # The key is the user's and may be large; it must not outlive its messages.
                    mailbox.key = None
                    self._spare.append(mailbox)
        except BaseException as error:  # noqa: BLE001 - of the user's keys.
            refusal = UsageError(
                f"a key has changed, or its comparison raised {type(error).__name__}, while its messages were handled; "
                "a key must keep its hash and stay equal to itself"
            )
            refusal.__cause__ = error
            return filled, refusal
        return filled, None

    def take_all(self) -> list[Mailbox]:
        """Forget all mailboxes and return them."""
        mailboxes = list(self._by_key.values())
        self._by_key.clear()
        self._spare.clear()
        return mailboxes

    def waits(self) -> list[Waiting]:
        """Return what the messages that wait, wait for."""
        return [mailbox.waiting for mailbox in self._by_key.values() if mailbox.waiting is not None]

    def states(self) -> list[tuple[Hashable, Mailbox, int, Waiting | None]]:
        """Return for each mailbox its key, itself, how many messages it has queued, and what the one at hand awaits."""
        return [(key, mailbox, len(mailbox), mailbox.waiting) for key, mailbox in self._by_key.items()]

    def sizes(self) -> list[tuple[Hashable, int, bool]]:
        """Return for each mailbox its key, how many messages it has queued, and whether a handler waits."""
        return [
            (key, len(mailbox), mailbox.waiting is not None and mailbox.waiting.reason not in ("retry", "key"))
            for key, mailbox in self._by_key.items()
        ]
