"""Virtual time: it stands still while any thread can run, and goes straight to the next due time when none can."""

from __future__ import annotations

from rxwow.testing.strand import Strand

__all__ = ["Clock", "nanoseconds"]

_FIRST_CREEP = 1_000
_LONGEST_CREEP = 10**18
"""Nanoseconds, thirty years: far beyond what anybody waits for, and well within what a float can say."""


def nanoseconds(seconds: float) -> int:
    """Return seconds as whole nanoseconds: two waits that end at the same time must be equal to be ready at once.

    >>> nanoseconds(0.1 + 0.2) == nanoseconds(0.3)
    True
    """
    return round(seconds * 1e9)


class Clock:
    """The time of a run and the threads that wait for a time. Touched only by the holder of the baton."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._waiting: list[Strand] = []
        self._creep = _FIRST_CREEP

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    def expect(self, strand: Strand, due: int) -> None:
        """Let a thread wait for a time."""
        strand.due = due
        self._waiting.append(strand)

    def forget(self, strand: Strand) -> None:
        """Forget that a thread waits for a time: something else has woken it."""
        self._creep = _FIRST_CREEP
        if strand.due is not None:
            strand.due = None
            self._waiting.remove(strand)

    def advance(self) -> list[Strand]:
        """Move to the earliest time that is waited for, and return all threads that wait for it."""
        self._creep = _FIRST_CREEP
        if not self._waiting:
            return []
        return self._move(min(strand.due or 0 for strand in self._waiting))

    def creep(self) -> list[Strand]:
        """Move on a little, but past no due time, and return the threads that are due.

        Each move is twice as long as the one before, until something else happens, so that any spin ends in few steps.
        """
        target = self.nanoseconds + self._creep
        self._creep = min(2 * self._creep, _LONGEST_CREEP)
        return self._move(min(target, *(strand.due or 0 for strand in self._waiting)) if self._waiting else target)

    def _move(self, target: int) -> list[Strand]:
        self.nanoseconds = max(self.nanoseconds, target)
        due = [strand for strand in self._waiting if (strand.due or 0) <= self.nanoseconds]
        self._waiting = [strand for strand in self._waiting if strand not in due]
        for strand in due:
            strand.due = None
        return due
