"""Who goes next: the policies that draw one schedule of a run from a seed.

No policy is best for every fault. One that needs several switches close together is found sooner by drawing among all
threads at each step; one that needs a thread to fall far behind, only by ranking them. So `drawn_from(seed)` draws the
policy too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import Protocol, cast

from rxwow.testing.schedule import Step

__all__ = ["Candidate", "Chooser", "Ranking", "Replay", "Uniform", "drawn_from", "usual"]


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


def usual(ready: Sequence[Candidate], running: Candidate) -> int:
    """Return the index of the thread that goes on where nobody has said who: the running one, else the first.

    A running thread that pauses lets the next one go on, or it would keep those from running for whom it spins.

    Args:
        ready: see `Chooser.choose`.
        running: see `Chooser.choose`.
    """
    for index, candidate in enumerate(ready):
        if candidate is running:
            return (index + 1) % len(ready) if running.pausing else index
    return 0


class Replay:
    """Runs the threads in the order of a list of names, such as the `choices` of a failure or of a platform.

    Where no thread is named, or the named one can't run, the running thread goes on; where that can't run, the first
    that can, and where it pauses, the next.

    Args:
        choices: the name of the thread that goes on at each choice, from the first on; or, if most of them are the
            usual ones, only those that are not, by the number of the choice, counted from 0.

    >>> from rxwow.testing import ControlledPlatform
    >>> def scenario(platform: ControlledPlatform) -> list[str]:
    ...     order: list[str] = []
    ...     thread = platform.thread(lambda: order.append("worker"), "worker")
    ...     thread.start()
    ...     order.append("main")
    ...     thread.join()
    ...     return order
    >>> ControlledPlatform(chooser=Replay({0: "worker"})).run(scenario)
    ['worker', 'main']
    """

    def __init__(self, choices: Iterable[str] | Mapping[int, str]) -> None:
        self._names: Iterator[str | None]
        if isinstance(choices, Mapping):
            by_number = cast("Mapping[int, str]", choices)
            self._names = (by_number.get(number) for number in count())
        else:
            self._names = iter(choices)
        self._made = 0
        self.departures: dict[int, str] = {}
        """The choices that were not the usual ones, by their numbers: a `Replay` of them gives the same run."""

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        chosen = expected = usual(ready, running)
        name = next(self._names, None)
        if name is not None and name != ready[expected].name:
            chosen = next((index for index, candidate in enumerate(ready) if candidate.name == name), expected)
            if chosen != expected:
                self.departures[self._made] = name
        self._made += 1
        return chosen


def drawn_from(seed: int) -> Chooser:
    """Return a chooser whose kind, settings and choices all follow from the seed.

    Args:
        seed: any whole number.
    """
    random = Random(seed)
    if random.random() < 0.5:
        return Uniform(random)
    return Ranking(random, probability=0.5 ** random.uniform(1, 5))
