"""What is to be done: each workload has its messages, its handler and the evidence that the handler gathers.

A name such as `W9-window-16` is one point of a row of measurements, `W9-window`; `W9` means all that begin so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.workloads.computing import computing
from benchmarks.workloads.dead_keys import dead_keys
from benchmarks.workloads.dispatching import flights_by_aircraft, hot_key, many_keys, waiting_handlers
from benchmarks.workloads.many_dispatches import many_dispatches
from benchmarks.workloads.operator_chains import CHAINS, operator_chain
from benchmarks.workloads.single_messages import P50, single_messages
from benchmarks.workloads.workload import Figures, Workload, percentile

__all__ = ["SPEED", "TITLES", "WORKLOADS", "Figures", "Spec", "Workload", "group_of", "named", "percentile"]

SPEED = "speed"


@dataclass(frozen=True)
class Spec:
    """How a workload is made and how its runs are compared."""

    make: Callable[[int | None], Workload]
    quick: int | None
    """Messages of a quick run, which leaves the workload out if None."""
    score: str | None = SPEED
    """What ratios compare: the speed, or a figure of which less is better, or nothing."""
    base: str | None = None
    """The workload beside which each contestant's own speed is set."""


def group_of(workload: str) -> str:
    """Give the row of measurements that the workload is a point of."""
    return workload.rpartition("-")[0] or workload


def named(name: str) -> list[str]:
    """Give the workloads that the name means: itself, or all points of its rows."""
    return [workload for workload in WORKLOADS if workload == name or workload.startswith(f"{name}-")]


TITLES = {
    "W1": "1,000 keys, a handler that does nothing but check the order",
    "W2": "90 % of the messages on one key, the rest on 100 cold keys",
    "W3": "2,000 keys, a handler that awaits 2 ms",
    "W4": "flights by tail number, a handler that follows each aircraft",
    "W5": "as many keys as messages: what is held of dead keys (traced memory)",
    "W6": "one message at a time through an idle executor: from sending it to its result",
    "W7": "100 keys, a handler that computes for 100 microseconds",
    "W8": "1,000 keys divided among so many dispatches of one executor",
    "W9-window": "W1 with windows from 1 to 4,096",
    "W9-throughput": "W2 with 1 to 1,024 messages of a key in one turn",
    "W9-keys": "W1 with 1 to 1,000,000 keys",
    "W10": "operators of RxPY on a Flowable and on a plain Observable",
}

WORKLOADS: dict[str, Spec] = {
    "W1": Spec(many_keys, 40_000),
    "W2": Spec(hot_key, 40_000),
    "W3": Spec(waiting_handlers, 5_000),
    "W4": Spec(flights_by_aircraft, 40_000),
    "W5-10000": Spec(partial(dead_keys, keys=10_000), 10_000, score=None),
    "W5-100000": Spec(partial(dead_keys, keys=100_000), 50_000, score=None),
    "W5-1000000": Spec(partial(dead_keys, keys=1_000_000), None, score=None),
    "W6": Spec(single_messages, 500, score=P50),
    "W7": Spec(computing, 2_000),
    **{
        f"W8-{number}": Spec(partial(many_dispatches, dispatches=number), 20_000, base="W8-1")
        for number in (1, 10, 100, 1000)
    },
    **{
        f"W9-window-{window}": Spec(partial(many_keys, window=window), 10_000, base="W9-window-256")
        for window in (1, 16, 256, 4096)
    },
    **{
        f"W9-throughput-{throughput}": Spec(partial(hot_key, throughput=throughput), 10_000, base="W9-throughput-16")
        for throughput in (1, 16, 1024)
    },
    **{
        f"W9-keys-{keys}": Spec(partial(many_keys, keys=keys), 10_000, base="W9-keys-1000")
        for keys in (1, 10, 1000, 100_000, 1_000_000)
    },
    **{f"W10-{chain}": Spec(partial(operator_chain, chain=chain), 10_000) for chain in CHAINS},
}
