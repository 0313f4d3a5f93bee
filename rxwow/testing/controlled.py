"""A platform whose threads run one at a time, in an order drawn from a seed, on virtual time."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from reactivex.internal.constants import UTC_ZERO

from rxwow import platform as platform_module
from rxwow.platform import Platform
from rxwow.testing.baton import Baton
from rxwow.testing.choosers import Chooser, drawn_from
from rxwow.testing.clock import nanoseconds
from rxwow.testing.event import ControlledEvent
from rxwow.testing.failures import LivelockError, StalledError
from rxwow.testing.leftovers import close_coroutines, silence
from rxwow.testing.lock import ControlledLock
from rxwow.testing.loop import ControlledEventLoop
from rxwow.testing.pool import ControlledThreadPool
from rxwow.testing.report import annotate, failure_of
from rxwow.testing.schedule import Step
from rxwow.testing.thread import ControlledThread

__all__ = ["ControlledPlatform"]

_Result = TypeVar("_Result")

_MOST_GLANCES = 100_000
"""How often the time may be read between two steps: it doesn't move, so a loop that only reads it would never end."""


class ControlledPlatform(Platform):
    """Locks, events, threads, loops and a clock whose every interleaving follows from a seed; for one run.

    Args:
        seed: what the order of the threads is drawn from.
        chooser: decides the order in place of the seed.
        step_limit: the number of steps after which the run fails.
        patience: seconds of real time after which a thread that takes no step is taken to be stuck.

    >>> platform = ControlledPlatform(seed=1)
    >>> def scenario(platform: ControlledPlatform) -> float:
    ...     platform.event().wait(timeout=3600)
    ...     return platform.monotonic()
    >>> platform.run(scenario)
    3600.0
    """

    def __init__(
        self, seed: int = 0, *, chooser: Chooser | None = None, step_limit: int = 100_000, patience: float = 10.0
    ) -> None:
        self.seed = seed if chooser is None else None
        self.random = Random(~seed)
        """For the scenario's own choices: it follows from the seed and is independent of the order of the threads."""
        self._baton = Baton(chooser or drawn_from(seed), step_limit, patience)
        self._loops: list[ControlledEventLoop] = []
        self._made: Counter[str] = Counter()
        self._glances = (0, 0)
        self._used = False
        self._collecting = False

    @property
    def schedule(self) -> Sequence[Step]:
        """All steps so far."""
        return self._baton.schedule

    @property
    def choices(self) -> Sequence[str]:
        """The name of the thread that went on, each time that there was a choice; `Replay` repeats them."""
        return self._baton.choices

    def lock(self) -> ControlledLock:
        return ControlledLock(self._baton, self._number("lock"))

    def event(self) -> ControlledEvent:
        return ControlledEvent(self._baton, self._number("event"))

    def thread(self, target: Callable[[], object], name: str) -> ControlledThread:
        context = Context()
        context.run(platform_module._current.set, self)
        return ControlledThread(self._baton, target, name, context, self._number("thread"))

    def event_loop(self) -> ControlledEventLoop:
        loop = ControlledEventLoop(self._baton, self._number("loop"), self._pool)
        self._loops.append(loop)
        return loop

    def now(self) -> datetime:
        """Return the time of day: the virtual clock starts with the year 1970."""
        return UTC_ZERO + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        steps, glances = self._glances
        now = len(self._baton.schedule)
        self._glances = (now, glances + 1 if steps == now else 1)
        if glances > _MOST_GLANCES:
            self._baton.holder()
            self._baton.fail(
                LivelockError("a thread reads the time over and over, and takes no step: time stands still")
            )
        return self._baton.clock.seconds

    def pause(self) -> None:
        self._baton.pause()

    def point(self, name: str) -> None:
        self._baton.after("is at", name)

    def sleep(self, seconds: float) -> None:
        """Keep the calling thread busy for some virtual time, as a long computation or a blocking call would."""
        self._baton.block(f"sleeps for {seconds:g} s", None, self._baton.clock.nanoseconds + nanoseconds(seconds))

    def wait_for(self, future: Future[Any], timeout: float | None = None) -> None:
        """Wait, in virtual time, until a `concurrent.futures.Future` is done; its own `result` would hang the run.

        Args:
            future: what to wait for.
            timeout: seconds to wait at most; None to wait without end.
        """
        if not future.done():
            done = self.event()
            future.add_done_callback(lambda _: done.set())
            done.wait(timeout)

    def run(self, scenario: Callable[[ControlledPlatform], _Result]) -> _Result:
        """Call a scenario on the calling thread, as the main thread of a run.

        When the scenario returns, all other threads are ended where they are: join those that should finish.

        Args:
            scenario: is called with this platform.

        Returns:
            What the scenario returned.

        Raises:
            ScheduleFailure: if the scenario or a thread of it raised, or if the run could not go on.
            RuntimeError: if the platform has had its run.
        """
        results: list[_Result] = []
        raised: BaseException | None = None
        self.begin()
        try:
            results.append(copy_context().run(self._call, scenario))
        except BaseException as error:  # noqa: BLE001 - raised by `end`, with the schedule
            raised = error
        self.end(raised)
        return results[0]

    def begin(self) -> None:
        """Make the calling thread the main thread of a run, which must be brought to its `end`; `run` does both.

        Raises:
            RuntimeError: if the platform has had its run.
        """
        if self._used:
            raise RuntimeError("a ControlledPlatform serves one run; make one for each")
        self._used = True
        self._collecting = gc.isenabled()
        # A collection comes at a moment that depends on all that was done before, and what it finds may take steps.
        gc.disable()
        self._baton.enter()

    def end(self, raised: BaseException | None = None) -> None:
        """End all threads but the calling one, and the run.

        Args:
            raised: what the scenario raised.

        Raises:
            ScheduleFailure: if the scenario or a thread of it raised, or if the run could not go on.
        """
        try:
            self._end_run(raised)
        finally:
            if self._collecting:
                gc.enable()

    def _end_run(self, raised: BaseException | None) -> None:
        threads = self._baton.roster.describe()
        unended = self._end(raised)
        # What went wrong first; the main thread may have been told no more than to end.
        failure = self._baton.failure or raised
        if failure is None and unended:
            failure = StalledError(f"the threads {', '.join(unended)} catch what is to end them, and go on")
        if failure is None:
            return
        thread = self._baton.failed_in or "main"
        if thread == "main" and not isinstance(failure, Exception):
            annotate(failure, self.seed, self.schedule, threads)
            raise failure
        raise failure_of(failure, thread, self.seed, self.schedule, self.choices, threads) from failure

    def _call(self, scenario: Callable[[ControlledPlatform], _Result]) -> _Result:
        platform_module._current.set(self)
        return scenario(self)

    def _end(self, raised: BaseException | None) -> list[str]:
        with silence():
            unended = self._baton.stop()
            for loop in self._loops:
                loop.abandon()
            close_coroutines(raised)
            close_coroutines(self._baton.failure)
        return unended

    def _pool(self) -> ControlledThreadPool:
        return ControlledThreadPool(self, name="executor")

    def _number(self, kind: str) -> int:
        self._made[kind] += 1
        return self._made[kind]
