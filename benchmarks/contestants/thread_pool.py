"""By hand, as most people write it: a deque for each active key, a ThreadPoolExecutor, a semaphore for the bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore, Lock

from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["thread_pool"]


def thread_pool(workload: Workload) -> None:
    """Submit a job for each key that becomes active; the job drains the key's deque."""
    handle, key_of = workload.handle, workload.key
    window, lock = BoundedSemaphore(workload.window), Lock()
    queues: dict[Hashable, deque[Message]] = {}

    def drain(key: Hashable, queue: deque[Message]) -> None:
        while True:
            with lock:
                if not queue:
                    del queues[key]
                    return
                message = queue.popleft()
            handle(message)
            window.release()

    with ThreadPoolExecutor(workload.workers) as pool:
        for message in workload.source:
            window.acquire()
            key = key_of(message)
            with lock:
                queue = queues.get(key)
                if queue is None:
                    queue = queues[key] = deque((message,))
                    pool.submit(drain, key, queue)
                else:
                    queue.append(message)
    workload.rest()
