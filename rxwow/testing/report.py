"""What a failed run says: the error, the threads as they stood, the last steps, and how to see it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rxwow.testing.failures import DeadlockError, ScheduleFailure
from rxwow.testing.schedule import Step, render, switches

__all__ = ["annotate", "failure_of", "shrunk_failure", "unshrunk_failure"]

_SHOWN = 60
_SHOWN_OF_SHRUNK = 200


def failure_of(
    error: BaseException,
    thread: str,
    seed: int | None,
    schedule: Sequence[Step],
    choices: Sequence[str],
    threads: Sequence[str],
) -> ScheduleFailure:
    """Return the failure to raise from an error.

    Args:
        error: what went wrong.
        thread: the name of the thread in which it went wrong.
        seed: the run's seed; None if it had a chooser of its own.
        schedule: the run's steps.
        choices: the name of the thread that went on at each choice.
        threads: a line for each thread of how it stood.
    """
    message = f"{_head(error, thread, schedule, threads)}\n{_tail(seed, schedule)}"
    return ScheduleFailure(message, seed, list(schedule), thread, list(choices), threads)


def shrunk_failure(
    failure: ScheduleFailure, origin: ScheduleFailure, departures: Mapping[int, str], runs: int
) -> ScheduleFailure:
    """Return the failure to raise for the shortest schedule that was found; it has the cause of that one.

    Args:
        failure: the failure under the shortest schedule.
        origin: the failure that it was shrunk from.
        departures: the choices in which the shortest schedule is not the usual one.
        runs: how many runs it took.
    """
    seed = origin.seed
    given = "" if seed is None else f"seed={seed}, "
    long, short = (f"{len(one.schedule)} steps and {switches(one.schedule)} switches" for one in (origin, failure))
    by_hand = f"rxwow.testing.run(scenario, {given}chooser=rxwow.testing.Replay({dict(departures)}))"
    lines = [
        _head(failure.__cause__, failure.thread, failure.schedule, failure.threads),
        f"shrunk from {long} to {short}, in {runs} runs",
        *_steps(failure.schedule, _SHOWN_OF_SHRUNK),
        f"to see it again: {by_hand}",
        *([] if seed is None else [f"to see it unshrunk: rxwow.testing.run(scenario, seed={seed})"]),
    ]
    return _again(failure, "\n".join(lines), seed)


def unshrunk_failure(failure: ScheduleFailure, reason: str) -> ScheduleFailure:
    """Return the failure to raise for one that can't be shrunk.

    Args:
        failure: what was to be shrunk.
        reason: why it can't be.
    """
    return _again(failure, f"{failure}\nnot shrunk: {reason}", failure.seed)


def annotate(error: BaseException, seed: int | None, schedule: Sequence[Step], threads: Sequence[str]) -> None:
    """Add the schedule to an error that must leave the run as it is, such as a test's time limit."""
    error.add_note("\n".join([*_stand(threads), _tail(seed, schedule)]))


def _again(failure: ScheduleFailure, message: str, seed: int | None) -> ScheduleFailure:
    again = ScheduleFailure(message, seed, failure.schedule, failure.thread, failure.choices, failure.threads)
    again.__cause__ = failure.__cause__
    return again


def _head(error: BaseException | None, thread: str, schedule: Sequence[Step], threads: Sequence[str]) -> str:
    head = f"{type(error).__name__} in thread {thread!r} after {len(schedule)} steps: {error}"
    # A deadlock has named the threads already, as they are its whole point.
    return head if isinstance(error, DeadlockError) else "\n".join([head, *_stand(threads)])


def _stand(threads: Sequence[str]) -> list[str]:
    return ["the threads when it went wrong:", *threads] if threads else []


def _tail(seed: int | None, schedule: Sequence[Step]) -> str:
    given = "chooser=rxwow.testing.Replay(failure.choices)" if seed is None else f"seed={seed}"
    return "\n".join([*_steps(schedule, _SHOWN), f"to see it again: rxwow.testing.run(scenario, {given})"])


def _steps(schedule: Sequence[Step], shown: int) -> list[str]:
    first = max(0, len(schedule) - shown)
    which = f"the last {shown} of {len(schedule)} steps" if first else "all steps"
    now = f", from {schedule[first].nanoseconds / 1e9:g} s of virtual time on" if first else ""
    return [f"{which} (thread, what it did, where){now}:", *render(schedule[first:], first + 1)]
