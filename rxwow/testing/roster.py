"""The threads of a run: which can run, which are blocked and until when."""

from __future__ import annotations

from collections.abc import Iterable

from rxwow.testing.clock import Clock
from rxwow.testing.strand import Strand

__all__ = ["Roster"]


class Roster:
    """All threads of a run. Touched only by the holder of the baton."""

    def __init__(self, main: Strand) -> None:
        self.clock = Clock()
        self.main = main
        self.others: list[Strand] = []
        self.ready: list[Strand] = []
        """Those that can run, in the order in which they came to: the order must not depend on the machine."""

    def add(self, strand: Strand) -> None:
        """Take in a thread that can run; it gets a name of its own if another has the same."""
        taken = {self.main.name, *(other.name for other in self.others)}
        if strand.name in taken:
            strand.rename(next(name for n in range(2, len(taken) + 3) if (name := f"{strand.name}#{n}") not in taken))
        self.others.append(strand)
        self.ready.append(strand)

    def block(self, strand: Strand, due: int | None) -> None:
        """Let a running thread wait; with a time in nanoseconds until then at most."""
        strand.blocked = True
        strand.woken = False
        self.ready.remove(strand)
        if due is not None:
            self.clock.expect(strand, due)

    def wake(self, waiting: Iterable[Strand]) -> None:
        """Make blocked threads ready.

        One whose time is up, and which has not run since, counts as woken: what wakes it may have come in time.
        """
        for strand in waiting:
            strand.woken = True
            if strand.blocked:
                self.clock.forget(strand)
                self._make_ready(strand)

    def advance(self) -> list[Strand]:
        """Move the clock to the next due time and make all ready that are due then; return them."""
        return self._come_due(self.clock.advance())

    def creep(self) -> list[Strand]:
        """Move the clock a little and make all ready that are due then; return them."""
        return self._come_due(self.clock.creep())

    def describe(self) -> list[str]:
        """Return a line for each thread: what it waits for, or is about to do."""
        living = [strand for strand in (self.main, *self.others) if not strand.ended]
        width = max(len(strand.name) for strand in living)
        return [f"  {strand.name:{width}}  {strand.describe()}" for strand in living]

    def _come_due(self, strands: list[Strand]) -> list[Strand]:
        for strand in strands:
            self._make_ready(strand)
        return strands

    def _make_ready(self, strand: Strand) -> None:
        strand.blocked = False
        self.ready.append(strand)
