"""By hand: a mailbox for each active key, and a queue of the keys that are ready.

A thread takes up to 32 ready keys with all their messages under one lock, and settles them under the same lock when it
comes back for more. Any thread can take any key, so a slow handler holds up only the keys taken along with its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice
from threading import Condition, Lock, Thread

from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["ready_queue"]

_BATCH = 32

Taken = list[tuple[Hashable, list[Message]]]


def ready_queue(workload: Workload) -> None:
    """Pull as many as there are credits on this thread and put them into mailboxes."""
    mailboxes = _Mailboxes(workload.window)
    threads = [Thread(target=_consume, args=(workload, mailboxes)) for _ in range(workload.workers)]
    for thread in threads:
        thread.start()
    key, source = workload.key, iter(workload.source)
    while pulled := [(key(message), message) for message in islice(source, mailboxes.take_credits())]:
        mailboxes.put(pulled)
    mailboxes.close()
    for thread in threads:
        thread.join()
    workload.rest()


class _Mailboxes:
    """All shared state, under one lock. A key has an entry while it has unfinished messages."""

    def __init__(self, window: int) -> None:
        lock = Lock()
        self._more, self._room = Condition(lock), Condition(lock)
        self._waiting: dict[Hashable, list[Message]] = {}
        self._ready: deque[Hashable] = deque()
        self._free = window
        self._parked = 0
        self._awaited = False
        self._closed = False

    def take_credits(self) -> int:
        with self._room:
            while not self._free:
                self._awaited = True
                self._room.wait()
                self._awaited = False
            taken, self._free = self._free, 0
        return taken

    def put(self, pulled: list[tuple[Hashable, Message]]) -> None:
        with self._more:
            for key, message in pulled:
                mailbox = self._waiting.get(key)
                if mailbox is None:
                    self._waiting[key] = [message]
                    self._ready.append(key)
                else:
                    mailbox.append(message)
            if self._parked and self._ready:
                self._more.notify()

    def close(self) -> None:
        with self._more:
            self._closed = True
            self._more.notify_all()

    def settle_and_take(self, done: Taken) -> Taken:
        """Settle what was taken last and take more; nothing if there won't be any."""
        with self._more:
            for key, messages in done:
                self._free += len(messages)
                if self._waiting[key]:
                    self._ready.append(key)
                else:
                    del self._waiting[key]
            if done and self._awaited:
                self._room.notify()
            while not self._ready:
                # While another thread still holds a key, its settling may make that key ready again.
                if self._closed and not self._waiting:
                    self._more.notify_all()
                    return []
                self._parked += 1
                self._more.wait()
                self._parked -= 1
            return [self._take(self._ready.popleft()) for _ in range(min(_BATCH, len(self._ready)))]

    def _take(self, key: Hashable) -> tuple[Hashable, list[Message]]:
        messages, self._waiting[key] = self._waiting[key], []
        return key, messages


def _consume(workload: Workload, mailboxes: _Mailboxes) -> None:
    handle = workload.handle
    taken: Taken = []
    while taken := mailboxes.settle_and_take(taken):
        for _, messages in taken:
            for message in messages:
                handle(message)
