"""Runs of a scenario: what fails is shown shrunk, and as it was to who asks for that."""

import pytest

from rxwow.testing import ControlledPlatform, Replay, ScheduleFailure, explore, find_failure, run
from rxwow.testing.schedule import CLOCK, Step, render, switches


def lost_update(platform: ControlledPlatform) -> None:
    counter = [0]

    def add() -> None:
        for _ in range(3):
            value = counter[0]
            platform.point("read")
            counter[0] = value + 1
            platform.point("written")

    threads = [platform.thread(add, name) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter[0] == 6


def words(failure: ScheduleFailure) -> list[str]:
    return [f"{step.thread} {step.what}" for step in failure.schedule]


def test_explore_and_find_failure_show_the_same_shrunk_failure() -> None:
    with pytest.raises(ScheduleFailure, match="shrunk from") as caught:
        explore(lost_update)
    failure = find_failure(lost_update)
    assert failure is not None
    assert str(failure) == str(caught.value)
    assert isinstance(caught.value.__cause__, AssertionError)
    # main starts both, one reads, the other does all or some, the first writes, main is told.
    assert switches(failure.schedule) <= 4


def test_a_seed_gives_the_run_as_it_was() -> None:
    shrunk = find_failure(lost_update)
    assert shrunk is not None
    assert shrunk.seed is not None
    with pytest.raises(ScheduleFailure) as caught:
        run(lost_update, shrunk.seed)
    as_it_was = find_failure(lost_update, shrink_runs=0)
    assert as_it_was is not None
    assert str(as_it_was) == str(caught.value)
    assert switches(caught.value.schedule) > switches(shrunk.schedule)
    assert "shrunk" not in str(caught.value)


def test_a_run_can_be_given_a_chooser() -> None:
    failure = find_failure(lost_update, shrink_runs=0)
    assert failure is not None
    with pytest.raises(ScheduleFailure, match=r"Replay\(failure\.choices\)") as caught:
        run(lost_update, chooser=Replay(failure.choices))
    assert words(caught.value) == words(failure)
    assert caught.value.seed is None


def test_what_the_scenario_draws_is_drawn_again_when_it_is_shrunk() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        if platform.random.random() != of_seed_0:
            lost_update(platform)

    of_seed_0 = run(lambda platform: platform.random.random(), 0)

    failure = find_failure(scenario)
    assert failure is not None
    assert "shrunk from" in str(failure)
    with pytest.raises(ScheduleFailure) as caught:
        run(scenario, failure.seed or 0, chooser=Replay(failure.choices))
    assert words(caught.value) == words(failure)


def test_a_scenario_that_holds_is_run_for_each_seed_and_no_more() -> None:
    seeds: list[int | None] = []
    explore(lambda platform: seeds.append(platform.seed), range(5))
    assert find_failure(lambda platform: seeds.append(platform.seed), range(5, 7)) is None
    assert seeds == list(range(7))


def test_a_replay_without_choices_ends_a_spin() -> None:
    def scenario(platform: ControlledPlatform) -> str:
        done: list[str] = []
        platform.thread(lambda: done.append("worker"), "worker").start()
        while not done:
            platform.pause()
        return done[0]

    assert run(scenario, chooser=Replay([]), step_limit=100) == "worker"


def test_steps_are_numbered_and_read_as_blocks() -> None:
    steps = [
        Step(0, "main", "starts", "worker", None),
        Step(0, "main", "waits for the end of", "worker", None),
        Step(0, "worker", "sleeps for 0.5 s", None, None),
        Step(500_000_000, CLOCK, "moves to 0.5 s, due: worker", None, None),
        Step(500_000_000, "worker", "ends", None, None),
    ]
    assert list(render(steps, 8)) == [
        "   8  main     starts worker",
        "   9           waits for the end of worker",
        "  10  worker   sleeps for 0.5 s",
        "  11  (clock)  moves to 0.5 s, due: worker",
        "  12  worker   ends",
    ]
    assert switches(steps) == 1
