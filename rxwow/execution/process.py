"""The executors of this process: the shared one, those that are forgotten, and those inherited by a fork."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rxwow.execution.executor import KeyedExecutor
    from rxwow.execution.worker import Worker

__all__ = ["Process", "process", "stop_forgotten"]


def stop_forgotten(name: str, workers: Sequence[Worker]) -> None:
    """End the workers of an executor that was collected, with a `ResourceWarning` if any had started."""
    started = any(worker.started for worker in workers)
    for worker in workers:
        worker.stop(lambda: None)
    # Last, as warnings may be errors.
    if started:
        warnings.warn(
            f"executor {name!r} was neither drained nor disposed; use `with KeyedExecutor(...) as executor:`",
            ResourceWarning,
            stacklevel=2,
        )


class Process:
    """The executors of this process; `_lock` guards the fields."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.shared: KeyedExecutor | None = None
        self._executors: weakref.WeakSet[KeyedExecutor] = weakref.WeakSet()
        self._inherited: list[KeyedExecutor] = []

    def add(self, executor: KeyedExecutor) -> None:
        """Dispose the executor, if it is still open, when the process ends."""
        with self._lock:
            self._executors.add(executor)

    def executors(self) -> list[KeyedExecutor]:
        """Return those that were made in this process and not collected."""
        with self._lock:
            return list(self._executors)

    def get_shared(self, make: Callable[[], KeyedExecutor]) -> KeyedExecutor:
        """Return the shared executor, which the first call makes."""
        with self._lock:
            shared = self.shared
        if shared is not None:
            return shared
        # Made outside the lock, which its own making takes; the loser of a race has started nothing.
        made = make()
        with self._lock:
            self.shared = self.shared or made
            return self.shared

    def forked(self) -> None:
        """Begin anew in a child: its parent's threads are not here, and what they used stays the parent's.

        The inherited executors are kept for ever, so that nothing of theirs is closed by being collected.
        """
        self._lock = threading.Lock()
        self._inherited.extend(self._executors)
        self._executors = weakref.WeakSet()
        self.shared = None

    def exiting(self) -> None:
        """Dispose, each with a `ResourceWarning`, the executors that were started and never ended."""
        with self._lock:
            executors = [executor for executor in self._executors if executor is not self.shared]
        with ExitStack() as ends:
            # All of them, even if warnings are errors.
            for executor in executors:
                ends.callback(executor.dispose_forgotten)


process = Process()
atexit.register(process.exiting)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process.forked)
