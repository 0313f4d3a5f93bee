"""What operators say about the schedulers of RxPY that they are given."""

from __future__ import annotations

from reactivex import abc

from rxwow.errors import InvalidArgumentError, RxwowError
from rxwow.streams.description import describe

__all__ = ["check_scheduler", "refusal"]


def check_scheduler(scheduler: object) -> None:
    """Refuse what is no scheduler.

    Raises:
        InvalidArgumentError: `scheduler` can't run an action.
    """
    if not isinstance(scheduler, abc.SchedulerBase):
        raise InvalidArgumentError("scheduler", scheduler, "a scheduler of RxPY, such as EventLoopScheduler()")


def refusal(operator: str, scheduler: abc.SchedulerBase, error: BaseException) -> RxwowError:
    """Return what ends a stream whose scheduler raised `error` when the operator gave it an action."""
    refused = RxwowError(
        f"{operator} could not schedule on {describe(scheduler)}, which raised {error!r}; dispose a scheduler after "
        "the streams on it have ended, or cancel them first"
    )
    refused.__cause__ = error
    return refused
