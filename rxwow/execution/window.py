"""The in-flight window: how many messages of one dispatch are unfinished, and when to ask for more."""

from __future__ import annotations

from typing import Final

from rxwow.execution.statistics import WindowStatistics

__all__ = ["InFlightWindow"]

BATCHES_A_WINDOW: Final = 16


class InFlightWindow:
    """Counts the messages of one dispatch from receipt until their result was taken.

    More is asked for in batches of 1/16 of the limit: a request costs a lock and a call, so one a message would cost
    more than the message; and with a batch far below the limit a few slow messages don't stop the flow.

    Every method is called with the dispatch's lock held, which guards all fields.
    """

    __slots__ = (
        "_admitted",
        "_discarded",
        "_failed",
        "_in_flight",
        "_peak",
        "_requested",
        "_skipped",
        "_succeeded",
        "_unrequested",
        "batch",
        "limit",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.batch = max(1, limit // BATCHES_A_WINDOW)
        self._unrequested = limit
        self._requested = 0
        self._in_flight = self._peak = 0
        self._admitted = self._succeeded = self._skipped = self._failed = self._discarded = 0

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def to_request(self) -> int:
        """Take what should be asked for now: whole batches of the room that is not asked for yet, or nothing."""
        amount = max(0, self._unrequested)
        if self._admitted or self._requested:
            amount -= amount % self.batch
        self._unrequested -= amount
        self._requested += amount
        return amount

    def has_batch(self) -> bool:
        """Whether there is room for a whole batch that is not asked for yet."""
        return self._unrequested >= self.batch

    def admit(self, count: int) -> None:
        self._admitted += count
        self._requested -= count
        if self._requested < 0:
            # A source that breaks the rules sent more than was asked for. As much less is asked for later, or the
            # window would be wider by that for ever.
            self._unrequested += self._requested
            self._requested = 0
        self._in_flight += count
        self._peak = max(self._peak, self._in_flight)

    def succeed(self, count: int) -> None:
        self._succeeded += count
        self._leave(count)

    def skip(self, count: int) -> None:
        self._skipped += count
        self._leave(count)

    def fail(self, count: int) -> None:
        self._failed += count
        self._leave(count)

    def discard(self, count: int) -> None:
        self._discarded += count
        self._leave(count)

    def _leave(self, count: int) -> None:
        self._in_flight -= count
        self._unrequested += count

    def statistics(self) -> WindowStatistics:
        return WindowStatistics(
            limit=self.limit,
            batch=self.batch,
            requested=self._requested,
            in_flight=self._in_flight,
            peak_in_flight=self._peak,
            admitted=self._admitted,
            succeeded=self._succeeded,
            skipped=self._skipped,
            failed=self._failed,
            discarded=self._discarded,
        )
