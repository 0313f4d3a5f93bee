"""What the moving parts say of themselves: frozen snapshots, read by logs, metrics and displays."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

__all__ = ["DispatchStatistics", "ExecutorStatistics", "WindowStatistics", "WorkerStatistics"]


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """The books of one window; `admitted = succeeded + skipped + failed + discarded + in_flight` at all times."""

    limit: int
    """Most messages that may be in flight."""
    batch: int
    """Fewest messages that are asked for at once, but for the first request, which is the limit."""
    requested: int
    """Messages asked for and not yet received."""
    in_flight: int
    """Messages received whose handler has not finished, or whose result was not taken."""
    peak_in_flight: int
    """Most messages that were in flight at a time."""
    admitted: int
    """Messages received in all."""
    succeeded: int
    """Messages whose handler finished and whose result was taken, or dropped after the subscriber had gone."""
    skipped: int
    """Messages whose handler failed and whose failure policy said to go on."""
    failed: int
    """Messages whose failure ended the dispatch, or came after its end."""
    discarded: int
    """Messages that no handler finished, because the dispatch ended first."""


@dataclass(frozen=True, slots=True)
class DispatchStatistics:
    """What one dispatch is doing; workers run on meanwhile, so a message that moves is seen on one side of its step."""

    name: str
    """The dispatch's name."""
    window: WindowStatistics
    """Its books."""
    mailboxes: int
    """Keys that have unfinished messages."""
    peak_mailboxes: int
    """Most keys that had unfinished messages at a time; keys of cheap messages that were handled together count for
    each time that they came."""
    mailboxed: int
    """Messages that wait in a mailbox for their turn, or for another attempt."""
    waiting: int
    """Messages whose handler waits for an awaitable, a future or an Observable."""
    untaken: int
    """Messages whose handler has finished and whose result was not taken yet, or is just being taken."""
    deepest: tuple[tuple[Hashable, int], ...]
    """The keys with the most messages queued, at most ten, each with how many."""
    expected_turn: float | None
    """Seconds that a turn is expected to take: a moving average of the last ones; None before the first."""
    closed: bool
    """Whether the dispatch has ended."""

    @property
    def running(self) -> int:
        """Messages whose handler runs, or whose result is being settled: those in flight that are nowhere else."""
        return max(0, self.window.in_flight - self.mailboxed - self.waiting - self.untaken)


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """What one worker is doing."""

    name: str
    """The worker's, and its thread's, name."""
    started: bool
    """Whether its thread was started; it is with the first message it is given."""
    parked: bool
    """Whether it has nothing to run and sleeps in its loop."""
    queued: int
    """Mailboxes that wait for their turn."""
    turns: int
    """Turns begun in all."""
    messages: int
    """Messages that its turns have begun in all; one that is tried again counts each time."""
    wakes: int
    """How often it was woken from its sleep by new messages."""


@dataclass(frozen=True, slots=True)
class ExecutorStatistics:
    """What an executor is doing."""

    name: str
    """The executor's name."""
    state: str
    """`open`, `draining` or `closed`."""
    workers: tuple[WorkerStatistics, ...]
    """Its workers."""
    dispatches: tuple[DispatchStatistics, ...]
    """The dispatches that have not ended."""

    @property
    def in_flight(self) -> int:
        """Messages in flight in all dispatches that have not ended."""
        return sum(dispatch.window.in_flight for dispatch in self.dispatches)
