"""The choice of worker: one that is about to be free, else a parked one, else the one with the fewest mailboxes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution.mailbox import Mailbox
from rxwow.execution.placement import _HAS_GIL, WAKE_UP, choose, place
from rxwow.execution.worker import Worker
from rxwow.execution.worker_kinds import ThreadWorker
from rxwow.platform import PRODUCTION
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.handlers import Gate
from tests.streams.probe import Probe

SLOW = 1.0
FAST = WAKE_UP / 10


def workers(*queued: int | None) -> list[Worker]:
    """Make workers that run a turn and have so many mailboxes queued, or are parked where that is None.

    They have no thread: nothing is taken from what they are given.
    """
    made: list[Worker] = []
    for number, count in enumerate(queued):
        worker = ThreadWorker(f"w{number}", 0.0, PRODUCTION, None)
        if count is not None:
            worker._parked = False
            worker.fifo.extend(Mailbox() for _ in range(count))
        made.append(worker)
    return made


@pytest.mark.parametrize(
    ("queued", "expected_turn", "chosen"),
    [
        ([None, None], None, 0),  # all are parked: the first
        ([0, None], SLOW, 1),  # the turn that runs is slow, so a parked one is woken
        ([0, None], None, 1),  # nothing is known, so it is taken for slow
        ([0, None], FAST, 0),  # a short wait is cheaper than waking another
        ([8, None], FAST, 0),  # nine turns of a tenth of a wake-up
        ([9, None], FAST, 1),  # ten are no cheaper
        ([3, 1, 2], SLOW, 1),  # none is parked: the fewest
        ([2, 2], SLOW, 0),
        ([5, None, None], SLOW, 1),
        ([99, 3], FAST, 1),
    ],
)
def test_choice(queued: list[int | None], expected_turn: float | None, chosen: int) -> None:
    candidates = workers(*queued)
    assert choose(candidates, expected_turn) is candidates[chosen]


def test_a_worker_that_places_is_between_two_turns() -> None:
    candidates = workers(None, 0)
    assert choose(candidates, SLOW) is candidates[0]
    candidates[1].ident = threading.get_ident()
    assert choose(candidates, SLOW) is candidates[1]


def test_fast_turns_stay_together_and_slow_ones_are_spread() -> None:
    together = workers(0, 0)
    mailboxes = [Mailbox() for _ in range(9)]
    place(together, mailboxes, FAST)
    assert [len(worker.fifo) for worker in together] == [9, 0]
    assert all(mailbox.worker is together[0] for mailbox in mailboxes)
    spread = workers(0, 0, 0)
    place(spread, [Mailbox() for _ in range(9)], SLOW)
    assert [len(worker.fifo) for worker in spread] == [3, 3, 3]


@pytest.fixture
def executor() -> Iterator[KeyedExecutor]:
    with KeyedExecutor(workers=2) as made:
        yield made


def test_a_slow_handler_does_not_make_another_key_wait_while_a_worker_is_parked(executor: KeyedExecutor) -> None:
    gate = Gate()
    probes = [Probe(demand=UNBOUNDED), Probe(demand=UNBOUNDED)]
    for name, probe in zip("ab", probes, strict=True):
        Flowable.from_iterable([name]).pipe(keyed_dispatch(str, gate, executor=executor)).subscribe(probe)
    gate.wait_for_arrivals(2)
    assert len(set(gate.threads.values())) == 2
    gate.let_go()
    for probe in probes:
        probe.wait_for_end()


def same(number: int) -> int:
    return number


def test_handlers_of_a_microsecond_do_not_go_to_and_fro(executor: KeyedExecutor) -> None:
    dispatch = keyed_dispatch(lambda number: number % 1000, same, executor=executor)
    Flowable.from_iterable(range(100_000)).pipe(dispatch).run()
    assert sum(worker.messages for worker in executor.statistics().workers) == 100_000
    if _HAS_GIL:
        # Which one is a matter of chance, and so is how often a hold-up by the system wakes the other; but mailboxes
        # are placed thousands of times. Without the GIL a second worker is worth its wake-up.
        assert sum(worker.wakes for worker in executor.statistics().workers) < 500


@pytest.mark.seeds(100, soak=3000)
def test_handlers_of_no_time_wake_no_second_worker_under_any_schedule(seed: int) -> None:
    def scenario(_: ControlledPlatform) -> None:
        with KeyedExecutor(workers=2) as executor:
            dispatch = keyed_dispatch(lambda number: number % 1000, same, executor=executor)
            Flowable.from_iterable(range(2000)).pipe(dispatch).run()
            # Before the first turn nothing is known of the handler; after it a worker that runs is always good enough.
            most = max(worker.messages for worker in executor.statistics().workers)
        assert most > 1700

    run(scenario, seed)
