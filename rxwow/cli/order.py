"""Checks that the promise was kept: the messages of a key one at a time, in the order in which they were read."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from rxwow.cli.wording import count_of

__all__ = ["KeyHistory", "Message", "OrderChecker"]

T = TypeVar("T")


class KeyHistory:
    """What is known of one key.

    Attributes:
        key: as it was first read; equal keys (`1`, `1.0` and `True`) are one.
        received: messages read; counted by the reader alone.
        started: messages whose handler was started.
        running: whether one of them has not finished yet.
    """

    __slots__ = ("key", "received", "running", "started")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.received = 0
        self.started = 0
        self.running = False


class Message(Generic[T]):
    """A record on its way to the handler.

    Attributes:
        key: what it is ordered by.
        value: the record.
        line: where it was read.
        sequence: its place among the messages of its key, counted from 0 when it was read.
        history: of its key.
    """

    __slots__ = ("history", "key", "line", "sequence", "value")

    def __init__(self, value: T, line: int, history: KeyHistory) -> None:
        self.value = value
        self.line = line
        self.history = history
        self.key = history.key
        self.sequence = history.received
        history.received += 1


class OrderChecker:
    """Is told by whoever runs the handlers, and believes nothing.

    `_lock` guards all fields here and `started` and `running` of each history: were the promise broken, two threads
    would be at the same history at once, and that must not go unseen.

    Attributes:
        started: handlers that were called.
        finished: handlers that are done, well or not.
        succeeded: handlers that are done and did not raise.
        last_line: of those that are done, the one that was furthest down the file.
        violations: messages that came out of turn, or before the one ahead of them had finished.
        first_violation: what the first of them was.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.started = 0
        self.finished = 0
        self.succeeded = 0
        self.last_line = 0
        self.violations = 0
        self.first_violation = ""

    def start(self, message: Message[Any]) -> None:
        """Note that the handler is about to get `message`."""
        history = message.history
        with self._lock:
            self.started += 1
            if history.running:
                self._violated(message, "was started before the one ahead of it had finished")
            elif message.sequence != history.started:
                self._violated(message, f"came when number {history.started + 1} was due")
            history.running = True
            history.started += 1

    def finish(self, message: Message[Any], *, succeeded: bool) -> None:
        """Note that the handler is done with `message`."""
        with self._lock:
            self.finished += 1
            self.last_line = max(self.last_line, message.line)
            self.succeeded += succeeded
            message.history.running = False

    def verdict(self) -> str:
        """Say whether the order was kept, as it was seen and not as it is promised."""
        if self.violations:
            return f"NO, {count_of(self.violations, 'message')} out of order: {self.first_violation}"
        return f"yes, checked for each of {count_of(self.started, 'message')}"

    def _violated(self, message: Message[Any], what: str) -> None:
        self.violations += 1
        if self.violations == 1:
            self.first_violation = f"number {message.sequence + 1} of key {message.key!r} (line {message.line}) {what}"
