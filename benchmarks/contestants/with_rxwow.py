"""rxwow itself, used as its documentation says, with every promise on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Semaphore
from typing import Any

from benchmarks.workloads import Workload
from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.streams import UNBOUNDED, BatchSubscriber, Subscription

__all__ = ["on_loop", "on_many_dispatches", "on_one_worker", "on_threads"]


def on_threads(workload: Workload) -> None:
    """Dispatch on worker threads; the caller waits."""
    with _executor(workload, workload.workers) as executor:
        dispatch = keyed_dispatch(workload.key, workload.handle, executor=executor)
        Flowable.from_iterable(workload.source).pipe(dispatch).run()
        workload.rest()


def on_one_worker(workload: Workload) -> None:
    """Dispatch on one worker thread."""
    with _executor(workload, 1) as executor:
        dispatch = keyed_dispatch(workload.key, workload.handle, executor=executor)
        Flowable.from_iterable(workload.source).pipe(dispatch).run()


def on_loop(workload: Workload) -> None:
    """Dispatch on the caller's own loop; the caller takes the results as they come."""

    async def run() -> None:
        async with KeyedExecutor.on_running_loop(max_in_flight=workload.window) as executor:
            dispatch = keyed_dispatch(workload.key, workload.handle, executor=executor)
            async for _ in Flowable.from_iterable(workload.source).pipe(dispatch):
                pass

    asyncio.run(run())


def on_many_dispatches(workload: Workload) -> None:
    """Subscribe a dispatch for each source, side by side, and wait for the ends of all."""
    with _executor(workload, workload.workers) as executor:
        dispatch = keyed_dispatch(workload.key, workload.handle, executor=executor)
        sinks = [_Sink() for _ in workload.evidence.sources]
        for source, sink in zip(workload.evidence.sources, sinks, strict=True):
            Flowable.from_iterable(source).pipe(dispatch).subscribe(sink)
        for sink in sinks:
            sink.wait()


def _executor(workload: Workload, workers: int) -> KeyedExecutor:
    return KeyedExecutor(workers, max_in_flight=workload.window, throughput=workload.throughput)


class _Sink(BatchSubscriber[Any]):
    """Takes everything; the semaphore is released at the end, after which nothing is written."""

    def __init__(self) -> None:
        self._ended = Semaphore(0)
        self._error: Exception | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(UNBOUNDED)

    def on_next(self, value: Any) -> None:
        pass

    def on_next_batch(self, items: Sequence[Any]) -> None:
        pass

    def on_error(self, error: Exception) -> None:
        self._error = error
        self._ended.release()

    def on_completed(self) -> None:
        self._ended.release()

    def wait(self) -> None:
        self._ended.acquire()
        if self._error is not None:
            raise self._error
