"""Shrinking: a failure ends up as what one would write down by hand, and is never made into another one."""

import itertools
import re
from collections.abc import Callable

import pytest

from rxwow.testing import (
    ControlledPlatform,
    DeadlockError,
    Replay,
    ScheduleFailure,
    StalledError,
    drawn_from,
    find_failure,
    run,
    shrinking,
)
from rxwow.testing.failures import LivelockError
from rxwow.testing.schedule import switches
from rxwow.testing.shrinking import shrink
from rxwow.testing.stints import FollowStints, Tracked
from tests.testing.test_planted_faults import MODELS

Model = Callable[[ControlledPlatform, bool], None]


def faulty(model: Model) -> Callable[[ControlledPlatform], None]:
    return lambda platform: model(platform, True)


def found(scenario: Callable[[ControlledPlatform], object], first_seed: int = 0) -> ScheduleFailure:
    failure = find_failure(scenario, range(first_seed, first_seed + 1000), shrink_runs=0)
    assert failure is not None
    return failure


def words(failure: ScheduleFailure) -> list[str]:
    return [f"{step.thread} {step.what}" for step in failure.schedule]


def hint(failure: ScheduleFailure) -> Replay:
    """Return the chooser that the message tells the user to pass."""
    match = re.search(r"chooser=rxwow\.testing\.Replay\((\{.*?\})\)", str(failure))
    assert match
    return Replay({int(number): name for number, name in re.findall(r"(\d+): '([^']+)'", match[1])})


# By hand: main gives the worker something to do; the worker goes as far as the window and stops there; main comes
# between; the worker goes on. The fourth has two workers and four messages, of which each waits for a timer twice.
BY_HAND = {"offer_to": 3, "check_then": 3, "wake_up": 3, "credit_of": 13}


@pytest.mark.parametrize("first_seed", [0, 100, 200, 300])
@pytest.mark.parametrize("model", MODELS)
def test_planted_faults_shrink_to_what_one_would_write_by_hand(model: Model, first_seed: int) -> None:
    scenario = faulty(model)
    failure = found(scenario, first_seed)
    shrunk = shrink(scenario, failure)
    most = next(count for name, count in BY_HAND.items() if model.__name__.startswith(name))
    assert switches(shrunk.schedule) <= most
    assert type(shrunk.__cause__) is type(failure.__cause__)
    assert shrunk.seed == failure.seed
    for chooser in (hint(shrunk), Replay(shrunk.choices)):
        with pytest.raises(ScheduleFailure) as caught:
            run(scenario, failure.seed or 0, chooser=chooser)
        assert words(caught.value) == words(shrunk)
        assert type(caught.value.__cause__) is type(shrunk.__cause__)


def test_the_message_tells_how_far_and_how_to_see_both_runs() -> None:
    scenario = faulty(MODELS[2])
    failure = found(scenario, 305)
    message = str(shrink(scenario, failure))
    assert re.search(r"shrunk from \d+ steps and \d+ switches to 8 steps and 3 switches, in \d+ runs", message)
    assert f"run(scenario, seed={failure.seed}, chooser=rxwow.testing.Replay({{" in message
    assert f"to see it unshrunk: rxwow.testing.run(scenario, seed={failure.seed})" in message
    # Numbered; the thread is named where it takes over; what, to what, where.
    assert re.search(r"^  1  main    starts worker +test_planted_faults.py:\d+ in wake_up", message, re.MULTILINE)
    assert re.search(r"^  2  worker  is at last look +test_planted_faults.py:\d+ in work", message, re.MULTILINE)
    assert re.search(r"^  4          is at appended  ", message, re.MULTILINE)
    assert re.search(r"waits for event 1 \(test_planted_faults.py:\d+\) +test_planted_faults.py:\d+ in work", message)


def test_shrinking_gives_the_same_each_time() -> None:
    scenario = faulty(MODELS[1])
    assert str(shrink(scenario, found(scenario))) == str(shrink(scenario, found(scenario)))


def test_a_failure_that_cannot_be_shorter_stays_as_it_is() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(lambda: platform.point("there"), "worker")
        thread.start()
        thread.join()
        raise ValueError("always")

    shortest = shrink(scenario, found(scenario))
    again = shrink(scenario, shortest)
    assert words(again) == words(shortest)
    # main starts the worker and joins it.
    assert switches(again.schedule) == 1
    assert again.choices == shortest.choices
    # It is looked for nothing shorter than what fails under the usual schedule.
    assert "in 3 runs" in str(again)


def test_a_failure_is_never_taken_for_one_at_another_place() -> None:
    """The second assertion fails under the shortest schedule of all, the first only under a longer one."""

    def scenario(platform: ControlledPlatform) -> None:
        done: list[int] = []

        def work() -> None:
            for number in range(3):
                done.append(number)
                platform.point("done")

        thread = platform.thread(work, "worker")
        thread.start()
        platform.point("looks")
        assert len(done) != 2, "in between"
        thread.join()
        assert not done, "at the end"

    failures = (found(scenario, seed) for seed in range(100))
    shrunk = shrink(scenario, next(failure for failure in failures if "in between" in str(failure.__cause__)))
    assert "in between" in str(shrunk.__cause__)
    assert switches(shrunk.schedule) == 2


def test_shrinking_is_bounded() -> None:
    runs = itertools.count()

    def scenario(platform: ControlledPlatform) -> None:
        next(runs)
        MODELS[3](platform, True)

    failure = found(scenario)
    before = next(runs)
    shrunk = shrink(scenario, failure, most_runs=20)
    # The shrunk schedule is run once more, to see that it can be repeated.
    assert next(runs) - before - 1 <= 22
    assert switches(shrunk.schedule) < switches(failure.schedule)
    assert shrink(scenario, failure, most_runs=0) is failure


def test_a_run_without_end_shrinks_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "_MOST_STEPS", 10_000)

    def scenario(platform: ControlledPlatform) -> None:
        came: list[bool] = []

        def work() -> None:
            platform.point("there")
            came.append(True)

        def go_on() -> None:
            while came:
                platform.point("here")

        platform.thread(work, "worker").start()
        # Not under the usual schedule, so there is something to look for, and two that could run at each step.
        platform.thread(go_on, "other").start()
        go_on()

    runs = itertools.count()

    def counted(platform: ControlledPlatform) -> None:
        next(runs)
        scenario(platform)

    shrunk = find_failure(counted, range(100), step_limit=2_000)
    assert shrunk is not None
    assert isinstance(shrunk.__cause__, LivelockError)
    assert shrunk.seed is not None
    # Those that pass take next to no steps; of those without an end no more than six can be made, and one at the end.
    match = re.search(r"in (\d+) runs", str(shrunk))
    assert match
    assert int(match[1]) < 20
    assert next(runs) == shrunk.seed + 1 + int(match[1])


def test_a_deadlock_shrinks_to_a_deadlock() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        locks = [platform.lock(), platform.lock()]

        def take(one: int, other: int) -> None:
            for _ in range(3):
                with locks[one], locks[other]:
                    platform.point("has both")

        threads = [platform.thread(lambda: take(0, 1), "there"), platform.thread(lambda: take(1, 0), "back")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    shrunk = shrink(scenario, found(scenario))
    assert isinstance(shrunk.__cause__, DeadlockError)
    assert switches(shrunk.schedule) == 3


def test_a_scenario_that_does_not_repeat_is_told_of() -> None:
    runs = itertools.count()

    def scenario(platform: ControlledPlatform) -> None:
        thread = platform.thread(lambda: platform.point("there"), "worker")
        thread.start()
        thread.join()
        assert next(runs), "only the first time"

    failure = find_failure(scenario)
    assert failure is not None
    assert "only the first time" in str(failure)
    assert "not shrunk: the same choices gave another run the second time" in str(failure)
    assert "use platform.random" in str(failure)
    assert failure.seed == 0


def test_a_scenario_that_fails_alike_in_another_way_each_time_is_told_of() -> None:
    runs = itertools.count()

    def scenario(platform: ControlledPlatform) -> None:
        for _ in range(next(runs)):
            platform.point("one more")
        raise ValueError("always")

    assert "not shrunk: the same choices gave another run" in str(find_failure(scenario))


def choices_under(tracked: Tracked, model: Model) -> list[str]:
    platform = ControlledPlatform(chooser=tracked)
    tracked.schedule = platform.schedule
    platform.run(lambda platform: model(platform, False))
    tracked.track()
    return list(platform.choices)


@pytest.mark.parametrize("model", MODELS)
def test_the_stints_of_a_run_give_the_same_run_again(model: Model) -> None:
    for seed in range(30):
        tracked = Tracked(drawn_from(seed))
        choices = choices_under(tracked, model)
        assert choices_under(FollowStints(tracked.stints).tracked, model) == choices


def test_a_run_that_is_stuck_in_real_time_is_not_run_again() -> None:
    failure = ScheduleFailure("stuck", 3, [], "worker")
    failure.__cause__ = StalledError("waits")

    def scenario(platform: ControlledPlatform) -> None:
        raise NotImplementedError

    assert "not shrunk: each run would wait in real time" in str(shrink(scenario, failure))
