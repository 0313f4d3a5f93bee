"""ControlledTestScheduler: RxPY's TestScheduler on the clock of a controlled platform.

RxPY's own moves its clock to the next due action at once, and knows of no other thread: what workers do meanwhile comes
at whatever time the clock shows by then, or never. Here both have one clock, and it moves when nobody can go on.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple

from reactivex import abc, typing
from reactivex.disposable import SingleAssignmentDisposable
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.testing import TestScheduler

from rxwow.errors import InvalidArgumentError, UsageError
from rxwow.platform import current_platform
from rxwow.testing.choosers import Candidate, Chooser
from rxwow.testing.clock import nanoseconds
from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.strand import Strand

__all__ = ["ControlledTestScheduler"]

_TARGET: Final = "the scheduler"


class _Action(NamedTuple):
    """One action and when it is due, in nanoseconds of the platform's clock; the number keeps equals in order."""

    due: int
    number: int
    action: typing.ScheduledAction[Any]
    state: Any
    disposable: SingleAssignmentDisposable


class _Undivided:
    """A chooser that lets a thread which runs an action go on as long as it can, and else asks another.

    RxPY emits with locks held that the platform knows nothing of (`reactivex.hot` and `ops.merge` do). If another
    thread came between and asked for one, the run would stand still.
    """

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self.runner: Strand | None = None

    def choose(self, ready: Sequence[Candidate], running: Candidate) -> int:
        runner = self.runner
        if runner is None or runner not in ready or runner.pausing:
            return self._chooser.choose(ready, running)
        # Asked all the same, with nothing to choose: a Replay counts its choices.
        self._chooser.choose([runner], running)
        return ready.index(runner)


class _OneClock(VirtualTimeScheduler):
    """A virtual time scheduler whose time is the platform's; it stands after `TestScheduler` in the order of bases.

    Only the holder of the baton touches the fields.
    """

    def __init__(self, platform: ControlledPlatform | None = None) -> None:
        super().__init__()
        found = platform or current_platform()
        if not isinstance(found, ControlledPlatform):
            raise UsageError(
                "a ControlledTestScheduler shares the clock of a controlled run: make it in a `with "
                "DeterministicExecutor(...)` block or in a scenario of rxwow.testing.run, or give it the platform"
            )
        self._baton = found._baton
        self._undivided = self._baton._chooser = _Undivided(self._baton._chooser)
        self._origin = self._baton.clock.nanoseconds
        self._actions: list[_Action] = []
        self._numbers = count()
        self._is_running = False
        self._sleeper: Strand | None = None

    # What RxPY asks.

    @property
    def clock(self) -> float:
        """The time in seconds since the scheduler was made."""
        return (self._baton.clock.nanoseconds - self._origin) / 1e9

    @property
    def now(self) -> datetime:
        """The time as a `datetime`, which is 1970 when the scheduler is made."""
        return self.to_datetime(self.clock)

    def schedule(self, action: typing.ScheduledAction[Any], state: Any = None) -> abc.DisposableBase:
        """Run `action` when the thread that runs this scheduler gets to it."""
        return self._put(self._baton.clock.nanoseconds, action, state)

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: typing.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        """Run `action` in `duetime` seconds."""
        return self._put(self._baton.clock.nanoseconds + nanoseconds(self.to_seconds(duetime)), action, state)

    def schedule_absolute(
        self, duetime: typing.AbsoluteTime, action: typing.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        """Run `action` when `clock` is `duetime` seconds, or at once if it was already."""
        return self._put(self._origin + nanoseconds(self.to_seconds(duetime)), action, state)

    def start(self) -> Any:
        """Run all actions, and let the other threads run, until nothing more is due.

        It is what `TestScheduler.start` ends with.
        """
        self._run(None)

    def stop(self) -> None:
        """Let the running `start` or `advance_to` return after the current action."""
        self._is_running = False

    def advance_to(self, time: typing.AbsoluteTime) -> None:
        """Run what is due until a time, that time included, and let the other threads run as far as they get by then.

        Args:
            time: what `clock` shows afterwards.

        Raises:
            InvalidArgumentError: the time has passed.
        """
        until = self._origin + nanoseconds(self.to_seconds(time))
        if until < self._baton.clock.nanoseconds:
            raise InvalidArgumentError("time", time, f"a time to come; it is {self.clock:g} already")
        self._run(until)

    def advance_by(self, time: typing.RelativeTime) -> None:
        """Run what is due within the next `time` seconds; see `advance_to`."""
        self.advance_to(self.clock + self.to_seconds(time))

    def sleep(self, time: typing.RelativeTime) -> None:
        """Let `time` seconds pass without running an action; the other threads run."""
        now = self._baton.clock.nanoseconds
        self._baton.block("sleeps", None, now + nanoseconds(self.to_seconds(time)))

    # Inside.

    def _put(self, due: int, action: typing.ScheduledAction[Any], state: Any) -> abc.DisposableBase:
        me = self._baton.holder()
        disposable = SingleAssignmentDisposable()
        heappush(self._actions, _Action(due, next(self._numbers), action, state, disposable))
        sleeper = self._sleeper
        if sleeper is not None and sleeper is not me:
            self._sleeper = None
            self._baton.roster.wake([sleeper])
            self._baton.after("schedules an action of", _TARGET)
        return disposable

    def _run(self, until: int | None) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._is_running:
                now = self._baton.clock.nanoseconds
                if self._actions and self._actions[0].due <= now:
                    self._invoke_next()
                    continue
                # What the other threads do now may be to schedule; the clock is for when all of them are parked.
                if self._sleep_until(now):
                    continue
                due = self._next_due(until)
                if due is None:
                    return
                self._sleep_until(due)
        finally:
            self._is_running = False

    def _invoke_next(self) -> None:
        self._baton.approach("runs an action of", _TARGET)
        item = heappop(self._actions)
        if item.disposable.is_disposed:
            return
        self._baton.note("runs an action of", _TARGET)
        with self._going_on():
            item.disposable.disposable = self.invoke_action(item.action, item.state)

    @contextmanager
    def _going_on(self) -> Generator[None]:
        outer, self._undivided.runner = self._undivided.runner, self._baton.holder()
        try:
            yield
        finally:
            self._undivided.runner = outer

    def _next_due(self, until: int | None) -> int | None:
        """Return the next time at which there may be something to do, now that nobody can go on; None for never."""
        if until is not None and until <= self._baton.clock.nanoseconds:
            return None
        if self._actions:
            dues = [self._actions[0].due]
        else:
            dues = [strand.due for strand in self._baton.roster.others if strand.due is not None]
        if until is not None:
            dues.append(until)
        return min(dues, default=None)

    def _sleep_until(self, due: int) -> bool:
        """Let the other threads run until a time; return whether one of them scheduled something before."""
        self._sleeper = self._baton.holder()
        try:
            return self._baton.block("waits for what is due to", _TARGET, due)
        finally:
            self._sleeper = None


class ControlledTestScheduler(TestScheduler, _OneClock):
    """RxPY's `TestScheduler` with one clock for its actions and for the workers of a deterministic executor.

    `start`, `create_hot_observable`, `create_cold_observable` and `create_observer` are RxPY's. While `start` or
    `advance_to` runs, the workers run too, in an order drawn from the run's seed; the clock moves, to whatever is due
    next, when all of them are parked. So a handler that waits, by `asyncio.sleep`, by a retry's delay or by an
    Observable of this scheduler, has its result at the virtual time at which it is due, and the same seed gives the
    same messages. What is due at the same time on several threads comes in any order, which is the seed's too.

    `start` returns when nothing is due any more, on the workers either; use `advance_to` for what never ends. An action
    that is repeated without end at one time fails the run with a `LivelockError`, where RxPY moves its clock by a
    second. No other thread comes between the steps of an action. But where several workers emit into an operator of
    RxPY that has a lock while it emits, as `ops.merge` of two dispatches, the run may fail with a `StalledError`.

    Args:
        platform: the controlled platform of the run; `current_platform()` if None.

    Raises:
        UsageError: the platform is not a controlled one, as outside of a run.

    >>> import asyncio
    >>> from reactivex.testing.reactivetest import ReactiveTest
    >>> from rxwow import keyed_dispatch
    >>> from rxwow.testing import DeterministicExecutor
    >>> on_next = ReactiveTest.on_next
    >>> async def charge(order):
    ...     await asyncio.sleep(30)
    ...     return order
    >>> with DeterministicExecutor(workers=2, seed=5) as executor:
    ...     scheduler = ControlledTestScheduler()
    ...     orders = scheduler.create_hot_observable(on_next(210, "ann 1"), on_next(220, "ann 2"))
    ...     dispatch = keyed_dispatch(lambda order: order.split()[0], charge, executor=executor)
    ...     print(scheduler.start(lambda: orders.pipe(dispatch)).messages)
    [OnNext(ann 1)@240.0, OnNext(ann 2)@270.0]
    """
