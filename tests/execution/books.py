"""The books of a dispatch, also after its end."""

from __future__ import annotations

from rxwow import KeyedExecutor
from rxwow.execution.dispatch import Dispatch


def books_of(executor: KeyedExecutor) -> Dispatch:
    """Return the executor's only dispatch, whose `statistics` can be asked for after its end too."""
    (dispatch,) = list[Dispatch](executor._dispatches)
    return dispatch


def check_ends(dispatch: Dispatch, **ends: int) -> None:
    """Check that nothing is in flight, and how many messages ended in each way; those not mentioned are 0."""
    statistics = dispatch.statistics()
    assert statistics.closed
    assert statistics.window.in_flight == 0, statistics
    all_ends = {"succeeded": 0, "skipped": 0, "failed": 0, "discarded": 0, **ends}
    assert {end: getattr(statistics.window, end) for end in all_ends} == all_ends, statistics
