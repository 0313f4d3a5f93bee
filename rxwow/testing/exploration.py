"""Run a scenario under one schedule, or under many that are drawn from seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rxwow.testing.choosers import Chooser
from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.failures import ScheduleFailure
from rxwow.testing.shrinking import shrink

__all__ = ["explore", "find_failure", "run"]

_Result = TypeVar("_Result")


def run(
    scenario: Callable[[ControlledPlatform], _Result],
    seed: int = 0,
    *,
    step_limit: int = 100_000,
    chooser: Chooser | None = None,
) -> _Result:
    """Run a scenario under the schedule of a seed.

    Args:
        scenario: is called with the platform, which is `current_platform()` in it and in the threads that it starts.
        seed: what the order of the threads is drawn from, and what `platform.random` gives.
        step_limit: the number of steps after which the run fails.
        chooser: decides the order in place of the seed; a `Replay` repeats a run.

    Returns:
        What the scenario returned.

    Raises:
        ScheduleFailure: if the scenario or a thread of it raised, or if the run could not go on.

    >>> run(lambda platform: platform.lock().acquire(), seed=7)
    True
    """
    return ControlledPlatform(seed, chooser=chooser, step_limit=step_limit).run(scenario)


def explore(
    scenario: Callable[[ControlledPlatform], object],
    seeds: Iterable[int] = range(1000),
    *,
    step_limit: int = 100_000,
    shrink_runs: int = 500,
) -> None:
    """Run a scenario once for each seed. For all schedules of a small scenario: `explore_all`.

    Args:
        scenario: see `run`; it must make anew all that it changes.
        seeds: the seeds.
        step_limit: the number of steps after which a run fails.
        shrink_runs: how many further runs may be made, after a failure, to find the shortest schedule that fails in
            the same way; 0 for the failure as it was.

    Raises:
        ScheduleFailure: the first failure, shrunk; the seeds after it are not run. `run(scenario, failure.seed)`
            gives it as it was.

    >>> explore(lambda platform: platform.event().wait(timeout=1), seeds=range(10))
    """
    failure = find_failure(scenario, seeds, step_limit=step_limit, shrink_runs=shrink_runs)
    if failure is not None:
        raise failure


def find_failure(
    scenario: Callable[[ControlledPlatform], object],
    seeds: Iterable[int] = range(1000),
    *,
    step_limit: int = 100_000,
    shrink_runs: int = 500,
) -> ScheduleFailure | None:
    """Return the first failure of a scenario, shrunk, or None if there is none.

    Args:
        scenario: see `explore`.
        seeds: the seeds.
        step_limit: the number of steps after which a run fails.
        shrink_runs: see `explore`.
    """
    for seed in seeds:
        try:
            run(scenario, seed, step_limit=step_limit)
        except ScheduleFailure as failure:
            return shrink(scenario, failure, most_runs=shrink_runs, step_limit=step_limit)
    return None
