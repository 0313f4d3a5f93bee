"""What a failed run says: the error, the threads as they stood, the last steps, and how to see it again."""

from __future__ import annotations

from collections.abc import Sequence

from rxwow.testing.failures import DeadlockError, ScheduleFailure
from rxwow.testing.schedule import Step, render

__all__ = ["annotate", "failure_of"]

_SHOWN = 60


def failure_of(
    error: BaseException, thread: str, seed: int | None, schedule: Sequence[Step], threads: Sequence[str]
) -> ScheduleFailure:
    """Return the failure to raise from an error.

    Args:
        error: what went wrong.
        thread: the name of the thread in which it went wrong.
        seed: the run's seed; None if it had a chooser of its own.
        schedule: the run's steps.
        threads: a line for each thread of how it stood.
    """
    head = f"{type(error).__name__} in thread {thread!r} after {len(schedule)} steps: {error}"
    # A deadlock has named the threads already, as they are its whole point.
    shown = () if isinstance(error, DeadlockError) else threads
    return ScheduleFailure(f"{head}\n{_tail(seed, schedule, shown)}", seed, list(schedule), thread)


def annotate(error: BaseException, seed: int | None, schedule: Sequence[Step], threads: Sequence[str]) -> None:
    """Add the schedule to an error that must leave the run as it is, such as a test's time limit."""
    error.add_note(_tail(seed, schedule, threads))


def _tail(seed: int | None, schedule: Sequence[Step], threads: Sequence[str]) -> str:
    again = "with the same chooser" if seed is None else f"rxwow.testing.run(scenario, seed={seed})"
    return "\n".join(
        [
            *(["the threads when it went wrong:"] if threads else []),
            *threads,
            f"the last {min(_SHOWN, len(schedule))} steps (virtual time, thread, what it did, where):",
            *render(schedule[-_SHOWN:]),
            f"to see it again: {again}",
        ]
    )
