"""What an operator that waits needs: its seconds checked, a scheduler for its timers, and that scheduler's clock."""

from __future__ import annotations

import math
from collections.abc import Callable

from reactivex import abc
from reactivex.scheduler import ImmediateScheduler, TimeoutScheduler, TrampolineScheduler
from reactivex.scheduler.scheduler import Scheduler

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform

__all__ = ["check_scheduler", "check_seconds", "clock_of", "scheduler_of_timers"]


def check_seconds(argument: str, value: object) -> None:
    """Refuse what is no number of seconds.

    Raises:
        InvalidArgumentError: `value` is not a number, is negative, or is not finite.

    >>> check_seconds("delay", 0.5)
    >>> check_seconds("delay", -1)
    Traceback (most recent call last):
    rxwow.errors.InvalidArgumentError: delay must be a number of seconds of at least 0, not -1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InvalidArgumentError(argument, value, "a number of seconds of at least 0")


def check_scheduler(scheduler: object) -> None:
    """Refuse what is neither a scheduler of RxPY nor None.

    Raises:
        InvalidArgumentError: it is neither.

    >>> check_scheduler(TimeoutScheduler.singleton())
    """
    if scheduler is not None and not isinstance(scheduler, abc.SchedulerBase):
        raise InvalidArgumentError("scheduler", scheduler, "a scheduler of RxPY or None")


def scheduler_of_timers(chosen: abc.SchedulerBase | None, subscribed: abc.SchedulerBase | None) -> abc.SchedulerBase:
    """Return the scheduler for an operator's timers.

    Args:
        chosen: the operator's own argument; it is taken as it is.
        subscribed: the subscribe-time scheduler. One that waits on the calling thread is of no use to a timer, as it
            would hold up the very source that it watches.

    >>> from reactivex.scheduler import CurrentThreadScheduler
    >>> scheduler_of_timers(None, CurrentThreadScheduler.singleton()) is TimeoutScheduler.singleton()
    True
    """
    if chosen is not None:
        return chosen
    if subscribed is None or isinstance(subscribed, ImmediateScheduler | TrampolineScheduler):
        return TimeoutScheduler.singleton()
    return subscribed


def clock_of(scheduler: abc.SchedulerBase, platform: Platform) -> Callable[[], float]:
    """Return what tells the seconds that have passed on a scheduler.

    RxPY's schedulers say that it is the time of day, which may be set back or forward, while their timers run on a
    monotonic clock. So only a scheduler that has a time of its own, such as a `VirtualTimeScheduler`, is asked for it.

    >>> from reactivex.testing import TestScheduler
    >>> scheduler = TestScheduler()
    >>> clock, began = clock_of(scheduler, Platform()), clock_of(scheduler, Platform())()
    >>> scheduler.advance_by(5)
    >>> clock() - began
    5.0
    """
    if isinstance(scheduler, Scheduler) and type(scheduler).now is not Scheduler.now:
        own = scheduler

        def seconds() -> float:
            return own.now.timestamp()

        return seconds
    return platform.monotonic
