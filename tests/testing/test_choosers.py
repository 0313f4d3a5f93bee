"""The choosers: what each is good for."""

from random import Random

from rxwow.testing import ControlledPlatform, Ranking, Replay, ScheduleFailure, Uniform
from rxwow.testing.choosers import Chooser


def fall_behind(platform: ControlledPlatform) -> None:
    """Fails if a thread takes none of its steps while another takes all of its thirty."""
    done: list[int] = []

    def advance() -> None:
        for number in range(30):
            platform.point(str(number))
            done.append(number)

    thread = platform.thread(advance, "ahead")
    thread.start()
    before = len(done)
    platform.point("behind")
    assert len(done) - before < 30
    thread.join()


def failures(make: type[Uniform] | type[Ranking], *arguments: float) -> int:
    count = 0
    for seed in range(1_000):
        chooser: Chooser = make(Random(seed), *arguments)
        try:
            ControlledPlatform(chooser=chooser).run(fall_behind)
        except ScheduleFailure:
            count += 1
    return count


def test_ranking_finds_what_needs_a_thread_to_fall_far_behind() -> None:
    assert failures(Uniform) == 0
    assert failures(Ranking, 0.05) > 0


def test_a_replay_goes_on_with_the_running_thread_where_the_named_one_cannot() -> None:
    def scenario(platform: ControlledPlatform) -> list[str]:
        order: list[str] = []
        thread = platform.thread(lambda: order.append("worker"), "worker")
        thread.start()
        order.append("main")
        thread.join()
        return order

    assert ControlledPlatform(chooser=Replay(["nobody"])).run(scenario) == ["main", "worker"]
    assert ControlledPlatform(chooser=Replay(["worker"])).run(scenario) == ["worker", "main"]
