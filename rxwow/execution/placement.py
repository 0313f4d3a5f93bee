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

__all__ = ["WAKE_UP", "choose", "is_held", "place"]

_PARKED: Final = -1

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
    if len(mailboxes) <= together:
        _give(choose(workers, expected_turn), mailboxes)
        return
    loads = _Loads(workers, expected_turn)
    given: list[list[Mailbox]] = [[] for _ in workers]
    for start in range(0, len(mailboxes), together):
        part = mailboxes[start : start + together]
        given[loads.choose(len(part))] += part
    for worker, its in zip(workers, given, strict=True):
        if its:
            _give(worker, its)


def choose(workers: Sequence[Worker], expected_turn: float | None) -> Worker:
    """Return the worker for the next mailbox; the earlier one of two that are equal."""
    return workers[_Loads(workers, expected_turn).choose(1)]


def _give(worker: Worker, mailboxes: Sequence[Mailbox]) -> None:
    for mailbox in mailboxes:
        mailbox.worker = worker
    worker.submit(mailboxes)


class _Loads:
    """How many turns a new mailbox would wait for at each worker.

    Looked at while the workers run, so a choice may be a moment old; any choice is correct.
    """

    __slots__ = ("_loads", "_short")

    def __init__(self, workers: Sequence[Worker], expected_turn: float | None) -> None:
        self._loads = [_PARKED if worker.parked else worker.load() for worker in workers]
        most = 1.0 if expected_turn is None else max(1.0, WAKE_UP / max(expected_turn, 1e-9))
        self._short = [1.0 if most > 1 and is_held(worker) else most for worker in workers]
        """With fewer turns a worker's wait is a short one."""

    def choose(self, count: int) -> int:
        """Return the number of the worker for `count` more mailboxes, and count them as given to it."""
        loads = self._loads
        chosen = -1
        for number, load in enumerate(loads):
            if load != _PARKED and load < self._short[number]:
                chosen = number
                break
        if chosen < 0:
            # A parked one's number is the smallest.
            chosen = loads.index(min(loads))
        loads[chosen] = max(0, loads[chosen]) + count
        return chosen


def is_held(worker: Worker) -> bool:
    """Whether the turn that a worker runs is, or is expected to be, longer than a wake-up."""
    running = worker.turn_of
    if running is None:
        return False
    expected_turn = running.dispatch.expectation.turn
    if expected_turn is None or expected_turn >= WAKE_UP:
        return True
    # A handler that was always fast may be slow this time.
    return worker.platform.monotonic() - worker.turn_began >= WAKE_UP
