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

from benchmarks.contestants import contestants_of
from benchmarks.sample import Sample

__all__ = ["Standing", "measure"]

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
        return None if self.failures else median(sample.speed for sample in self.samples)

    @property
    def cold_p99(self) -> float | None:
        """The median of the runs' 99th percentiles, in seconds."""
        waits = [sample.cold_p99 for sample in self.samples if sample.cold_p99 is not None]
        return median(waits) if waits and not self.failures else None


def measure(
    workloads: Sequence[str],
    contestants: Sequence[str],
    samples: int,
    messages: int | None = None,
    progress: Callable[[str], None] = print,
) -> list[Standing]:
    """Take so many samples of each pair; a contestant that failed once is not tried again on that workload."""
    standings = [
        Standing(workload, contestant)
        for workload in workloads
        for contestant in contestants_of(workload)
        if contestant in contestants
    ]
    for turn in range(samples):
        for standing in _rotated(standings, turn):
            if not standing.failures:
                _sample(standing, messages)
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
