"""The way of one message, one file a station.

In the order in which a message passes them: `window`, `mailbox`, `placement`, `worker`, `turn`, `completion`,
`handling` and `failure`, `outlet`; `dispatch` ties them together for one subscription, `keyed_dispatch` is the
operator, and `executor` is what dispatches share.
"""

from __future__ import annotations

from rxwow.execution.aggregate_scheduler import (
    AggregateSchedulerSupplier,
    BorrowedAggregateSchedulerSupplier,
    DefaultAggregateSchedulerSupplier,
)
from rxwow.execution.blocking import blocking
from rxwow.execution.cause import Cause
from rxwow.execution.dump import dump_on
from rxwow.execution.executor import KeyedExecutor
from rxwow.execution.explanation import DispatchExplanation, ExecutorExplanation, KeyExplanation, ThreadExplanation
from rxwow.execution.failure import FAIL, SKIP, Backoff, Retry
from rxwow.execution.grouped_dispatch import MessageParallelism, grouped_dispatch
from rxwow.execution.hooks import ExecutionHook
from rxwow.execution.keyed_dispatch import keyed_dispatch
from rxwow.execution.parallelism import available_cpus
from rxwow.execution.scheduler import KeyedScheduler
from rxwow.execution.statistics import DispatchStatistics, ExecutorStatistics, WindowStatistics, WorkerStatistics
from rxwow.execution.whereabouts import Place
from rxwow.execution.worker import MAX_SPIN
from rxwow.execution.worker_local import WorkerLocal, worker_local

__all__ = [
    "FAIL",
    "MAX_SPIN",
    "SKIP",
    "AggregateSchedulerSupplier",
    "Backoff",
    "BorrowedAggregateSchedulerSupplier",
    "Cause",
    "DefaultAggregateSchedulerSupplier",
    "DispatchExplanation",
    "DispatchStatistics",
    "ExecutionHook",
    "ExecutorExplanation",
    "ExecutorStatistics",
    "KeyExplanation",
    "KeyedExecutor",
    "KeyedScheduler",
    "MessageParallelism",
    "Place",
    "Retry",
    "ThreadExplanation",
    "WindowStatistics",
    "WorkerLocal",
    "WorkerStatistics",
    "available_cpus",
    "blocking",
    "dump_on",
    "grouped_dispatch",
    "keyed_dispatch",
    "worker_local",
]
