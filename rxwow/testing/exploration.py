"""Run a scenario under one schedule, or under many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.failures import ScheduleFailure

__all__ = ["explore", "find_failure", "run"]

_Result = TypeVar("_Result")


def run(scenario: Callable[[ControlledPlatform], _Result], seed: int = 0, *, step_limit: int = 100_000) -> _Result:
    """Run a scenario under the schedule of a seed.

    Args:
        scenario: is called with the platform, which is `current_platform()` in it and in the threads that it starts.
        seed: what the order of the threads is drawn from.
        step_limit: the number of steps after which the run fails.

    Returns:
        What the scenario returned.

    Raises:
        ScheduleFailure: if the scenario or a thread of it raised, or if the run could not go on.

    >>> run(lambda platform: platform.lock().acquire(), seed=7)
    True
    """
    return ControlledPlatform(seed, step_limit=step_limit).run(scenario)


def explore(
    scenario: Callable[[ControlledPlatform], object], seeds: Iterable[int] = range(1000), *, step_limit: int = 100_000
) -> None:
    """Run a scenario once for each seed.

    Args:
        scenario: see `run`; it must make anew all that it changes.
        seeds: the seeds.
        step_limit: the number of steps after which a run fails.

    Raises:
        ScheduleFailure: the first failure; the seeds after it are not run.

    >>> explore(lambda platform: platform.event().wait(timeout=1), seeds=range(10))
    """
    for seed in seeds:
        run(scenario, seed, step_limit=step_limit)


def find_failure(
    scenario: Callable[[ControlledPlatform], object], seeds: Iterable[int] = range(1000), *, step_limit: int = 100_000
) -> ScheduleFailure | None:
    """Return the first failure of a scenario, or None if there is none.

    Args:
        scenario: see `explore`.
        seeds: the seeds.
        step_limit: the number of steps after which a run fails.
    """
    try:
        explore(scenario, seeds, step_limit=step_limit)
    except ScheduleFailure as failure:
        return failure
    return None
