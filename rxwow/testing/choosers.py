"""Who goes next: the policies that draw one schedule of a run from a seed.

No policy is best for every fault. One that needs several switches close together is found sooner by drawing among all
threads at each step; one that needs a thread to fall far behind, only by ranking them. So `drawn_from(seed)` draws the
policy too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Protocol

from rxwow.testing.schedule import Step

__all__ = ["Candidate", "Chooser", "Ranking", "Replay", "Uniform", "drawn_from"]


class Candidate(Protocol):
    """A thread as a chooser sees it."""

    @property
    def name(self) -> str:
        """The thread's name, unique within its run."""
        ...

    @property
    def step(self) -> Step:
        """The step that the thread has announced and, if it is chosen, goes on from."""
        ...

    @property
    def pausing(self) -> bool:
        """Whether the thread offers its turn to the others: it spins."""
        ...


class Chooser(Protocol):
    """Chooses the thread that runs until the next step."""

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        """Return the index in `ready` of the thread that goes on.

        Args:
            ready: the threads that can run, at least two.
            running: the thread that ran last; not in `ready` if it has blocked or ended.
        """
        ...


class Uniform:
    """Draws each thread with the same probability at each step.

    Args:
        random: what is drawn from.
    """

    def __init__(self, random: Random) -> None:
        self._random = random.random

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        return int(self._random() * len(ready))


class Ranking:
    """Runs the highest ranked thread that can run; at each step the running one may fall to the last rank.

    The ranks are drawn as the threads appear. It is the PCT scheduler of Burckhardt and others (2010), but for its
    points of change: these are drawn as the run goes, since its length isn't known beforehand.

    Args:
        random: what is drawn from.
        probability: how likely the running thread falls at a step.
    """

    def __init__(self, random: Random, probability: float) -> None:
        self._random = random.random
        self._probability = probability
        self._ranks: dict[str, float] = {}
        self._last = 0.0

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        # A spinning thread must fall too, or it would keep those from running for whom it spins.
        if running.pausing or self._random() < self._probability:
            self._last -= 1.0
            self._ranks[running.name] = self._last
        ranks = [self._rank(candidate.name) for candidate in ready]
        return ranks.index(max(ranks))

    def _rank(self, name: str) -> float:
        rank = self._ranks.get(name)
        if rank is None:
            rank = self._ranks[name] = self._random()
        return rank


class Replay:
    """Runs the threads in the order of a list of names, such as the threads of a recorded schedule.

    Where the named thread can't run, or the list has ended, the running thread goes on, else the first that can.

    Args:
        names: the name of the thread that takes each step, from the first step on.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = iter(names)

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        wanted = next(self._names, running.name)
        names = [candidate.name for candidate in ready]
        for name in (wanted, running.name):
            if name in names:
                return names.index(name)
        return 0


def drawn_from(seed: int) -> Chooser:
    """Return a chooser whose kind, settings and choices all follow from the seed.

    Args:
        seed: any whole number.
    """
    random = Random(seed)
    if random.random() < 0.5:
        return Uniform(random)
    return Ranking(random, probability=0.5 ** random.uniform(1, 5))
