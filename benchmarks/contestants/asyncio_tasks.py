"""By hand, asyncio: a deque and a task for each active key; and bare tasks without any order, asyncio's own limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["asyncio_tasks", "bare_tasks"]


def asyncio_tasks(workload: Workload) -> None:
    """Run the dispatcher on a loop of its own."""
    asyncio.run(_TaskForEachKey(workload).run())


def bare_tasks(workload: Workload) -> None:
    """Let as many tasks as the window allows pull from one source."""

    async def pull() -> None:
        for message in workload.source:
            await workload.handle(message)

    async def run() -> None:
        await asyncio.gather(*(pull() for _ in range(workload.window)))

    asyncio.run(run())


class _TaskForEachKey:
    """A key has an entry while it has unfinished messages; all runs on one loop, so no lock is needed."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._free = workload.window
        self._queues: dict[Hashable, deque[Message]] = {}
        # The loop holds its tasks only weakly.
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._change: asyncio.Future[None] | None = None

    async def run(self) -> None:
        key_of, queues, tasks = self._workload.key, self._queues, self._tasks
        drain = self._drain_waiting if self._workload.waiting else self._drain
        create_task = asyncio.get_running_loop().create_task
        for message in self._workload.source:
            while not self._free:
                await self._changed()
            self._free -= 1
            key = key_of(message)
            queue = queues.get(key)
            if queue is None:
                queue = queues[key] = deque((message,))
                tasks[key] = create_task(drain(key, queue))
            else:
                queue.append(message)
        while queues:
            await self._changed()

    async def _changed(self) -> None:
        self._change = asyncio.get_running_loop().create_future()
        await self._change
        self._change = None

    async def _drain(self, key: Hashable, queue: deque[Message]) -> None:
        handle = self._workload.handle
        while queue:
            handle(queue.popleft())
            self._free += 1
        self._end(key)

    async def _drain_waiting(self, key: Hashable, queue: deque[Message]) -> None:
        handle = self._workload.handle
        while queue:
            await handle(queue.popleft())
            self._free += 1
            self._signal()
        self._end(key)

    def _end(self, key: Hashable) -> None:
        del self._queues[key], self._tasks[key]
        self._signal()

    def _signal(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
