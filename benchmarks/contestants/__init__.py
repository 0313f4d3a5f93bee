"""Who does the work: each contestant is a function that takes a workload and returns when all of it is finished.

Those written by hand promise the order within a key and the bound, and nothing else: no failures, no cancelling, no
results. They are written as well as that can be done, since a weak rival would prove nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.workloads import Workload, named

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
    bounded: bool = True
    """It promises that no more than the window is in flight."""
    unit: bool = False
    """The others are given as multiples of it."""
    most: int | None = None
    """It is given no more messages than that, since it is slow; what one of them costs can still be compared."""

    def load(self) -> Callable[[Workload], None]:
        """Import the function that does the work."""
        module, _, function = self.entry.partition(":")
        run: Callable[[Workload], None] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        return run


def _points(*names: str) -> frozenset[str]:
    return frozenset(workload for name in names for workload in named(name))


_RUNNING, _WAITING = _points("W1", "W2", "W4"), _points("W3")
_DEAD, _SINGLE, _COMPUTING, _CHAINS = _points("W5"), _points("W6"), _points("W7"), _points("W10")
_SWEPT = _points("W9-window", "W9-keys")

CONTESTANTS = {
    "plain-loop": Contestant(
        "plain_loop:plain_loop", _RUNNING | _COMPUTING, "no threads, no keys: the limit of Python", unit=True
    ),
    "hand-off": Contestant(
        "hand_off:hand_off",
        _RUNNING | _SWEPT,
        "one bounded deque, one thread, no keys, no lock a message: the best bare hand-off",
        unit=True,
    ),
    "plain-hand-off": Contestant(
        "plain_hand_off:plain_hand_off",
        _RUNNING,
        "one bounded deque, one thread, no keys, a Condition round each message: the hand-off that people write",
        unit=True,
    ),
    "hashed-threads": Contestant(
        "hashed_threads:hashed_threads", _RUNNING, "by hand, the best: keys hashed to 2 threads that take all they have"
    ),
    "ready-queue": Contestant(
        "ready_queue:ready_queue", _RUNNING | _DEAD, "by hand: 2 threads take up to 32 ready keys at once"
    ),
    "thread-pool": Contestant(
        "thread_pool:thread_pool",
        # A million jobs of a pool, traced, take minutes.
        _RUNNING | _points("W5-10000", "W5-100000"),
        "by hand, as most people do: deques, ThreadPoolExecutor, semaphore",
    ),
    "asyncio-tasks": Contestant(
        "asyncio_tasks:asyncio_tasks", _points("W1", "W2", "W3"), "by hand, asyncio: deque and task per active key"
    ),
    "bare-tasks": Contestant(
        "asyncio_tasks:bare_tasks", _WAITING, "256 tasks, no order: the limit of asyncio", ordered=False, unit=True
    ),
    "rxpy-groups": Contestant(
        "plain_rxpy:groups_on_threads",
        _points("W1"),
        "RxPY: group_by + observe_on(EventLoopScheduler), 2 threads, no bound; 20,000 messages at most",
        bounded=False,
        most=20_000,
    ),
    "loop-wake-up": Contestant(
        "single_messages:event_loop", _SINGLE, "call_soon_threadsafe on the idle loop of another thread", unit=True
    ),
    "condition-wake-up": Contestant(
        "single_messages:condition", _SINGLE, "Condition.notify for a thread that waits", unit=True
    ),
    "rxwow-pushed": Contestant("single_messages:pushed", _SINGLE, "Inlet, keyed_dispatch, a callback; spin=0"),
    "rxwow-spinning": Contestant("single_messages:pushed_spinning", _SINGLE, "the same with spin=0.001"),
    "one-worker": Contestant(
        "with_rxwow:on_one_worker", _COMPUTING, "keyed_dispatch on KeyedExecutor(workers=1)", unit=True
    ),
    "bare-pool": Contestant(
        "process_pool:bare_pool",
        _COMPUTING,
        "ProcessPoolExecutor(2).submit with at most 256 unfinished, no keys: the limit of a process pool",
        unit=True,
    ),
    "process-pool": Contestant(
        "process_pool:process_pool", _COMPUTING, "keyed_dispatch with run_in=ProcessPoolExecutor(2)"
    ),
    "rxwow": Contestant(
        "with_rxwow:on_threads",
        _RUNNING | _WAITING | _DEAD | _COMPUTING | _points("W9"),
        "keyed_dispatch on KeyedExecutor(workers=2)",
    ),
    "rxwow-on-loop": Contestant("with_rxwow:on_loop", _WAITING, "keyed_dispatch on KeyedExecutor.on_running_loop()"),
    "rxwow-shared": Contestant(
        "with_rxwow:on_many_dispatches", _points("W8"), "dispatches side by side on one KeyedExecutor(workers=2)"
    ),
    "rxpy-chain": Contestant(
        "plain_rxpy:chain", _CHAINS, "reactivex.from_iterable(...).pipe(...), no demand", bounded=False, unit=True
    ),
    "lifted": Contestant("lifted:run", _CHAINS, "Flowable.pipe(...).run(), which takes batches", bounded=False),
    "lifted-plain": Contestant(
        "lifted:subscribe", _CHAINS, "Flowable.pipe(...).subscribe(callback), no demand", bounded=False
    ),
}


def contestants_of(workload: str) -> dict[str, Contestant]:
    """Give the contestants that are tried on this workload."""
    return {name: contestant for name, contestant in CONTESTANTS.items() if workload in contestant.workloads}
