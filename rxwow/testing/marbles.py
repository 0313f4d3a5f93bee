"""controlled_marbles: RxPY's marble diagrams for sources that are handled on controlled workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import reactivex
from reactivex import Notification, Observable, typing
from reactivex.observable.marbles import parse
from reactivex.testing.reactivetest import ReactiveTest
from reactivex.testing.recorded import Recorded

from rxwow.testing.clock import nanoseconds
from rxwow.testing.scheduler import ControlledTestScheduler

__all__ = ["Diagram", "Marbles", "Start", "controlled_marbles"]


Drawn_co = TypeVar("Drawn_co", covariant=True)


class Diagram(Protocol[Drawn_co]):
    """Reads a marble diagram."""

    def __call__(
        self, string: str, lookup: Mapping[str | float, Any] | None = None, error: Exception | None = None
    ) -> Drawn_co:
        """Return what the diagram shows.

        Args:
            string: the diagram, as `reactivex.from_marbles` reads it.
            lookup: what stands for a value of the diagram.
            error: what `#` stands for.
        """
        ...


class Start(Protocol):
    """Runs a test."""

    def __call__(self, create: Observable[Any] | Callable[[], Observable[Any]]) -> list[Recorded[Any]]:
        """Subscribe at 200 s, dispose at 1000 s, and return what came and when.

        Args:
            create: an Observable, or a function that is called at 100 s and returns one.
        """
        ...


class Marbles(NamedTuple):
    """What `controlled_marbles` returns, in the order of RxPY's `marbles_testing`."""

    start: Start
    cold: Diagram[Observable[Any]]
    hot: Diagram[Observable[Any]]
    exp: Diagram[list[Recorded[Any]]]


def controlled_marbles(scheduler: ControlledTestScheduler | None = None, *, timespan: float = 1.0) -> Marbles:
    """Write sources and expectations as marble diagrams; RxPY's `marbles_testing` for what runs on controlled workers.

    The diagrams of `hot` and `exp` begin at 200 s, when `start` subscribes, and one of `cold` when it is subscribed. A
    hot marble at the first place comes just before the subscription.

    Args:
        scheduler: what all of them run on; if None, one is made for the current run.
        timespan: seconds that a character stands for.

    Returns:
        The functions `start`, `cold`, `hot` and `exp`.

    Raises:
        UsageError: no scheduler is given and the calling thread is in no controlled run.

    >>> import asyncio
    >>> from rxwow import keyed_dispatch
    >>> from rxwow.testing import DeterministicExecutor
    >>> async def two_seconds(item):
    ...     await asyncio.sleep(2)
    ...     return item.upper()
    >>> with DeterministicExecutor(seed=3) as executor:
    ...     start, cold, hot, exp = controlled_marbles()
    ...     source = hot("   -a--b-----|")
    ...     expected = exp(" ---A--B---|")
    ...     results = start(source.pipe(keyed_dispatch(lambda item: item, two_seconds, executor=executor)))
    >>> results == expected
    True
    """
    scheduler = scheduler or ControlledTestScheduler()

    def start(create: Observable[Any] | Callable[[], Observable[Any]]) -> list[Recorded[Any]]:
        def given() -> Observable[Any]:
            return cast(Observable[Any], create)

        return scheduler.start(given if isinstance(create, Observable) else create).messages

    def cold(
        string: str, lookup: Mapping[str | float, Any] | None = None, error: Exception | None = None
    ) -> Observable[Any]:
        return reactivex.from_marbles(string, timespan, scheduler, lookup, error)

    def exp(
        string: str, lookup: Mapping[str | float, Any] | None = None, error: Exception | None = None
    ) -> list[Recorded[Any]]:
        messages = parse(string, timespan, ReactiveTest.subscribed, lookup, error)
        return [_recorded(*message) for message in messages]

    def hot(
        string: str, lookup: Mapping[str | float, Any] | None = None, error: Exception | None = None
    ) -> Observable[Any]:
        return scheduler.create_hot_observable(exp(string, lookup, error))

    return Marbles(start, cold, hot, exp)


def _recorded(time: typing.RelativeTime, notification: Notification[Any]) -> Recorded[Any]:
    # The scheduler's clock has whole nanoseconds, so a sum of time spans must not differ in its last digit.
    seconds = nanoseconds(ControlledTestScheduler.to_seconds(time)) / 1e9
    # RxPY says that a Recorded has an int, and puts in what its clock shows, which is a float.
    return Recorded(cast(int, seconds), notification)
