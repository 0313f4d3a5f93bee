"""The choice of worker for a new mailbox.

A running worker that is about to be free is the best choice: a short wait behind it is cheaper than waking another.
Else a parked worker is woken; else the one with the fewest mailboxes takes it. What counts as a short wait is less than
a wake-up, by the moving average of the dispatch's own turns; a dispatch that has no average yet is taken for slow. It
is no short wait behind a turn of another dispatch that is slow, nor behind one that has lasted for longer by now.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rxwow.execution.mailbox import Mailbox
    from rxwow.execution.worker import Worker

__all__ = ["WAKE_UP", "choose", "place"]

_HAS_GIL: Final = getattr(sys, "_is_gil_enabled", lambda: True)()

WAKE_UP: Final = 0.000_5 if _HAS_GIL else 0.000_03
"""Seconds that it takes until a woken worker has done anything, while another is busy.

The system needs 30 microseconds to wake a thread. Under the GIL that thread then waits until the busy one lets go of
the interpreter, which one that computes does every 5 ms (`sys.getswitchinterval`); a tenth of that is a compromise
between handlers that compute and handlers that wait for the system.
"""


def place(workers: Sequence[Worker], mailboxes: Sequence[Mailbox], expected_turn: float | None) -> None:
    """Give each new mailbox to a worker, for as long as it exists.

    Mailboxes whose turns together are expected to take less than a wake-up stay together: a choice costs more than such
    a turn, and a second worker would only fight with the first for the interpreter.

    Args:
        workers: to choose from.
        mailboxes: new ones, of one dispatch.
        expected_turn: seconds that a turn of that dispatch is expected to take, if known.
    """
    together = 1 if expected_turn is None else max(1, int(WAKE_UP / max(expected_turn, 1e-9)))
    for start in range(0, len(mailboxes), together):
        part = mailboxes[start : start + together] if together < len(mailboxes) else mailboxes
        worker = choose(workers, expected_turn)
        for mailbox in part:
            mailbox.worker = worker
        worker.submit(part)


def choose(workers: Sequence[Worker], expected_turn: float | None) -> Worker:
    """Return the worker for the next mailbox; the earlier one of two that are equal.

    Loads are looked at while workers run, so the choice may be a moment old; any choice is correct.
    """
    parked: Worker | None = None
    fewest: Worker | None = None
    fewest_load = 0
    for worker in workers:
        if worker.parked:
            parked = parked or worker
            continue
        load = worker.load()
        if not load or (expected_turn is not None and load * expected_turn < WAKE_UP and not _is_held(worker)):
            return worker
        if fewest is None or load < fewest_load:
            fewest, fewest_load = worker, load
    chosen = parked or fewest
    assert chosen is not None, "an executor has at least one worker"
    return chosen


def _is_held(worker: Worker) -> bool:
    """Whether the turn that a worker runs is, or is expected to be, longer than a wake-up."""
    running = worker.turn_of
    if running is None:
        return False
    expected_turn = running.dispatch.expected_turn
    if expected_turn is None or expected_turn >= WAKE_UP:
        return True
    # A handler that was always fast may be slow this time.
    return worker.platform.monotonic() - worker.turn_began >= WAKE_UP
