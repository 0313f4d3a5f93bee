"""All schedules of a small scenario: none is left out, none is run twice, and what can go wrong does."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import comb

import pytest

from rxwow.errors import InvalidArgumentError
from rxwow.testing import ControlledPlatform, DeadlockError, ScheduleFailure, find_failure
from rxwow.testing.exhaustive import Exploration, explore_all
from rxwow.testing.failures import LivelockError, NondeterminismError, UnfinishedExplorationError
from rxwow.testing.schedule import switches
from tests.testing.test_planted_faults import MODELS

Program = Sequence[str]


def start_and_join(platform: ControlledPlatform, *targets: Callable[[], object]) -> None:
    threads = [platform.thread(target, f"thread-{number}") for number, target in enumerate(targets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def points(platform: ControlledPlatform, count: int) -> None:
    for number in range(count):
        platform.point(str(number))


@pytest.mark.parametrize(("mine", "others"), [(0, 0), (1, 1), (2, 1), (0, 5), (4, 3)])
def test_two_threads_have_as_many_schedules_as_there_are_ways_to_merge_them(mine: int, others: int) -> None:
    """A thread of n points has n + 1 parts; so has the main one, from its start of the other on, and the join."""
    seen: list[tuple[str, ...]] = []

    def scenario(platform: ControlledPlatform) -> None:
        order: list[str] = []
        seen.append(())

        def work(name: str, count: int) -> None:
            for _ in range(count):
                order.append(name)
                platform.point(name)
            order.append(name)

        thread = platform.thread(lambda: work("there", others), "there")
        thread.start()
        work("here", mine)
        thread.join()
        seen[-1] = tuple(order)

    exploration = explore_all(scenario)
    assert exploration.is_finished
    assert exploration.runs == len(seen) == comb(mine + 2 + others + 1, others + 1)
    assert len(set(seen)) == comb(mine + 1 + others + 1, others + 1)


def merged(programs: Sequence[Program]) -> set[tuple[str, ...]]:
    """Return all orders of the steps of some programs, worked out without any of the code under test."""
    if not any(programs):
        return {()}
    orders: set[tuple[str, ...]] = set()
    for index, program in enumerate(programs):
        if program:
            rest = [*programs[:index], program[1:], *programs[index + 1 :]]
            orders |= {(program[0], *order) for order in merged(rest)}
    return orders


@pytest.mark.parametrize("programs", [("ab", "xy"), ("a", "b", "c"), ("abc", "x"), ("abc", "xyz")])
def test_every_order_of_the_steps_comes_up(programs: Sequence[str]) -> None:
    orders: set[tuple[str, ...]] = set()

    def scenario(platform: ControlledPlatform) -> None:
        order: list[str] = []

        def work(program: str) -> None:
            for step in program[:-1]:
                order.append(step)
                platform.point(step)
            order.append(program[-1])

        start_and_join(platform, *(lambda program=program: work(program) for program in programs))
        orders.add(tuple(order))

    explore_all(scenario)
    assert orders == merged([list(program) for program in programs])


def outcomes_of_increments(count: int) -> set[int]:
    """Return what `count` increments of two steps each, of read and write, can come to."""
    reads = [[f"read {number}", f"write {number}"] for number in range(count)]
    results: set[int] = set()
    for order in merged(reads):
        value, registers = 0, dict[str, int]()
        for step in order:
            verb, number = step.split()
            if verb == "read":
                registers[number] = value
            else:
                value = registers[number] + 1
        results.add(value)
    return results


@pytest.mark.parametrize("count", [2, 3])
def test_every_outcome_of_a_naive_model_comes_up(count: int) -> None:
    results: set[int] = set()

    def scenario(platform: ControlledPlatform) -> None:
        counter = [0]

        def increment() -> None:
            value = counter[0]
            platform.point("read")
            counter[0] = value + 1

        start_and_join(platform, *[increment] * count)
        results.add(counter[0])

    explore_all(scenario, preemptions=None if count < 3 else 2)
    assert results == outcomes_of_increments(count) == set(range(1, count + 1))


def two_narrow_windows(platform: ControlledPlatform) -> None:
    """Fails if one thread stands at 3 when the other looks for the eighth time, and is at its end at the ninth."""
    place = [0]
    stood: list[int] = []

    def advance() -> None:
        for number in range(10):
            place[0] = number
            platform.point(str(number))

    def look() -> None:
        for _ in range(10):
            stood.append(place[0])
            platform.point("looked")

    start_and_join(platform, advance, look)
    assert stood[7:9] != [3, 9]


def test_what_random_schedules_hardly_find_is_found() -> None:
    assert find_failure(two_narrow_windows, range(100)) is None
    with pytest.raises(ScheduleFailure, match=r"assert \[3, 9\] != \[3, 9\]"):
        explore_all(two_narrow_windows, preemptions=2)
    assert explore_all(two_narrow_windows, preemptions=1).is_finished


@pytest.mark.parametrize("model", MODELS)
def test_planted_faults_are_found_with_two_preemptions(model: Callable[[ControlledPlatform, bool], None]) -> None:
    with pytest.raises(ScheduleFailure):
        explore_all(lambda platform: model(platform, True), preemptions=2)


def test_a_model_without_its_fault_holds_under_all_schedules_of_one_preemption() -> None:
    assert explore_all(lambda platform: MODELS[2](platform, False), preemptions=1).is_finished


def test_a_deadlock_is_found() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        first, second = platform.lock(), platform.lock()

        def there() -> None:
            with first, second:
                pass

        def back() -> None:
            with second, first:
                pass

        start_and_join(platform, there, back)

    with pytest.raises(ScheduleFailure) as caught:
        explore_all(scenario)
    assert isinstance(caught.value.__cause__, DeadlockError)
    # There takes the first lock, back the second and waits for the first, there waits for the second.
    assert switches(caught.value.schedule) <= 4


def test_schedules_come_with_the_fewest_preemptions_first() -> None:
    counts: list[int] = []

    def scenario(platform: ControlledPlatform) -> None:
        ran: list[str] = []

        def work(name: str) -> None:
            for _ in range(3):
                ran.append(name)
                platform.point(name)
            ran.append(name)

        start_and_join(platform, lambda: work("a"), lambda: work("b"))
        counts.append(sum(one != other for one, other in pairwise(ran)))

    bounded = [explore_all(scenario, preemptions=most) for most in range(3)]
    assert [exploration.preemptions for exploration in bounded] == [0, 1, 2]
    runs = [exploration.runs for exploration in bounded]
    assert runs[0] < runs[1] < runs[2]
    # Without a preemption, the threads run one after the other.
    assert set(counts[: runs[0]]) == {1}
    counts.clear()
    everything = explore_all(scenario, most_runs=runs[1], allow_unfinished=True)
    assert everything == Exploration(runs[1], False, 2)
    assert max(counts) == 2


def test_giving_up_is_told_from_having_run_them_all() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        start_and_join(platform, lambda: points(platform, 9), lambda: points(platform, 9))

    with pytest.raises(UnfinishedExplorationError, match=r"gave up after 100 schedules.*preemptions=") as caught:
        explore_all(scenario, most_runs=100)
    assert caught.value.exploration == explore_all(scenario, most_runs=100, allow_unfinished=True)
    assert not caught.value.exploration.is_finished
    few = explore_all(scenario, preemptions=1)
    assert few.is_finished
    assert few == explore_all(scenario, preemptions=1, most_runs=few.runs)


def test_a_spin_without_end_gives_no_schedules_without_end() -> None:
    looks: set[int] = set()

    def scenario(platform: ControlledPlatform) -> None:
        done: list[bool] = []
        count = 0

        def work() -> None:
            points(platform, 2)
            done.append(True)

        thread = platform.thread(work, "worker")
        thread.start()
        while not done:
            count += 1
            platform.pause()
        thread.join()
        looks.add(count)

    assert explore_all(scenario, step_limit=100).is_finished
    assert {0, 1, 2, 3} <= looks


def test_a_thread_that_pauses_is_not_preempted() -> None:
    orders: set[str] = set()

    def scenario(platform: ControlledPlatform) -> None:
        order: list[str] = []
        for name in "ab":
            platform.thread(lambda name=name: order.append(name), name).start()  # type: ignore[misc]
        while len(order) < 2:
            platform.pause()
        orders.add("".join(order))

    assert explore_all(scenario, preemptions=0).is_finished
    assert orders == {"ab", "ba"}


def test_two_that_spin_for_each_other_without_end_are_found() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        turn = ["nobody"]

        def spin(name: str) -> None:
            while turn[0] != name:
                platform.pause()

        start_and_join(platform, lambda: spin("a"), lambda: spin("b"))

    with pytest.raises(ScheduleFailure) as caught:
        explore_all(scenario, step_limit=200, shrink_runs=5)
    assert isinstance(caught.value.__cause__, LivelockError)


def test_timers_and_loops_are_walked_too() -> None:
    orders: set[str] = set()

    def scenario(platform: ControlledPlatform) -> None:
        order: deque[str] = deque()

        async def wait(name: str) -> None:
            await asyncio.sleep(1)
            order.append(name)

        def loop(name: str) -> None:
            with asyncio.Runner(loop_factory=platform.event_loop) as runner:
                runner.run(wait(name))

        start_and_join(platform, lambda: loop("a"), lambda: loop("b"))
        assert platform.monotonic() == 1
        orders.add("".join(order))

    assert explore_all(scenario, preemptions=0).is_finished
    assert orders == {"ab", "ba"}


def test_a_scenario_that_remembers_is_told_of() -> None:
    remembered: list[int] = []

    def scenario(platform: ControlledPlatform) -> None:
        remembered.append(1)
        start_and_join(platform, *[lambda: points(platform, 1)] * (1 + len(remembered) % 2))

    with pytest.raises(NondeterminismError, match="make anew all that it changes"):
        explore_all(scenario)


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="most_runs"):
        explore_all(lambda _: None, most_runs=0)
    with pytest.raises(InvalidArgumentError, match="preemptions"):
        explore_all(lambda _: None, preemptions=-1)
