"""The time that a turn is expected to take follows the handler, and not what once held a thread up."""

from __future__ import annotations

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution.expectation import SHORTEST_TURN
from rxwow.execution.placement import WAKE_UP
from rxwow.testing import ControlledPlatform, run

MESSAGES = 200
SLOW = 20 * WAKE_UP


def same(number: int) -> int:
    return number


def times_of(platform: ControlledPlatform, seconds: dict[int, float]) -> tuple[float, float]:
    """Handle messages that take so many seconds; return the time of all, and what a turn was expected to take then."""
    expected = 0.0

    def handler(number: int) -> None:
        nonlocal expected
        if seconds[number]:
            platform.sleep(seconds[number])
        (statistics,) = executor.statistics().dispatches
        expected = statistics.expected_turn or 0.0

    with KeyedExecutor(workers=2, max_in_flight=32) as executor:
        Flowable.from_iterable(range(MESSAGES)).pipe(keyed_dispatch(same, handler, executor=executor)).run()
    return platform.monotonic(), expected


@pytest.mark.seeds(20, soak=1000)
def test_a_handler_that_becomes_slow_is_spread_over_the_workers(seed: int) -> None:
    # At first its turns take no time at all, as they do by a clock that ticks seldom.
    seconds = {number: SLOW if number >= MESSAGES / 2 else 0.0 for number in range(MESSAGES)}
    elapsed, expected = run(lambda platform: times_of(platform, seconds), seed)
    assert elapsed < 0.7 * sum(seconds.values())
    assert expected > WAKE_UP


@pytest.mark.seeds(20, soak=1000)
def test_a_turn_that_was_held_up_once_makes_no_slow_handler(seed: int) -> None:
    seconds = dict.fromkeys(range(MESSAGES), 0.0)
    seconds[MESSAGES // 2] = 1.0
    _, expected = run(lambda platform: times_of(platform, seconds), seed)
    assert expected < 10 * SHORTEST_TURN
