"""By hand, the best: the key's hash chooses one of the threads, and each thread takes its whole inbox at once.

Order within a key needs no bookkeeping, since all of a key goes through one thread. The price: a slow handler holds up
every key of its thread.
"""

from __future__ import annotations

from itertools import islice
from threading import Condition, Lock, Thread

from benchmarks.contestants.credits import Credits
from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["hashed_threads"]


def hashed_threads(workload: Workload) -> None:
    """Pull as many as there are credits on this thread and deal them out by hash."""
    window, inboxes = Credits(workload.window), [_Inbox() for _ in range(workload.workers)]
    threads = [Thread(target=_consume, args=(workload, inbox, window)) for inbox in inboxes]
    for thread in threads:
        thread.start()
    key, source, shares = workload.key, iter(workload.source), len(inboxes)
    while pulled := list(islice(source, window.take())):
        dealt: list[list[Message]] = [[] for _ in inboxes]
        for message in pulled:
            dealt[hash(key(message)) % shares].append(message)
        for inbox, messages in zip(inboxes, dealt, strict=True):
            if messages:
                inbox.put(messages)
    for inbox in inboxes:
        inbox.close()
    for thread in threads:
        thread.join()


class _Inbox:
    """The messages of one thread."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._changed = Condition(Lock())
        self._closed = False
        self._parked = False

    def put(self, messages: list[Message]) -> None:
        with self._changed:
            self._messages += messages
            if self._parked:
                self._parked = False
                self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take_all(self) -> list[Message]:
        """Wait for messages and take all there are; none if there won't be any."""
        with self._changed:
            while not self._messages and not self._closed:
                self._parked = True
                self._changed.wait()
            taken, self._messages = self._messages, []
        return taken


def _consume(workload: Workload, inbox: _Inbox, window: Credits) -> None:
    handle = workload.handle
    while messages := inbox.take_all():
        for message in messages:
            handle(message)
        window.give_back(len(messages))
