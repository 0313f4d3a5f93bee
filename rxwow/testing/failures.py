"""What a controlled run can end with, other than its result::

    AssertionError
    ├── NondeterminismError             the same choices gave another run: not all of it is under control
    ├── UnfinishedExplorationError      some schedules were not run; those that were have passed
    ├── ScheduleFailure                 a run failed; its cause is one of those below, or what the tested code raised
    └── Verdict
        ├── DeadlockError               no thread can run and no timer is due
        ├── LivelockError               the threads run, and get nowhere
        ├── LockMisuseError             a lock was released by a thread that doesn't hold it
        ├── StalledError                a thread waits for something that the platform doesn't control
        └── UncontrolledThreadError     a thread that the platform didn't make used one of its locks, events or loops

A verdict is nothing to handle: the run is over, and the thread that gets one can only end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rxwow.testing.exhaustive import Exploration
    from rxwow.testing.schedule import Step

__all__ = [
    "DeadlockError",
    "LivelockError",
    "LockMisuseError",
    "NondeterminismError",
    "ScheduleFailure",
    "StalledError",
    "StopThread",
    "UncontrolledThreadError",
    "UnfinishedExplorationError",
    "Verdict",
]


class Verdict(AssertionError):
    """The platform found that the run can't, or must not, go on. Raised in the main thread."""


class DeadlockError(Verdict):
    """No thread can run and no timer is due; the message says who waits for what."""


class LivelockError(Verdict):
    """The threads run, and get nowhere: too many steps, or too many looks at a clock that stands still."""


class LockMisuseError(Verdict):
    """A lock was released by a thread that doesn't hold it."""


class StalledError(Verdict):
    """A thread took no step for long in real time, or would not end."""


class UncontrolledThreadError(Verdict):
    """A thread that the platform didn't make used one of its locks, events, threads or loops."""

    def __init__(self, thread: str, *, running: bool) -> None:
        if running:
            remedy = "it is not controlled: start it with platform.thread(...), or use a ControlledThreadPool"
        else:
            remedy = "outside of a run: use them in the scenario that the run calls, and in the threads that it starts"
        message = f"the thread {thread!r} used a controlled lock, event, thread or loop; {remedy}"
        super().__init__(message)


class ScheduleFailure(AssertionError):
    """A run failed under one schedule; `__cause__` is what went wrong.

    `run(scenario, seed=failure.seed or 0, chooser=Replay(failure.choices))` gives the same run again.

    Attributes:
        seed: the seed that gave the run, or the one that this was shrunk from; None if a chooser was given.
        schedule: every step of the run, in order.
        thread: the name of the thread in which it went wrong.
        choices: the name of the thread that went on, each time that there was a choice.
        threads: a line for each thread of how it stood when it went wrong.
    """

    def __init__(
        self,
        message: str,
        seed: int | None,
        schedule: Sequence[Step],
        thread: str,
        choices: Sequence[str] = (),
        threads: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.seed = seed
        self.schedule = schedule
        self.thread = thread
        self.choices = choices
        self.threads = threads


class NondeterminismError(AssertionError):
    """The same choices gave another run, so nothing can be said of all schedules of the scenario."""

    def __init__(self, difference: str) -> None:
        super().__init__(
            f"{difference}. Something that the platform doesn't control decides what the scenario does: real time, "
            "random numbers (use platform.random), the order of a set or of object ids, or what an earlier run has "
            "left behind (the scenario must make anew all that it changes)"
        )


class UnfinishedExplorationError(AssertionError):
    """All schedules that were run have passed, and there are more.

    Attributes:
        exploration: how far it came.
    """

    def __init__(self, exploration: Exploration) -> None:
        runs, most = exploration.runs, exploration.preemptions
        done = f"all of those with fewer than {most} preemptions and " if most else ""
        advice = f"preemptions={most - 1} for those only, " if most else ""
        super().__init__(
            f"gave up after {runs} schedules, none of which failed: {done}some of those with {most} preemptions. "
            f"Make the scenario smaller, or pass {advice}a larger most_runs, or allow_unfinished=True"
        )
        self.exploration = exploration


class StopThread(BaseException):
    """Raised in each thread that is left when a run is over, at its next step, so that it ends.

    It is no Exception, so that a handler's failure policy in the code under test doesn't take it for a failure.
    """
