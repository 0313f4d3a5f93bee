"""RxPY without rxwow: groups on event loop threads, and chains of operators."""

from __future__ import annotations

from threading import Event
from typing import Any

import reactivex
from reactivex import GroupedObservable, Observable
from reactivex import operators as ops
from reactivex.scheduler import EventLoopScheduler

from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["chain", "groups_on_threads"]


def groups_on_threads(workload: Workload) -> None:
    """Give each key a group, and each group one of the threads; nothing bounds what waits there."""
    schedulers = [EventLoopScheduler() for _ in range(workload.workers)]
    ended, errors = Event(), list[Exception]()

    def on_thread(group: GroupedObservable[Any, Message]) -> Observable[Any]:
        scheduler = schedulers[hash(group.key) % len(schedulers)]
        return group.pipe(ops.observe_on(scheduler), ops.map(workload.handle))

    def fail(error: Exception) -> None:
        errors.append(error)
        ended.set()

    # RxPY leaves the elements of a group untyped.
    by_key: Any = ops.group_by(workload.key)
    results: Observable[Any] = reactivex.from_iterable(workload.source).pipe(by_key, ops.flat_map(on_thread))
    results.subscribe(on_error=fail, on_completed=ended.set)
    ended.wait()
    for scheduler in schedulers:
        scheduler.dispose()
    if errors:
        raise errors[0]


def chain(workload: Workload) -> None:
    """Subscribe the chain with a callback; all is emitted before that returns."""
    reactivex.from_iterable(workload.source).pipe(*workload.operators).subscribe(_take, _fail)


def _take(_: object) -> None:
    pass


def _fail(error: Exception) -> None:
    raise error
