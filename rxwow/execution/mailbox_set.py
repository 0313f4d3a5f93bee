"""The mailboxes of one dispatch: where a message is put, and when a mailbox is no more."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from rxwow.errors import UsageError
from rxwow.execution.completion import DUE, Waiting
from rxwow.execution.mailbox import Mailbox, NoKey
from rxwow.execution.shared_mailbox import SHARED, SharedMailbox
from rxwow.streams.containment import is_contained

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.worker import Worker

__all__ = ["MailboxSet"]


class MailboxSet:
    """The mailboxes of the active keys of one dispatch: each has its own, or shares one with others.

    Every method is called with the dispatch's lock held: that a message is put into a mailbox, and that an empty
    mailbox is retired, are decided under one lock, so no message can be put into a mailbox that nobody serves any more.
    A key has messages in a mailbox of its own or in shared ones, never in both, and all shared ones are on one worker.
    """

    __slots__ = ("_by_key", "_dispatch", "_shared", "_spare", "peak")

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._by_key: dict[Hashable, Mailbox] = {}
        # In the order in which their messages came.
        self._shared: list[SharedMailbox] = []
        self.peak = 0
        # Mailboxes to use again. A new one costs a seventh of all that a message costs, most of it for the allocation
        # of its deque; never more are kept than were in use at a time.
        self._spare: list[Mailbox] = []

    def __len__(self) -> int:
        return len(self._by_key) + len(self._shared)

    @property
    def sharing_worker(self) -> Worker | None:
        """The worker that has the shared mailboxes, if there are any."""
        return self._shared[-1].worker if self._shared else None

    def deliver(
        self,
        keys: Sequence[Hashable],
        distinct: AbstractSet[Hashable],
        items: Sequence[Any],
        sharing_worker: Worker | None,
    ) -> tuple[list[Mailbox], list[SharedMailbox]]:
        """Put each item where the others of its key are, and those that are the first of their keys together or apart.

        Args:
            keys: those of the items.
            distinct: the same, each once.
            items: in the order received.
            sharing_worker: the worker for those that may go together; None if only those may that must.

        Returns:
            The mailboxes of single keys that were made, and those that keys share, which have their worker.
        """
        if sharing_worker is None and not self._shared:
            return self.put(keys, items), []
        if sharing_worker is not None and not self._by_key:
            return [], [self._share(keys, distinct, items, sharing_worker)]
        return self._deliver_singly(keys, items, sharing_worker)

    def _deliver_singly(
        self, keys: Sequence[Hashable], items: Sequence[Any], sharing_worker: Worker | None
    ) -> tuple[list[Mailbox], list[SharedMailbox]]:
        made: list[Mailbox] = []
        together: tuple[list[Hashable], list[Any]] = ([], [])
        distinct: set[Hashable] = set()
        for key, item in zip(keys, items, strict=True):
            try:
                goes_together = key not in self._by_key and (
                    sharing_worker is not None or any(key in shared.distinct for shared in self._shared)
                )
                if goes_together:
                    distinct.add(key)
            except BaseException as error:
                if not is_contained(error):
                    raise
                # The equality of two keys raised: that is the message's failure.
                made.append(self._put_keyless(NoKey(error), item))
                continue
            if goes_together:
                together[0].append(key)
                together[1].append(item)
            else:
                made += self.put((key,), (item,))
        worker = self.sharing_worker or sharing_worker
        if worker is None or not together[0]:
            return made, []
        return made, [self._share(together[0], distinct, together[1], worker)]

    def _share(
        self, keys: Sequence[Hashable], distinct: AbstractSet[Hashable], items: Sequence[Any], worker: Worker
    ) -> SharedMailbox:
        mailbox = SharedMailbox(items)
        mailbox.dispatch = self._dispatch
        mailbox.key = SHARED
        mailbox.keys = keys
        mailbox.distinct = distinct
        mailbox.begun = 0
        mailbox.waiting = None
        mailbox.worker = worker
        self._shared.append(mailbox)
        self.peak = max(self.peak, len(self._by_key) + sum(len(shared.distinct) for shared in self._shared))
        return mailbox

    def divide(self, at_hand: SharedMailbox | None) -> tuple[Mailbox | None, list[Mailbox], list[Any]]:
        """Put what is left in the shared mailboxes into mailboxes of single keys; called on their worker's thread.

        They stay, empty, until their own turn retires them.

        Args:
            at_hand: the one of which a message was taken that is not finished, if there is one.

        Returns:
            The mailbox of the message at hand's key, which is not at any worker; the other mailboxes that were made;
            and what must be held until the lock is released, since the last reference to a key may run user code.
        """
        own = None if at_hand is None else self._make(at_hand.keys[at_hand.begun - 1])
        made: list[Mailbox] = []
        held: list[Any] = []
        for shared in self._shared:
            keys = shared.keys
            held += (keys, shared.distinct)
            count = len(shared)
            made += self.put(keys[len(keys) - count :], [shared.popleft() for _ in range(count)])
            shared.keys = ()
            shared.distinct = frozenset()
        return own, made, held

    def _make(self, key: Hashable) -> Mailbox:
        mailbox = self.make_detached(key)
        try:
            self._by_key[key] = mailbox
        except BaseException as error:
            if not is_contained(error):
                raise
            mailbox.key = NoKey(error)
            self._by_key[mailbox.key] = mailbox
        return mailbox

    def make_detached(self, key: Hashable) -> Mailbox:
        """Return a mailbox that nobody can find."""
        mailbox = Mailbox()
        mailbox.dispatch = self._dispatch
        mailbox.key = key
        mailbox.waiting = None
        return mailbox

    def put_singly(self, keys: Sequence[Hashable], items: Sequence[Any]) -> tuple[list[Mailbox], list[SharedMailbox]]:
        """Do what `deliver` does, with messages among them that have no key."""
        made: list[Mailbox] = []
        joined: list[SharedMailbox] = []
        for key, item in zip(keys, items, strict=True):
            if isinstance(key, NoKey):
                made.append(self._put_keyless(key, item))
                continue
            new, shared = self.deliver((key,), {key}, (item,), None)
            made += new
            joined += shared
        return made, joined

    def _put_keyless(self, key: NoKey, item: Any) -> Mailbox:
        mailbox = self._by_key[key] = self.make_detached(key)
        mailbox.append(item)
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
                elif mailbox.key is SHARED:
                    # By identity: two deques that are empty are equal.
                    self._shared = [shared for shared in self._shared if shared is not mailbox]
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
        mailboxes = [*self._by_key.values(), *self._shared]
        self._by_key.clear()
        self._shared.clear()
        self._spare.clear()
        return mailboxes

    def waits(self) -> list[Waiting]:
        """Return what the messages that wait, wait for."""
        return [mailbox.waiting for mailbox in self._by_key.values() if mailbox.waiting is not None]

    def states(self) -> list[tuple[Hashable, Mailbox, int, Waiting | None, bool]]:
        """Return what is known of each key that has unfinished messages.

        Returns:
            The key; its mailbox; how many messages of it are queued; what the one at hand awaits; and whether the
            message that was last taken out of the mailbox is one of this key.
        """
        states: list[tuple[Hashable, Mailbox, int, Waiting | None, bool]] = [
            (key, mailbox, len(mailbox), mailbox.waiting, True) for key, mailbox in self._by_key.items()
        ]
        for shared in self._shared:
            begun = len(shared) < len(shared.keys)
            for number, (key, queued) in enumerate(_added_up(shared.unfinished())):
                states.append((key, shared, queued, None, begun and not number))
        return states

    def sizes(self) -> list[tuple[Hashable, int, bool]]:
        """Return for each key how many messages it has queued, and whether a handler waits."""
        sizes = [
            (key, len(mailbox), mailbox.waiting is not None and mailbox.waiting.reason not in ("retry", "key"))
            for key, mailbox in self._by_key.items()
        ]
        shared = _added_up([count for shared in self._shared for count in shared.unfinished()])
        return sizes + [(key, queued, False) for key, queued in shared]


def _added_up(counts: list[tuple[Hashable, int]]) -> list[tuple[Hashable, int]]:
    added: dict[Hashable, int] = {}
    try:
        for key, count in counts:
            added[key] = added.get(key, 0) + count
    except BaseException as error:
        if not is_contained(error):
            raise
        # The equality of two keys raised. They are told of as they are.
        return counts
    return list(added.items())
