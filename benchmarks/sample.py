"""One sample: one contestant does one workload once, in this process.

    python -m benchmarks.sample W1 rxwow

prints what was measured and what was wrong as JSON. Nothing else happens in the process, so a profiler that sees all
threads can be put in front of it:

    py-spy record --gil -r 1000 -f speedscope -o profile.json -- python -m benchmarks.sample W1 rxwow --messages 1000000
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

from benchmarks.contestants import CONTESTANTS
from benchmarks.workloads import WORKLOADS, Figures

__all__ = ["Sample", "main", "take"]


@dataclass(frozen=True)
class Sample:
    """What one run gave."""

    messages: int
    seconds: float
    peak_in_flight: int
    figures: Figures
    """What the workload has measured besides the time."""
    problems: list[str]
    """What was wrong with the run; a run with problems has no speed."""

    @property
    def speed(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def take(workload_name: str, contestant_name: str, messages: int | None = None) -> Sample:
    """Do the work, timed from the first pull to the return of the contestant."""
    contestant = CONTESTANTS[contestant_name]
    if contestant.most is not None:
        messages = min(contestant.most, messages or contestant.most)
    workload = WORKLOADS[workload_name].make(messages)
    evidence, run = workload.evidence, contestant.load()
    # The collector would walk all prepared messages again and again, and the time of that would be no contestant's own.
    gc.collect()
    gc.freeze()
    workload.begin()
    evidence.began = perf_counter()
    try:
        run(workload)
    finally:
        seconds = perf_counter() - evidence.began
        gc.unfreeze()
    return Sample(
        messages=evidence.total,
        seconds=seconds,
        peak_in_flight=evidence.peak_in_flight,
        figures=workload.figures(),
        problems=evidence.problems(ordered=contestant.ordered, bounded=contestant.bounded),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Take one sample; 1 if the run was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sample", description="One contestant does one workload once."
    )
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("--messages", type=int, metavar="N", help="so many messages instead of all")
    options = parser.parse_args(arguments)
    sample = take(options.workload, options.contestant, options.messages)
    print(json.dumps(asdict(sample)))
    return 1 if sample.problems else 0


if __name__ == "__main__":
    sys.exit(main())
