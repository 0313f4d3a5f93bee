"""From a failing run to the shortest schedule that fails in the same way: the one that a reader can follow."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from rxwow.testing.choosers import Replay
from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.failures import LivelockError, NondeterminismError, ScheduleFailure, StalledError, Verdict
from rxwow.testing.leftovers import silence
from rxwow.testing.report import shrunk_failure, unshrunk_failure
from rxwow.testing.schedule import switches
from rxwow.testing.stints import FollowStints, Stint, Tracked

__all__ = ["shrink"]

_MOST_STEPS = 200_000
"""The steps of all runs together after which no more are made: a run that gets nowhere takes its whole limit."""


def shrink(
    scenario: Callable[[ControlledPlatform], object],
    failure: ScheduleFailure,
    *,
    most_runs: int = 500,
    step_limit: int = 100_000,
) -> ScheduleFailure:
    """Return the failure of the shortest schedule found that fails in the same way; the same one each time.

    The same way: with the same type of error and, if it is an assertion of the tested code, at the same place. Fewer
    switches between threads are shorter, then fewer steps.

    Args:
        scenario: see `explore`.
        failure: how it failed.
        most_runs: how often to run the scenario at most; 0 returns the failure as it is.
        step_limit: the number of steps after which a run fails.

    Returns:
        A failure to raise. If the scenario doesn't fail again under the same choices, the failure as it is, which
        says so.
    """
    if most_runs < 1:
        return failure
    if isinstance(failure.__cause__, StalledError):
        return unshrunk_failure(failure, "each run would wait in real time again, until it is taken to be stuck")
    shrinker = _Shrinker(scenario, failure, most_runs, step_limit)
    # What hundreds of failing runs leave behind must not warn one by one, nor later, in another test.
    with silence():
        shrunk = shrinker.shrink()
        gc.collect()
    return shrunk


class _Attempt(NamedTuple):
    """One run of the scenario that failed in the same way."""

    failure: ScheduleFailure
    departures: dict[int, str]
    stints: list[Stint]

    @property
    def size(self) -> tuple[int, int, int]:
        schedule = self.failure.schedule
        return switches(schedule), len(schedule), len(self.departures)


class _Shrinker:
    """Tries shorter and shorter schedules of one failure. Not shared between threads."""

    def __init__(
        self,
        scenario: Callable[[ControlledPlatform], object],
        origin: ScheduleFailure,
        most_runs: int,
        step_limit: int,
    ) -> None:
        self._scenario = scenario
        self._origin = origin
        self._most_runs = most_runs
        self._fault = _fault(origin)
        # A longer run is no use here, and one that never ends would be long.
        is_endless = isinstance(origin.__cause__, LivelockError)
        self._step_limit = step_limit if is_endless else min(step_limit, 2 * len(origin.schedule) + 1_000)
        self._tried: set[tuple[object, ...]] = set()
        self._runs = 0
        self._steps = 0

    def shrink(self) -> ScheduleFailure:
        best = self._attempt(Tracked(Replay(self._origin.choices)))
        if best is None or _story(best.failure) != _story(self._origin):
            return self._unrepeatable("the same choices gave another run the second time")
        # What fails without any departure is as short as it gets, for a reader; it is found at once if there is one.
        plain = self._attempt(Tracked(Replay({})))
        if plain is not None and plain.size < best.size:
            best = plain
        while best.departures and (better := self._better(best)) is not None:
            best = better
        last = self._run(Tracked(Replay(best.departures)))
        if last is None or _story(last) != _story(best.failure):
            return self._unrepeatable("the shrunk schedule gave another run the second time")
        return shrunk_failure(last, self._origin, best.departures, self._runs)

    def _better(self, best: _Attempt) -> _Attempt | None:
        candidates: Iterator[list[Stint] | Mapping[int, str]]
        candidates = chain(_fewer(best.stints), self._elsewhere(best.departures))
        for tried in candidates:
            if self._runs >= self._most_runs or self._steps >= _MOST_STEPS:
                return None
            key = tuple(tried.items() if isinstance(tried, Mapping) else tried)
            if key in self._tried:
                continue
            self._tried.add(key)
            chooser = Tracked(Replay(tried)) if isinstance(tried, Mapping) else FollowStints(tried).tracked
            attempt = self._attempt(chooser)
            if attempt is not None and attempt.size < best.size:
                return attempt
        return None

    def _elsewhere(self, departures: Mapping[int, str]) -> Iterator[Mapping[int, str]]:
        """Yield departures of which all but the first few are replaced by one, tried at each place after them."""
        for count in range(len(departures)):
            kept = dict(islice(departures.items(), count))
            tracked = Tracked(Replay(kept))
            self._run(tracked)
            for number, names in enumerate(tracked.offered):
                if number > max(kept, default=-1):
                    yield from ({**kept, number: name} for name in names)

    def _attempt(self, tracked: Tracked) -> _Attempt | None:
        failure = self._run(tracked)
        if failure is None or _fault(failure) != self._fault:
            return None
        return _Attempt(failure, tracked.departures, tracked.stints)

    def _run(self, tracked: Tracked) -> ScheduleFailure | None:
        platform = ControlledPlatform(self._origin.seed or 0, chooser=tracked, step_limit=self._step_limit)
        tracked.schedule = platform.schedule
        self._runs += 1
        try:
            platform.run(self._scenario)
        except ScheduleFailure as failure:
            return failure
        finally:
            tracked.track()
            self._steps += len(platform.schedule)
        return None

    def _unrepeatable(self, difference: str) -> ScheduleFailure:
        return unshrunk_failure(self._origin, str(NondeterminismError(difference)))


def _fault(failure: ScheduleFailure) -> tuple[object, ...]:
    """Return what two failures have in common that are the same to a reader."""
    cause = failure.__cause__
    if not isinstance(cause, AssertionError) or isinstance(cause, Verdict):
        return (type(cause),)
    places = list(traceback.walk_tb(cause.__traceback__))
    return (type(cause), *((frame.f_code, line) for frame, line in places[-1:]))


def _story(failure: ScheduleFailure) -> list[tuple[int, str, str]]:
    return [(step.nanoseconds, step.thread, step.verb) for step in failure.schedule]


def _fewer(stints: Sequence[Stint]) -> Iterator[list[Stint]]:
    """Yield lists with some stints left out or done together with the thread's next one."""
    size = len(stints)
    while size:
        for start in range(0, len(stints), size):
            # What is left out of a thread is made up for by its next stint.
            yield [*stints[:start], *stints[start + size :]]
        size //= 2
    for index in range(len(stints)):
        yield _brought_forward(stints, index)


def _brought_forward(stints: Sequence[Stint], index: int) -> list[Stint]:
    thread = stints[index].thread
    for later in range(index + 1, len(stints)):
        if stints[later].thread == thread:
            return [*stints[:index], stints[later], *stints[index + 1 : later], *stints[later + 1 :]]
    return list(stints)
