"""RxPY's operators on a Flowable: with a subscriber that takes batches, and with a plain callback."""

from __future__ import annotations

from benchmarks.workloads import Workload
from rxwow import Flowable

__all__ = ["run", "subscribe"]


def run(workload: Workload) -> None:
    """Ask for everything as `run` does, which takes what comes in batches."""
    Flowable.from_iterable(workload.source).pipe(*workload.operators).run()


def subscribe(workload: Workload) -> None:
    """Subscribe as to any Observable; all is emitted before that returns."""
    Flowable.from_iterable(workload.source).pipe(*workload.operators).subscribe(_take, _fail)


def _take(_: object) -> None:
    pass


def _fail(error: Exception) -> None:
    raise error
