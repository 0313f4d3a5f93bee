"""The bound of the hand-written threads: credits that change hands in batches.

A semaphore that is acquired and released for each message costs more than all the rest of a hand-off, so the producer
takes all free credits at once and the consumers give theirs back by a sixteenth of the window.
"""

from __future__ import annotations

from threading import Condition, Lock

__all__ = ["Credits"]


class Credits:
    """As many as the window holds; one is held for each message in flight."""

    def __init__(self, window: int) -> None:
        self.batch = max(1, window // 16)
        """A consumer gives credits back when it has so many, or when it runs out of messages."""
        self._changed = Condition(Lock())
        self._free = window
        self._awaited = False

    def take(self) -> int:
        """Wait until there is a free credit and take all there are."""
        with self._changed:
            while not self._free:
                # Notified only when someone waits: a notification costs as much as a message.
                self._awaited = True
                self._changed.wait()
                self._awaited = False
            taken, self._free = self._free, 0
        return taken

    def give_back(self, count: int) -> None:
        """Return credits of finished messages, or those that weren't needed."""
        with self._changed:
            self._free += count
            if self._awaited:
                self._changed.notify()
