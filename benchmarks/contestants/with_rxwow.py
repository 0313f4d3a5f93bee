"""rxwow itself, used as its documentation says, with every promise on."""

from __future__ import annotations

import asyncio

from benchmarks.workloads import Workload
from rxwow import Flowable, KeyedExecutor, keyed_dispatch

__all__ = ["on_loop", "on_threads"]


def on_threads(workload: Workload) -> None:
    """Dispatch on worker threads; the caller waits."""
    with KeyedExecutor(workers=workload.workers, max_in_flight=workload.window) as executor:
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
