"""Handlers of all kinds on two workers: no key is held up by more than a turn of each other."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rxwow import Flowable, KeyedExecutor, blocking, keyed_dispatch
from tests.execution.collecting import PATIENCE, Collector, Push

COMPUTING_KEYS = 2


def test_what_computes_blocks_and_waits_holds_up_a_plain_handler_by_a_turn_at_most() -> None:
    stop = threading.Event()
    computing = threading.Event()
    turns: Counter[str] = Counter()
    handled = threading.Semaphore(0)
    handled_after: list[tuple[str, int]] = []

    def messages() -> Iterator[int]:
        return itertools.takewhile(lambda _: not stop.is_set(), itertools.count())

    def compute(_: int) -> None:
        sum(range(20_000))
        # Each worker's own entry, so no update is lost.
        turns[threading.current_thread().name] += 1
        computing.set()

    @blocking
    def block(_: int) -> bool:
        return stop.wait(PATIENCE)

    async def wait(_: int) -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(stop.wait)

    def handle(_: int) -> None:
        worker = threading.current_thread().name
        handled_after.append((worker, turns[worker]))
        handled.release()

    def begin(flowable: Flowable[Any], key: Callable[[int], int], handler: Any, demand: int) -> Collector:
        collector = Collector(demand)
        # A turn of one message, so that turns can be counted.
        flowable.pipe(keyed_dispatch(key, handler, executor=executor, throughput=1)).subscribe(collector)
        return collector

    with KeyedExecutor(2) as executor:
        turns.update({"rxwow-0": 0, "rxwow-1": 0})
        collectors = [
            begin(Flowable.from_iterable(range(10)), lambda message: message, block, 10),
            begin(Flowable.from_iterable(range(10)), lambda message: message, wait, 10),
            begin(Flowable.from_iterable(messages()), lambda message: message % COMPUTING_KEYS, compute, 2**63 - 1),
        ]
        assert computing.wait(PATIENCE)
        plain = Push()
        collectors.append(begin(Flowable(plain.publish), lambda message: message, handle, 20))
        for message in range(20):
            plain.send(message)
            # It is in a worker's line by now.
            before = dict(turns)
            assert handled.acquire(timeout=PATIENCE)
            worker, after = handled_after[-1]
            assert after - before[worker] <= COMPUTING_KEYS
        assert not any(collector.ended.is_set() for collector in collectors[:3])
        stop.set()
        plain.subscriber.on_completed()
        for collector in collectors:
            assert collector.ended.wait(PATIENCE)
            assert collector.error is None
