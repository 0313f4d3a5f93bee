"""Handlers in two processes, which are started before the clock is: rxwow with `run_in`, and the bare pool."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from time import perf_counter

from reactivex import operators as ops

from benchmarks.evidence import Message
from benchmarks.workloads import Workload
from rxwow import Flowable, KeyedExecutor, keyed_dispatch

__all__ = ["bare_pool", "process_pool"]

_PROCESSES = 2


def process_pool(workload: Workload) -> None:
    """Compute in the processes, check the results where they arrive."""
    compute, check = _parts(workload)
    with (
        _pool() as pool,
        KeyedExecutor(workload.workers, max_in_flight=workload.window) as executor,
    ):
        _start(pool, workload)
        dispatch = keyed_dispatch(workload.key, compute, executor=executor, run_in=pool)
        Flowable.from_iterable(workload.source).pipe(dispatch, ops.map(check)).run()


def bare_pool(workload: Workload) -> None:
    """Submit as many as the window allows, and take the results in the order of their messages."""
    compute, check = _parts(workload)
    running: deque[Future[Message]] = deque()
    with _pool() as pool:
        _start(pool, workload)
        for message in workload.source:
            if len(running) == workload.window:
                check(running.popleft().result())
            running.append(pool.submit(compute, message))
        while running:
            check(running.popleft().result())


def _parts(workload: Workload) -> tuple[Callable[[Message], Message], Callable[[Message], Message]]:
    if workload.compute is None or workload.check is None:
        raise ValueError("the workload has nothing that another process could do")
    return workload.compute, workload.check


def _pool() -> ProcessPoolExecutor:
    # Spawned, since a fork copies the locks that other threads hold at that moment.
    return ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn"))


def _start(pool: ProcessPoolExecutor, workload: Workload) -> None:
    wait([pool.submit(os.getpid) for _ in range(_PROCESSES)])
    workload.evidence.began = perf_counter()
