"""W1 to W4 and W9: messages for a keyed dispatcher, from handlers that do nothing to real events."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Hashable, Iterator
from itertools import islice
from time import perf_counter

from benchmarks.evidence import Evidence, Message
from benchmarks.flights import flights
from benchmarks.workloads.workload import (
    THROUGHPUT,
    WINDOW,
    Figures,
    Workload,
    numbered,
    order_check,
    percentile,
    uniform,
)

__all__ = ["flights_by_aircraft", "hot_key", "many_keys", "waiting_handlers"]

_SLEEP = 0.002
_HOT = 0


def many_keys(count: int | None = None, *, keys: int = 1000, window: int = WINDOW) -> Workload:
    """W1: 1,000 keys drawn uniformly; the handler checks the order and does nothing else."""
    evidence = Evidence(uniform(count or 200_000, keys), window)
    return Workload(evidence, order_check(evidence), evidence.source, window=window)


def hot_key(count: int | None = None, *, throughput: int = THROUGHPUT) -> Workload:
    """W2: nine of ten messages have one key, the rest is spread over 100 keys, whose waiting is measured."""
    total = count or 200_000
    draw = random.Random(2)
    keys = ((_HOT if draw.random() < 0.9 else draw.randint(1, 100),) for _ in range(total))
    evidence = Evidence(numbered(keys, total), WINDOW)
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

    def figures() -> Figures:
        waits = [start - pull for key in pulls for pull, start in zip(pulls[key], starts[key], strict=False)]
        return {"cold p99, ms": percentile(waits, 99) * 1e3} if waits else {}

    return Workload(evidence, handle, source(), throughput=throughput, figures=figures)


def waiting_handlers(count: int | None = None) -> Workload:
    """W3: 2,000 keys; the handler sleeps for 2 ms, and the order is checked across the sleep."""
    total = count or 20_000
    draw = random.Random(3)
    evidence = Evidence(numbered(((draw.randrange(2000),) for _ in range(total)), total), WINDOW)
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
    evidence = Evidence(numbered(read, len(read)), WINDOW)
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
