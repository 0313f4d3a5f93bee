"""A scheduler for each aggregate, made when it is first asked for: the older model's supplier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reactivex.subject import AsyncSubject

from rxwow.errors import ExecutorClosedError, InvalidArgumentError
from rxwow.execution.executor import KeyedExecutor
from rxwow.execution.options import check_count, check_name
from rxwow.execution.scheduler import KeyedScheduler
from rxwow.platform import current_platform
from rxwow.streams.flowable import Flowable
from rxwow.typing import NamedAggregate

__all__ = ["AggregateSchedulerSupplier", "BorrowedAggregateSchedulerSupplier", "DefaultAggregateSchedulerSupplier"]


class AggregateSchedulerSupplier(Protocol):
    """Gives each aggregate a scheduler, and ends them."""

    def get_or_initialize(self, aggregate: NamedAggregate) -> KeyedScheduler:
        """Return the scheduler of an aggregate, always the same."""
        ...

    def stop_gracefully(self) -> Flowable[bool]:
        """Let what was accepted finish, and end; see `DefaultAggregateSchedulerSupplier`."""
        ...

    def force_stop(self) -> None:
        """End now."""
        ...


class DefaultAggregateSchedulerSupplier:
    """Gives each aggregate a scheduler over an executor of its own, made when it is first asked for.

    `_lock` guards `_schedulers`, `_stopping` and `_running`.

    Args:
        name: the threads are called `name-aggregate-0` and so on.
        parallelism: how many workers each executor has; as many as there are CPUs if None.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> supplier = DefaultAggregateSchedulerSupplier("commands", parallelism=1)
    >>> order = NamedAggregate("shop", "order")
    >>> supplier.get_or_initialize(order) is supplier.get_or_initialize(NamedAggregate("shop", "order"))
    True
    >>> supplier.stop_gracefully().run()
    True
    """

    def __init__(self, name: str, parallelism: int | None = None) -> None:
        check_name(name)
        if parallelism is not None:
            check_count("parallelism", parallelism)
        self._name = name
        self._parallelism = parallelism
        self._lock = current_platform().lock()
        self._schedulers: dict[NamedAggregate, KeyedScheduler] = {}
        self._stopping = False
        self._running = 0
        self._finished = True
        self._stopped: AsyncSubject[bool] = AsyncSubject()

    def get_or_initialize(self, aggregate: NamedAggregate) -> KeyedScheduler:
        """Return the scheduler of an aggregate; the same one for equal names, on every call and thread.

        Args:
            aggregate: its context and name.

        Raises:
            ExecutorClosedError: a stop has begun.
            InvalidArgumentError: it is no `NamedAggregate`.
        """
        if not isinstance(aggregate, NamedAggregate):
            raise InvalidArgumentError("aggregate", aggregate, "a NamedAggregate")
        with self._lock:
            if self._stopping:
                raise ExecutorClosedError(
                    f"{self._name}-{aggregate.name}", "its supplier is stopping; ask for it before"
                )
            scheduler = self._schedulers.get(aggregate)
            if scheduler is None:
                # Inert until its first action, so nothing waits for the lock meanwhile.
                executor = KeyedExecutor(self._parallelism, name=f"{self._name}-{aggregate.name}")
                scheduler = self._schedulers[aggregate] = KeyedScheduler(executor)
            return scheduler

    def stop_gracefully(self) -> Flowable[bool]:
        """Make no more schedulers, let what was accepted finish, and end; begins now and does not wait.

        Returns:
            A Flowable that gives all who subscribe, now or later, the same result when all threads have ended, and
            completes: whether all that was accepted has finished. It emits on the thread that ended last.
        """
        for executor in self._begin_stop():
            executor.drain_then(self._ended_for(executor))
        return Flowable.from_observable(self._stopped, on_overflow="buffer")

    def force_stop(self) -> None:
        """Make no more schedulers and dispose all there are, also those that a graceful stop waits for."""
        for executor in self._begin_stop():
            executor.drain_then(self._ended_for(executor))
        with self._lock:
            executors = [scheduler.executor for scheduler in self._schedulers.values()]
        for executor in executors:
            executor.dispose()

    def _begin_stop(self) -> list[KeyedExecutor]:
        """Close the creation; return the executors to end the first time, and none afterwards."""
        with self._lock:
            if self._stopping:
                return []
            self._stopping = True
            executors = [scheduler.executor for scheduler in self._schedulers.values()]
            self._running = len(executors)
        if not executors:
            self._tell()
        return executors

    def _ended_for(self, executor: KeyedExecutor) -> Callable[[bool], None]:
        def ended(finished: bool) -> None:
            with self._lock:
                self._running -= 1
                self._finished = self._finished and finished
                last = not self._running
            if last:
                self._tell()

        return ended

    def _tell(self) -> None:
        self._stopped.on_next(self._finished)
        self._stopped.on_completed()


class BorrowedAggregateSchedulerSupplier:
    """Gives the schedulers of another supplier, which somebody else ends: both stops do nothing.

    Args:
        lender: the supplier whose schedulers these are.

    >>> lender = DefaultAggregateSchedulerSupplier("events")
    >>> order = NamedAggregate("shop", "order")
    >>> borrowed = BorrowedAggregateSchedulerSupplier(lender)
    >>> borrowed.force_stop()
    >>> borrowed.get_or_initialize(order) is lender.get_or_initialize(order)
    True
    >>> lender.force_stop()
    """

    def __init__(self, lender: AggregateSchedulerSupplier) -> None:
        self._lender = lender

    def get_or_initialize(self, aggregate: NamedAggregate) -> KeyedScheduler:
        """Return the lender's scheduler of an aggregate."""
        return self._lender.get_or_initialize(aggregate)

    def stop_gracefully(self) -> Flowable[bool]:
        """Do nothing; the result is True, at once."""
        return Flowable.from_iterable([True])

    def force_stop(self) -> None:
        """Do nothing."""
