"""All contestants on all workloads, in fresh processes, interleaved.

Interleaved, because a machine that is slow for a minute must be slow for everybody: ratios survive that, absolute
numbers don't.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.contestants import contestants_of
from benchmarks.sample import Sample
from benchmarks.workloads import SPEED, WORKLOADS, Figures

__all__ = ["Standing", "find", "measure", "ratio"]

_ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 180.0


@dataclass
class Standing:
    """What one contestant did on one workload so far."""

    workload: str
    contestant: str
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Runs that broke a promise, crashed or didn't end."""

    @property
    def speed(self) -> float | None:
        """The median of messages a second, if no run failed."""
        if self.failures or not self.samples:
            return None
        return median(sample.speed for sample in self.samples)

    @property
    def figures(self) -> Figures:
        """The medians of what the workload has measured besides the time, if no run failed."""
        if self.failures or not self.samples:
            return {}
        return {name: median(sample.figures[name] for sample in self.samples) for name in self.samples[0].figures}

    @property
    def score(self) -> float | None:
        """What ratios compare, so that more is better; None if nothing is compared or a run failed."""
        kind = WORKLOADS[self.workload].score
        if kind is None or kind == SPEED:
            return self.speed if kind else None
        figure = self.figures.get(kind)
        return 1 / figure if figure else None


def find(standings: Sequence[Standing], workload: str, contestant: str) -> Standing | None:
    """Give what the contestant did on the workload, if it was measured."""
    found = [each for each in standings if (each.workload, each.contestant) == (workload, contestant)]
    return found[0] if found else None


def ratio(standing: Standing, unit: Standing | None) -> float | None:
    """Give the score of one as a multiple of the other's."""
    if unit is None or standing.score is None or unit.score is None:
        return None
    return standing.score / unit.score


def measure(
    workloads: Sequence[str],
    contestants: Sequence[str],
    samples: int,
    messages: int | None = None,
    progress: Callable[[str], None] = print,
    *,
    quick: bool = False,
    budget: float | None = None,
) -> list[Standing]:
    """Take so many samples of each pair; a contestant that failed once is not tried again on that workload.

    Args:
        workloads: their names.
        contestants: their names; each is tried on its own workloads only.
        samples: how many of each pair.
        messages: so many instead of all.
        progress: told of each sample.
        quick: few messages, and without the workloads that need many.
        budget: seconds after which no further round is begun, nor gone on with; the first one is always finished.
    """
    standings = [
        Standing(workload, contestant)
        for workload in workloads
        for contestant in contestants_of(workload)
        if contestant in contestants and (WORKLOADS[workload].quick is not None or not quick)
    ]
    start = perf_counter()
    for turn in range(samples):
        for standing in _rotated(standings, turn):
            if turn and budget is not None and perf_counter() - start > budget:
                return standings
            if not standing.failures:
                _sample(standing, messages or (WORKLOADS[standing.workload].quick if quick else None))
                progress(f"round {turn + 1} of {samples}: {standing.workload} {standing.contestant}")
    return standings


def _rotated(standings: list[Standing], turn: int) -> Iterator[Standing]:
    """Begin each round with another contestant, so that none always runs behind the same one."""
    start = turn % max(1, len(standings))
    yield from standings[start:]
    yield from standings[:start]


def _sample(standing: Standing, messages: int | None) -> None:
    command = [sys.executable, "-m", "benchmarks.sample", standing.workload, standing.contestant]
    if messages is not None:
        command += ["--messages", str(messages)]
    try:
        ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        standing.failures.append(f"not finished after {_PATIENCE:.0f} s")
        return
    try:
        sample = Sample(**json.loads(ended.stdout))
    except (ValueError, TypeError):
        last_line = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        standing.failures.append(f"exit status {ended.returncode}: {last_line}")
        return
    if sample.problems:
        standing.failures.append("; ".join(sample.problems))
    else:
        standing.samples.append(sample)
