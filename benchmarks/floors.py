"""What must not get worse: least ratios and most memory. A run that falls below a floor ends with status 1.

A floor is half of what was measured with `--quick` when it was set, and a ceiling twice that: shared machines are
noisy, and with few messages the start of threads counts. Half is so far away that a broken floor means a regression.
Raise them when rxwow gets faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.contestants import CONTESTANTS
from benchmarks.harness import Standing, find, ratio

__all__ = ["CEILINGS", "FLOORS", "Ceiling", "Floor", "broken"]


@dataclass(frozen=True)
class Floor:
    """The contestant must reach `least` times what the peer does."""

    workload: str
    contestant: str
    peer: str
    """Another contestant on the same workload, or another workload of the same contestant."""
    least: float


@dataclass(frozen=True)
class Ceiling:
    """A figure of the contestant must not be more than `most`."""

    workload: str
    contestant: str
    figure: str
    most: float


FLOORS = (
    # The price of keys: against a bare hand-off, as sharp as it gets and as people write it.
    Floor("W1", "rxwow", "hand-off", 0.3),
    Floor("W1", "rxwow", "plain-hand-off", 1.1),
    Floor("W2", "rxwow", "hand-off", 0.25),
    Floor("W2", "rxwow", "plain-hand-off", 0.8),
    Floor("W4", "rxwow", "hand-off", 0.35),
    Floor("W4", "rxwow", "plain-hand-off", 0.9),
    # What most people write by hand, and RxPY's own way.
    Floor("W1", "rxwow", "thread-pool", 6.0),
    Floor("W1", "rxwow", "rxpy-groups", 18.0),
    # Waiting costs little more than asyncio's own tasks do.
    Floor("W3", "rxwow", "bare-tasks", 0.17),
    Floor("W3", "rxwow-on-loop", "bare-tasks", 0.25),
    # One message: the wake-up of a loop, and what a dispatch adds to it.
    Floor("W6", "rxwow-pushed", "loop-wake-up", 0.1),
    Floor("W6", "rxwow-spinning", "rxwow-pushed", 0.6),
    # Where the handler computes, the dispatch must not be seen, nor beside what a process pool costs by itself.
    Floor("W7", "one-worker", "plain-loop", 0.3),
    Floor("W7", "rxwow", "one-worker", 0.45),
    Floor("W7", "process-pool", "bare-pool", 0.4),
    # Many dispatches of one executor.
    Floor("W8-100", "rxwow-shared", "W8-1", 0.2),
    Floor("W8-1000", "rxwow-shared", "W8-1", 0.04),
    # Large windows and many keys must not slow it down.
    Floor("W9-window-4096", "rxwow", "W9-window-256", 0.45),
    Floor("W9-throughput-1024", "rxwow", "W9-throughput-16", 0.35),
    Floor("W9-keys-100000", "rxwow", "W9-keys-1000", 0.45),
    # The price of demand.
    Floor("W10-map", "lifted", "rxpy-chain", 0.25),
    Floor("W10-map", "lifted-plain", "rxpy-chain", 0.2),
    Floor("W10-all", "lifted", "rxpy-chain", 0.45),
    Floor("W10-all", "lifted-plain", "rxpy-chain", 0.4),
)

CEILINGS = (
    # A dead key costs nothing: what is held is the executor's own, and the same for any number of keys; so is the peak.
    *(
        Ceiling(workload, "rxwow", figure, most)
        for workload in ("W5-10000", "W5-100000", "W5-1000000")
        for figure, most in (("held, KiB", 210.0), ("peak, KiB", 1300.0))
    ),
)


def broken(standings: Sequence[Standing]) -> Iterator[tuple[list[str], str]]:
    """Give each floor and ceiling that was measured and isn't kept: its workloads, and what is wrong."""
    for floor in FLOORS:
        standing = find(standings, floor.workload, floor.contestant)
        by_contestant = floor.peer in CONTESTANTS
        peer = (
            find(standings, floor.workload, floor.peer)
            if by_contestant
            else find(standings, floor.peer, floor.contestant)
        )
        reached = None if standing is None else ratio(standing, peer)
        if reached is not None and reached < floor.least:
            text = f"{floor.workload}: {floor.contestant} reached {reached:.2f} x {floor.peer}, not {floor.least}"
            yield [floor.workload] if by_contestant else [floor.workload, floor.peer], text
    for ceiling in CEILINGS:
        standing = find(standings, ceiling.workload, ceiling.contestant)
        figure = None if standing is None else standing.figures.get(ceiling.figure)
        if figure is not None and figure > ceiling.most:
            limit = f"{figure:,.1f}, more than {ceiling.most:,.0f}"
            yield [ceiling.workload], f"{ceiling.workload}: {ceiling.contestant}'s {ceiling.figure} is {limit}"
