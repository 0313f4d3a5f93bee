"""Run a small scenario under every schedule, those with the fewest preemptions first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rxwow.errors import InvalidArgumentError
from rxwow.testing.choosers import Candidate
from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.failures import NondeterminismError, ScheduleFailure, UnfinishedExplorationError
from rxwow.testing.shrinking import shrink

__all__ = ["Exploration", "explore_all"]


@dataclass(frozen=True)
class Exploration:
    """What `explore_all` has run; none of it failed.

    Attributes:
        runs: how many schedules, each another one.
        is_finished: whether there are no others, within the bound on preemptions if there was one.
        preemptions: the most preemptions of a schedule; if there are others left, all those with fewer were run.
    """

    runs: int
    is_finished: bool
    preemptions: int


def explore_all(
    scenario: Callable[[ControlledPlatform], object],
    *,
    most_runs: int = 10_000,
    preemptions: int | None = None,
    allow_unfinished: bool = False,
    step_limit: int = 100_000,
    shrink_runs: int = 500,
) -> Exploration:
    """Run a scenario under every schedule that the platform can give it; for a scenario of a few steps and threads.

    The number of schedules grows so fast that only the smallest scenarios can be run under all of them. Most faults
    need one or two preemptions (a thread that could go on stops, and another runs), and the schedules with at most so
    many can be run for scenarios of a few dozen steps. They are run in this order: none, one, two, ...

    One kind of schedule is left out: those in which a thread calls `platform.pause()` again and again while another,
    which could run, doesn't. A spin without an end would give schedules without an end.

    Args:
        scenario: see `explore`. It must do the same each time that the threads are run in the same order.
        most_runs: how many schedules to run at most.
        preemptions: the most preemptions of a schedule; None to run those with any number.
        allow_unfinished: whether to return, rather than raise, if there are more than `most_runs` schedules.
        step_limit: the number of steps after which a run fails.
        shrink_runs: see `explore`; they are not counted among `most_runs`.

    Returns:
        How many schedules were run; all of them passed.

    Raises:
        ScheduleFailure: the first failure, shrunk.
        UnfinishedExplorationError: if there are more than `most_runs` schedules, unless that is allowed.
        NondeterminismError: if a run took another way than the one before it under the same choices.
        InvalidArgumentError: if `most_runs` is less than 1 or `preemptions` less than 0.

    >>> def scenario(platform: ControlledPlatform) -> None:
    ...     thread = platform.thread(lambda: platform.point("there"), "worker")
    ...     thread.start()
    ...     platform.point("here")
    ...     thread.join()
    >>> explore_all(scenario)
    Exploration(runs=10, is_finished=True, preemptions=3)
    """
    if most_runs < 1:
        raise InvalidArgumentError("most_runs", most_runs, "a whole number of at least 1")
    if preemptions is not None and preemptions < 0:
        raise InvalidArgumentError("preemptions", preemptions, "a whole number of at least 0, or None")
    walk = _Walk(preemptions)
    runs = 0
    for prefix in walk.prefixes():
        if runs == most_runs:
            exploration = Exploration(runs, False, walk.preemptions)
            if allow_unfinished:
                return exploration
            raise UnfinishedExplorationError(exploration)
        failure = walk.run(scenario, prefix, step_limit)
        runs += 1
        if failure is not None:
            raise shrink(scenario, failure, most_runs=shrink_runs, step_limit=step_limit)
    return Exploration(runs, True, walk.most_preemptions)


class _Fork(NamedTuple):
    """One choice of a run: the names of those that could go on, first the usual one, and which of them did."""

    names: tuple[str, ...]
    taken: int
    preempts: bool
    """Whether to take another than the first stops a thread that could go on."""


class _Walk:
    """Gives each schedule once: as the first choices of another, a different one, and the usual ones from there on."""

    def __init__(self, most: int | None) -> None:
        self.preemptions = 0
        """Of the schedules that are run now."""
        self.most_preemptions = 0
        """Of a schedule that was run."""
        self._most = most
        self._same: list[Iterator[list[_Fork]]] = []
        self._more: list[Iterator[list[_Fork]]] = []

    def prefixes(self) -> Iterator[list[_Fork]]:
        """Yield the first choices of each schedule; each must be run before the next is asked for."""
        yield []
        while True:
            while self._same:
                prefix = next(self._same[-1], None)
                if prefix is None:
                    self._same.pop()
                else:
                    yield prefix
            if not self._more:
                return
            self._same, self._more = self._more, []
            self.preemptions += 1

    def run(
        self, scenario: Callable[[ControlledPlatform], object], prefix: list[_Fork], step_limit: int
    ) -> ScheduleFailure | None:
        guide = _Guide(prefix)
        failure = None
        try:
            ControlledPlatform(chooser=guide, step_limit=step_limit).run(scenario)
        except ScheduleFailure as caught:
            failure = caught
        guide.check()
        self.most_preemptions = self.preemptions
        self._same.append(_others(guide.forks, len(prefix), False))
        if self.preemptions != self._most:
            self._more.append(_others(guide.forks, len(prefix), True))
        return failure


def _others(forks: Sequence[_Fork], start: int, preempts: bool) -> Iterator[list[_Fork]]:
    """Yield the prefixes that differ from a run first at one of its later choices, those at the last of them first."""
    for index in range(len(forks) - 1, start - 1, -1):
        fork = forks[index]
        if fork.preempts == preempts:
            for taken in range(1, len(fork.names)):
                yield [*forks[:index], fork._replace(taken=taken)]


class _Guide:
    """A chooser that repeats the first choices of another run and then makes the usual ones."""

    def __init__(self, prefix: Sequence[_Fork]) -> None:
        self.forks: list[_Fork] = []
        self._prefix = prefix
        self._difference = ""
        self._turns = _Turns()

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        names, preempts = self._options(ready, running)
        number = len(self.forks)
        taken = 0
        if number < len(self._prefix) and not self._difference:
            expected = self._prefix[number]
            if expected.names == names:
                taken = expected.taken
            else:
                # Told when the run is over: an error raised here would go through the code under test.
                was, now = ", ".join(expected.names), ", ".join(names)
                self._difference = f"after the same {number} choices the threads {was} could go on before, now {now}"
        self.forks.append(_Fork(names, taken, preempts))
        self._turns.took(names[taken])
        return next(index for index, candidate in enumerate(ready) if candidate.name == names[taken])

    def check(self) -> None:
        """Raise if the run was another than the one whose choices it was to repeat."""
        missing = len(self._prefix) - len(self.forks)
        if missing > 0 and not self._difference:
            self._difference = f"the run was over {missing} choices earlier than one with the same choices before"
        if self._difference:
            raise NondeterminismError(self._difference)

    def _options(self, ready: Sequence[Candidate], running: Candidate) -> tuple[tuple[str, ...], bool]:
        names = [candidate.name for candidate in ready]
        may_go_on = running.name in names and not running.pausing
        if running.name in names:
            first = names.index(running.name) + running.pausing
            names = names[first:] + names[:first]
        return tuple(self._turns.allowed(names, running)), may_go_on


class _Turns:
    """Who must let whom go first, so that no thread spins on while another, for whom it spins, could run.

    A thread that pauses for a second time owes a turn to those that could have run since the first and did not. It is
    the fair scheduler of Musuvathi and Qadeer (2008).
    """

    def __init__(self) -> None:
        self._owes: dict[str, set[str]] = {}
        self._passed_over: dict[str, set[str]] = {}

    def allowed(self, names: Sequence[str], running: Candidate) -> list[str]:
        """Return those of the threads that can run that owe no turn to another of them."""
        self.took(running.name)
        if running.pausing:
            self._owes.setdefault(running.name, set()).update(self._passed_over.get(running.name, ()))
            self._passed_over[running.name] = set(names) - {running.name}
        return [name for name in names if self._owes.get(name, set()).isdisjoint(names)]

    def took(self, name: str) -> None:
        """Take in that a thread runs."""
        for others in (*self._owes.values(), *self._passed_over.values()):
            others.discard(name)
