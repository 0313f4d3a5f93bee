"""DeterministicExecutor: the executor of production on controlled threads and virtual time."""

from __future__ import annotations

from contextvars import Token
from types import TracebackType
from typing import Self

from rxwow import platform as platform_module
from rxwow.execution.executor import KeyedExecutor
from rxwow.platform import Platform
from rxwow.testing.controlled import ControlledPlatform

__all__ = ["DeterministicExecutor"]


class DeterministicExecutor(KeyedExecutor):
    """A `KeyedExecutor` whose workers run one at a time, in an order drawn from a seed, on virtual time.

    Worker, mailbox and window are those of production; the same seed gives the same run. It is used in a `with` block,
    in which the calling thread is one of the controlled ones: what it subscribes there follows the seed too, delays
    take no real time, and a deadlock is an error at once. `rxwow.testing.explore` runs a scenario under many seeds.

    Args:
        workers: how many.
        seed: what the order of the threads is drawn from.
        max_in_flight: see `KeyedExecutor`.
        throughput: see `KeyedExecutor`.
        spin: see `KeyedExecutor`.
        name: see `KeyedExecutor`.

    Raises:
        ScheduleFailure: from the end of the block, if it or a worker raised; it prints the seed and the schedule.

    >>> from rxwow import Flowable, keyed_dispatch
    >>> with DeterministicExecutor(workers=2, seed=7) as executor:
    ...     dispatch = keyed_dispatch(lambda number: number % 3, str, executor=executor)
    ...     results = Flowable.from_iterable(range(6)).pipe(dispatch).to_list()
    ...     sorted(Flowable.from_observable(results).run())
    ['0', '1', '2', '3', '4', '5']
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        seed: int = 0,
        max_in_flight: int = 256,
        throughput: int = 16,
        spin: float = 0.0,
        name: str = "rxwow",
    ) -> None:
        self.controlled = ControlledPlatform(seed)
        """The platform; its `schedule` tells what happened."""
        self._outside: Token[Platform] | None = None
        token = platform_module._current.set(self.controlled)
        try:
            super().__init__(workers, max_in_flight=max_in_flight, throughput=throughput, spin=spin, name=name)
        finally:
            platform_module._current.reset(token)

    def __enter__(self) -> Self:
        self.controlled.begin()
        self._outside = platform_module._current.set(self.controlled)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        raised = error
        try:
            super().__exit__(kind, error, traceback)
        except BaseException as ended:  # noqa: BLE001 - raised by `end`, with the schedule
            raised = ended
        if self._outside is not None:
            platform_module._current.reset(self._outside)
        self.controlled.end(raised)
