"""A bare hand-off, message by message: one deque, one thread, a bound, and no keys at all.

It is the unit in which keyed dispatchers are measured: what it loses against the plain loop is the price of a second
thread and of the bound; what they lose against it is the price of keys.
Who hands over whole lists of messages can win against it.
"""

from __future__ import annotations

from collections import deque
from threading import Condition, Lock, Thread

from benchmarks.contestants.credits import Credits
from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["hand_off"]


def hand_off(workload: Workload) -> None:
    """Pull on this thread, handle on another."""
    window, inbox = Credits(workload.window), _Inbox()
    consumer = Thread(target=_consume, args=(workload, inbox, window))
    consumer.start()
    append, free = inbox.messages.append, 0
    for message in workload.source:
        if not free:
            free = window.take()
        free -= 1
        append(message)
        if inbox.parked:
            inbox.wake()
    inbox.close()
    consumer.join()


class _Inbox:
    """A deque, and a place to park when it is empty; the deque itself needs no lock."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.parked = False
        self._changed = Condition(Lock())
        self._closed = False

    def wake(self) -> None:
        with self._changed:
            self.parked = False
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def wait(self) -> bool:
        """Park until there is a message; false if there won't be any."""
        with self._changed:
            # Set before the last look, as the producer appends before it looks here: one of them sees the other.
            self.parked = True
            while not self.messages:
                if self._closed:
                    return False
                self._changed.wait()
            self.parked = False
        return True


def _consume(workload: Workload, inbox: _Inbox, window: Credits) -> None:
    handle, messages, popleft = workload.handle, inbox.messages, inbox.messages.popleft
    batch, finished = window.batch, 0
    while True:
        while messages:
            handle(popleft())
            finished += 1
            if finished == batch:
                window.give_back(finished)
                finished = 0
        window.give_back(finished)
        finished = 0
        if not inbox.wait():
            return
