"""What is to be done: four workloads, each with its messages, its handler and the evidence that the handler gathers.

W1  many keys, nothing to do: what the dispatching itself costs.
W2  one hot key among cold ones: do the cold ones have to wait?
W3  handlers that wait for I/O: does waiting hold anything up?
W4  real events: the flights of a year by aircraft, many keys and heavily skewed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from time import perf_counter
from typing import Any

from benchmarks.evidence import PROBES, Evidence, Message
from benchmarks.flights import flights

__all__ = ["TITLES", "WORKLOADS", "Workload", "percentile"]

WINDOW = 256
WORKERS = 2
_SLEEP = 0.002
_HOT = 0


@dataclass(frozen=True)
class Workload:
    """One run's work. `source` can be iterated once."""

    evidence: Evidence
    handle: Callable[[Message], Any]
    source: Iterable[Message]
    key: Callable[[Message], Hashable] = itemgetter(0)
    window: int = WINDOW
    workers: int = WORKERS
    waiting: bool = False
    """`handle` is a coroutine function."""
    cold_waits: Callable[[], list[float]] = field(default=list)
    """After the run: seconds from the pull of each message of a cold key to the start of its handler."""


def many_keys(count: int | None = None) -> Workload:
    """W1: 1,000 keys drawn uniformly; the handler checks the order and does nothing else."""
    total = count or 200_000
    draw = random.Random(1)
    evidence = Evidence(_numbered(((draw.randrange(1000),) for _ in range(total)), total), WINDOW)
    finished, out_of_order, probe = evidence.finished, evidence.out_of_order, evidence.probe

    def handle(message: Message) -> None:
        key, number, probed = message
        if probed:
            probe()
        if finished[key] != number:
            out_of_order.append(message)
        finished[key] += 1

    return Workload(evidence, handle, evidence.source)


def hot_key(count: int | None = None) -> Workload:
    """W2: nine of ten messages have one key, the rest is spread over 100 keys, whose waiting is measured."""
    total = count or 200_000
    draw = random.Random(2)
    keys = ((_HOT if draw.random() < 0.9 else draw.randint(1, 100),) for _ in range(total))
    evidence = Evidence(_numbered(keys, total), WINDOW)
    finished, out_of_order, probe = evidence.finished, evidence.out_of_order, evidence.probe
    # Within a key the order is kept, so the n-th pull and the n-th start belong to one message.
    pulls: dict[Hashable, list[float]] = defaultdict(list)
    starts: dict[Hashable, list[float]] = {key: [] for key in finished}

    def source() -> Iterator[Message]:
        for message in evidence.source:
            if message[0] != _HOT:
                pulls[message[0]].append(perf_counter())
            yield message

    def handle(message: Message) -> None:
        key, number, probed = message
        if key != _HOT:
            starts[key].append(perf_counter())
        if probed:
            probe()
        if finished[key] != number:
            out_of_order.append(message)
        finished[key] += 1

    def cold_waits() -> list[float]:
        return [start - pull for key in pulls for pull, start in zip(pulls[key], starts[key], strict=False)]

    return Workload(evidence, handle, source(), cold_waits=cold_waits)


def waiting_handlers(count: int | None = None) -> Workload:
    """W3: 2,000 keys; the handler sleeps for 2 ms, and the order is checked across the sleep."""
    total = count or 20_000
    draw = random.Random(3)
    evidence = Evidence(_numbered(((draw.randrange(2000),) for _ in range(total)), total), WINDOW)
    finished, out_of_order, probe = evidence.finished, evidence.out_of_order, evidence.probe

    async def handle(message: Message) -> None:
        key, number, probed = message
        if probed:
            probe()
        if finished[key] != number:
            out_of_order.append(message)
        await asyncio.sleep(_SLEEP)
        finished[key] += 1

    return Workload(evidence, handle, evidence.source, waiting=True)


def flights_by_aircraft(count: int | None = None) -> Workload:
    """W4: the handler follows each aircraft and counts the legs that don't start where the last one ended."""
    read = list(islice(flights(), count))
    evidence = Evidence(_numbered(read, len(read)), WINDOW)
    finished, out_of_order, probe = evidence.finished, evidence.out_of_order, evidence.probe
    airports: dict[Hashable, str] = {}
    gaps: dict[Hashable, int] = dict.fromkeys(finished, 0)

    def handle(message: Message) -> None:
        tail, number, probed, origin, destination = message
        if probed:
            probe()
        if finished[tail] != number:
            out_of_order.append(message)
        if airports.get(tail, origin) != origin:
            gaps[tail] += 1
        airports[tail] = destination
        finished[tail] += 1

    return Workload(evidence, handle, evidence.source)


WORKLOADS: dict[str, Callable[[int | None], Workload]] = {
    "W1": many_keys,
    "W2": hot_key,
    "W3": waiting_handlers,
    "W4": flights_by_aircraft,
}

TITLES = {
    "W1": "1,000 keys, a handler that does nothing but check the order",
    "W2": "90 % of the messages on one key, the rest on 100 cold keys",
    "W3": "2,000 keys, a handler that awaits 2 ms",
    "W4": "flights by tail number, a handler that follows each aircraft",
}


def percentile(values: Iterable[float], percent: float) -> float:
    """Give the smallest value that `percent` of the values don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _numbered(rows: Iterable[tuple[Any, ...]], total: int) -> list[Message]:
    """Make messages of rows that begin with their key: number them within the key and draw those to be probed."""
    draw = random.Random(0)
    seen: Counter[Hashable] = Counter()
    messages: list[Message] = []
    for key, *rest in rows:
        messages.append((key, seen[key], draw.random() * total < PROBES, *rest))
        seen[key] += 1
    return messages
