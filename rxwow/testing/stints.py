"""A schedule as a list of stints: which thread runs how far, and then which.

How far is told in the thread's own steps, so that a stint means the same when others before it are left out. A list of
choices does not have that: each one counts from the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rxwow.testing.choosers import Candidate, Chooser, usual
from rxwow.testing.schedule import CLOCK, Step

__all__ = ["FollowStints", "Place", "Stint", "Tracked"]

Place = tuple[int, bool]
"""How far a thread has come: the steps it has taken, and whether it has announced its next one."""


class Stint(NamedTuple):
    """A thread runs until it has come to a place, or can't go on."""

    thread: str
    until: Place


class Tracked:
    """Asks another chooser, and keeps how the run went. Touched only by the holder of the baton.

    Args:
        chooser: what decides.
    """

    def __init__(self, chooser: Chooser) -> None:
        self.schedule: Sequence[Step] = ()
        """The schedule of the run; to be given before it begins."""
        self.offered: list[list[str]] = []
        """The names of those that could go on, at each choice."""
        self.departures: dict[int, str] = {}
        """The choices that were not the usual ones, by their numbers; for a `Replay`."""
        self.stints: list[Stint] = []
        """Complete after `track`."""
        self.places: dict[str, Place] = {}
        self._chooser = chooser
        self._seen = 0
        self._last: dict[str, Step] = {}

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        self.track()
        taken, _ = self.places.get(running.name, (0, False))
        self._came(running.name, (taken, running.step is not self._last.get(running.name)))
        chosen = self._chooser.choose(ready, running)
        if chosen != usual(ready, running):
            self.departures[len(self.offered)] = ready[chosen].name
        self.offered.append([candidate.name for candidate in ready])
        return chosen

    def track(self) -> None:
        """Take in the steps taken since the last call."""
        for step in self.schedule[self._seen :]:
            if step.thread != CLOCK:
                taken, _ = self.places.get(step.thread, (0, False))
                self._came(step.thread, (taken + 1, False))
                self._last[step.thread] = step
        self._seen = len(self.schedule)

    def _came(self, thread: str, place: Place) -> None:
        self.places[thread] = place
        if self.stints and self.stints[-1].thread == thread:
            self.stints.pop()
        self.stints.append(Stint(thread, place))


class FollowStints:
    """Runs one stint after the other; passes over those whose thread can't run or has come so far already.

    Args:
        stints: what to run.
    """

    def __init__(self, stints: Iterable[Stint]) -> None:
        self.tracked = Tracked(self)
        """What to give to the run."""
        self._left = list(reversed(list(stints)))

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        names = [candidate.name for candidate in ready]
        while self._left:
            thread, until = self._left[-1]
            if thread in names and self.tracked.places.get(thread, (0, False)) < until:
                return names.index(thread)
            self._left.pop()
        return usual(ready, running)
