"""Records into messages, each with its key and its place among those of its key."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.order import KeyHistory, Message, OrderChecker

__all__ = ["Intake"]

T = TypeVar("T")


class Intake(Generic[T]):
    """The source of a dispatch, which keeps count of what was taken from it.

    A record that can't be read ends the stream as the end of the file would: what was read before it is handled, and
    `error` says what was wrong. Only the thread that pulls writes the fields; others read them when the stream has
    ended, or for display.

    Attributes:
        received: messages taken so far; when the run is stopped, the source may drop the last ones it took.
        most_in_flight: the most messages that were taken and not finished at one time.
        error: why no more could be read, if so.
    """

    def __init__(
        self, records: Iterator[tuple[int, T]], key_of: Callable[[T], Hashable], checker: OrderChecker
    ) -> None:
        self._records = records
        self._key_of = key_of
        self._checker = checker
        self._stopped = False
        self._histories: dict[Hashable, KeyHistory] = {}
        self.received = 0
        self.most_in_flight = 0
        self.error: BadInputError | None = None

    def messages(self) -> Iterator[Message[T]]:
        """Yield the messages; to be iterated once."""
        histories = self._histories
        key_of = self._key_of
        try:
            for line, value in self._records:
                if self._stopped:
                    break
                key = key_of(value)
                history = histories.get(key)
                if history is None:
                    history = histories[key] = KeyHistory(key)
                self.received += 1
                self.most_in_flight = max(self.most_in_flight, self.received - self._checker.finished)
                yield Message(value, line, history)
        except BadInputError as error:
            self.error = error

    def stop(self) -> None:
        """End the stream with the message that was yielded last; may be called by any thread."""
        self._stopped = True

    @property
    def keys(self) -> int:
        """How many different keys were read."""
        return len(self._histories)

    def hottest(self, count: int) -> list[KeyHistory]:
        """Return the keys with the most messages, the hottest first."""
        return heapq.nlargest(count, self._histories.values(), key=lambda history: history.received)
