"""Who does the work: each contestant is a function that takes a workload and returns when all of it is finished.

Those written by hand promise the order within a key and the bound, and nothing else: no failures, no cancelling, no
results. They are written as well as that can be done, since a weak rival would prove nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.workloads import Workload

__all__ = ["CONTESTANTS", "Contestant", "contestants_of"]


@dataclass(frozen=True)
class Contestant:
    """A way to do the work, and the workloads that it is tried on."""

    entry: str
    """module:function, imported only by the process that runs it."""
    workloads: frozenset[str]
    about: str
    ordered: bool = True
    """It promises the order within a key."""
    unit: bool = False
    """The others are given as multiples of it."""

    def load(self) -> Callable[[Workload], None]:
        """Import the function that does the work."""
        module, _, function = self.entry.partition(":")
        run: Callable[[Workload], None] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        return run


_RUNNING, _WAITING = frozenset({"W1", "W2", "W4"}), frozenset({"W3"})

CONTESTANTS = {
    "plain-loop": Contestant("plain_loop:plain_loop", _RUNNING, "no threads, no keys: the limit of Python", unit=True),
    "hand-off": Contestant(
        "hand_off:hand_off", _RUNNING, "one bounded deque, one thread, no keys: a bare hand-off", unit=True
    ),
    "hashed-threads": Contestant(
        "hashed_threads:hashed_threads", _RUNNING, "by hand, the best: keys hashed to 2 threads that take all they have"
    ),
    "ready-queue": Contestant(
        "ready_queue:ready_queue", _RUNNING, "by hand: 2 threads take up to 32 ready keys at once"
    ),
    "thread-pool": Contestant(
        "thread_pool:thread_pool", _RUNNING, "by hand, as most people do: deques, ThreadPoolExecutor, semaphore"
    ),
    "asyncio-tasks": Contestant(
        "asyncio_tasks:asyncio_tasks", frozenset({"W1", "W2", "W3"}), "by hand, asyncio: deque and task per active key"
    ),
    "bare-tasks": Contestant(
        "asyncio_tasks:bare_tasks", _WAITING, "256 tasks, no order: the limit of asyncio", ordered=False, unit=True
    ),
    "rxwow": Contestant("with_rxwow:on_threads", _RUNNING | _WAITING, "keyed_dispatch on KeyedExecutor(workers=2)"),
    "rxwow-on-loop": Contestant("with_rxwow:on_loop", _WAITING, "keyed_dispatch on KeyedExecutor.on_running_loop()"),
}


def contestants_of(workload: str) -> dict[str, Contestant]:
    """Give the contestants that are tried on this workload."""
    return {name: contestant for name, contestant in CONTESTANTS.items() if workload in contestant.workloads}
