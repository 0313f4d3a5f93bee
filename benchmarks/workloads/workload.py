"""One run's work, and what all workloads are made of: numbered messages and a handler that checks the order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from benchmarks.evidence import PROBES, Evidence, Message

__all__ = ["WINDOW", "Figures", "Workload", "numbered", "order_check", "percentile", "uniform"]

WINDOW = 256
WORKERS = 2
THROUGHPUT = 16
_COUNTED_IN_ALL = 300_000

Figures = dict[str, float]
"""What was measured besides the time, by its name and unit as the report shows it."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Workload:
    """One run's work. `source` can be iterated once; if `evidence.sources` are several, they stand in its place."""

    evidence: Evidence
    handle: Callable[[Message], Any]
    source: Iterable[Message]
    key: Callable[[Message], Hashable] = itemgetter(0)
    window: int = WINDOW
    workers: int = WORKERS
    throughput: int = THROUGHPUT
    waiting: bool = False
    """`handle` is a coroutine function."""
    compute: Callable[[Message], Message] | None = None
    """The part of `handle` that another process can do; `check` is the rest, for its result."""
    check: Callable[[Message], Message] | None = None
    operators: Sequence[Callable[[Any], Any]] = ()
    """Those of RxPY that the messages go through, in place of a handler."""
    begin: Callable[[], None] = _nothing
    """Called just before the run."""
    rest: Callable[[], None] = _nothing
    """Called by the contestant when all is finished, with what it keeps for the next message still in place."""
    latencies: list[float] = field(default_factory=list)
    """Seconds from each message to its result, for the contestants that send one at a time to measure it."""
    figures: Callable[[], Figures] = dict
    """After the run: what the workload itself has measured."""


def percentile(values: Iterable[float], percent: float) -> float:
    """Give the smallest value that `percent` of the values don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def numbered(rows: Iterable[tuple[Any, ...]], total: int, keys: int = 1) -> list[Message]:
    """Make messages of rows that begin with their key: number them within the key and draw those to be probed.

    A probe counts over all keys, so where there are very many keys there are fewer probes. Else they would be what is
    measured.
    """
    probes = max(5, min(PROBES, _COUNTED_IN_ALL // min(keys, total)))
    draw = random.Random(0)
    seen: Counter[Hashable] = Counter()
    messages: list[Message] = []
    for key, *rest in rows:
        messages.append((key, seen[key], draw.random() * total < probes, *rest))
        seen[key] += 1
    return messages


def uniform(total: int, keys: int) -> list[Message]:
    """Draw the keys of so many messages uniformly."""
    draw = random.Random(1)
    return numbered(((draw.randrange(keys),) for _ in range(total)), total, keys)


def order_check(evidence: Evidence) -> Callable[[Message], None]:
    """Give the handler that checks the order, notes that the message is finished, and does nothing else."""
    finished, out_of_order, probe = evidence.finished, evidence.out_of_order, evidence.probe

    def handle(message: Message) -> None:
        key, number, probed = message
        if probed:
            probe()
        if finished[key] != number:
            out_of_order.append(message)
        finished[key] += 1

    return handle
