"""The baton: of all threads of a run, the one that holds it runs, and at each step it may go to another.

A step is whatever one thread does and another can see or wait for. The threads are real ones, each asleep on a lock of
its own, its gate; to pass the baton is to open the other's gate and to sleep on one's own.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable
from typing import NoReturn

from rxwow.testing.choosers import Chooser
from rxwow.testing.failures import (
    DeadlockError,
    LivelockError,
    StalledError,
    StopThread,
    UncontrolledThreadError,
    Verdict,
)
from rxwow.testing.roster import Roster
from rxwow.testing.schedule import CLOCK, Step, caller
from rxwow.testing.strand import Strand

__all__ = ["Baton"]

_MOST_REFUSALS = 1000
"""How often a thread may catch what is to end it, and go on, before it is given up."""


class Baton:
    """Decides which thread runs, keeps the schedule, and ends the run when no thread can go on.

    All fields are touched by the holder only, except `failure`, `failed_in` and `halting`, which an uncontrolled thread
    may set as well: `halting` last, once, and the holder looks at it at its next step.

    Args:
        chooser: decides who goes on at each step.
        step_limit: the number of steps after which the run fails.
        patience: seconds of real time without a step after which the main thread takes the running one to be stuck.
    """

    def __init__(self, chooser: Chooser, step_limit: int, patience: float) -> None:
        self.schedule: list[Step] = []
        self.choices: list[str] = []
        self.failure: BaseException | None = None
        self.failed_in = ""
        self.halting = False
        self._chooser = chooser
        self._step_limit = step_limit
        self._patience = patience
        self._main = self._running = Strand("main")
        self.roster = Roster(self._main)
        self.clock = self.roster.clock
        self._lost: list[Strand] = []
        self._told = False
        self._stopping = False

    # -- what a thread does ------------------------------------------------------------------------------------------

    def holder(self) -> Strand:
        """Return the calling thread's strand; raise if it doesn't hold the baton, or if the run is over."""
        me = self._running
        if threading.get_ident() != me.ident:
            self._refuse_stranger()
        if self.halting:
            self._refuse(me)
        return me

    def before(self, verb: str, subject: object = None) -> None:
        """Let other threads run, then record the step that the caller is about to take."""
        self.approach(verb, subject)
        self.note(verb, subject)

    def after(self, verb: str, subject: object = None) -> None:
        """Record the step that the caller has taken, then let other threads run."""
        self.note(verb, subject)
        self.give_way()

    def approach(self, verb: str, subject: object = None) -> None:
        """Let other threads run before a step whose outcome depends on them; the caller notes it when it knows."""
        me = self.holder()
        me.step = Step(self.clock.nanoseconds, me.name, verb, subject, caller())
        self.give_way()

    def note(self, verb: str, subject: object = None) -> None:
        """Record a step of the calling thread."""
        me = self.holder()
        me.step = Step(self.clock.nanoseconds, me.name, verb, subject, caller())
        self.schedule.append(me.step)
        if len(self.schedule) > self._step_limit:
            self.fail(LivelockError(f"the run has not ended after {self._step_limit} steps"))

    def give_way(self) -> None:
        """Let the chooser decide who goes on."""
        if len(self.roster.ready) > 1:
            me = self._running
            self._switch(me, self._choose(me))

    def pause(self) -> None:
        """Let other threads run; when all that can run only pause, time goes on a little, or a spin might never end."""
        self.note("pauses")
        me = self._running
        me.pausing = True
        if all(strand.pausing for strand in self.roster.ready):
            self._tell_time(self.roster.creep())
        self.give_way()
        me.pausing = False

    def block(self, verb: str, subject: object, due: int | None) -> bool:
        """Wait until another thread wakes the caller, or until a time.

        Args:
            verb: how the caller waits, for the schedule.
            subject: what it waits for.
            due: the virtual time in nanoseconds to wait until; None to wait without end.

        Returns:
            True if it was woken, False if the time came first.
        """
        self.note(verb, subject)
        me = self._running
        self.roster.block(me, due)
        self._switch(me, self._next(me))
        return me.woken

    # -- how threads come and go -------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make the calling thread the run's main thread; it holds the baton."""
        self._main.ident = threading.get_ident()
        self.roster.ready.append(self._main)

    def begin(self, strand: Strand, thread: threading.Thread) -> None:
        """Start a thread whose body calls `arrive` first and `end` last, on all ways out."""
        self.holder()
        strand.thread = thread
        self.roster.add(strand)
        thread.start()

    def arrive(self, strand: Strand) -> bool:
        """Wait, on a new thread, for its first turn; return False if the run was over before."""
        strand.ident = threading.get_ident()
        self._sleep(strand)
        return not self.halting

    def end(self, me: Strand, waiting: Iterable[Strand]) -> None:
        """Pass the baton on for the last time; `waiting` are those that wait for this end."""
        me.ended = True
        if me in self._lost:
            return
        following = self._main
        if not self.halting:
            self.schedule.append(Step(self.clock.nanoseconds, me.name, "ends", None, None))
            self.roster.ready.remove(me)
            self.roster.wake(waiting)
            following = self._next(me)
        self._running = following
        following.gate.release()

    # -- how a run ends ----------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> NoReturn:
        """End the run with an error, which is raised in the main thread."""
        self.report(error)
        self._refuse(self._running)

    def report(self, error: BaseException, thread: str | None = None) -> None:
        """Let the run end with an error at the next step. Of several the first counts."""
        if self.failure is None and not self._stopping:
            self.failure = error
            self.failed_in = thread or self._running.name
            self.halting = True

    def stop(self) -> list[str]:
        """End every thread that is left, one by one; called once, on the main thread, when it has its result.

        Returns:
            The names of the threads that could not be ended.
        """
        self._stopping = self.halting = True
        for strand in self.roster.others:
            if not strand.ended and strand not in self._lost:
                self._hand_over(self._main, strand)
            if strand.ended and strand.thread is not None:
                strand.thread.join()
        self._running = self._main
        self._main.ident = None
        return [strand.name for strand in self.roster.others if not strand.ended]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _choose(self, me: Strand) -> Strand:
        ready = self.roster.ready
        chosen = ready[self._chooser.choose(ready, me)]
        self.choices.append(chosen.name)
        return chosen

    def _next(self, me: Strand) -> Strand:
        """Return who runs now that the caller can't, moving the clock if nobody can; the main thread to hear of it."""
        ready = self.roster.ready
        while not ready:
            due = self.roster.advance()
            if not due:
                threads = "\n".join(self.roster.describe())
                self.report(DeadlockError(f"no thread can run and no timer is due; the threads:\n{threads}"), me.name)
                return self._main
            self._tell_time(due)
        return ready[0] if len(ready) == 1 else self._choose(me)

    def _tell_time(self, due: list[Strand]) -> None:
        names = ", ".join(strand.name for strand in due) or "nobody"
        now = self.clock.nanoseconds
        self.schedule.append(Step(now, CLOCK, f"moves to {now / 1e9:g} s, due: {names}", None, None))

    def _switch(self, me: Strand, chosen: Strand) -> None:
        if chosen is not me:
            self._hand_over(me, chosen)
        if self.halting:
            self._refuse(me)

    def _hand_over(self, me: Strand, chosen: Strand) -> None:
        """Give the baton to another thread, and sleep until it comes back."""
        try:
            # No signal is handled between these two: it would leave a holder that nobody has woken.
            self._running = chosen
            chosen.gate.release()
            self._sleep(me)
        except BaseException as error:
            # A signal's handler has raised (Ctrl-C, a test's time limit) on the main thread while another holds the
            # baton; it comes back at the next step. If the gate stays shut though it has, the gate was passed before.
            self.report(error, me.name)
            self._told = True
            is_here = False
            while not me.gate.acquire(timeout=1.0) and not is_here:
                is_here = self._running is me
            raise

    def _sleep(self, me: Strand) -> None:
        """Wait for the baton. Only the main thread looks for a stuck one, as only there an error ends the run."""
        seen = -1
        while not me.gate.acquire(timeout=self._patience):
            if me is self._main:
                if seen == len(self.schedule):
                    self._give_up_on(self._running)
                    return
                seen = len(self.schedule)

    def _give_up_on(self, strand: Strand) -> None:
        frame = sys._current_frames().get(strand.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame else "nowhere\n"
        self._lost.append(strand)
        self._running = self._main
        message = (
            f"the thread {strand.name!r} has taken no step for {self._patience:g} s or more: it computes, or waits for "
            f"what the platform doesn't control (a real lock, a real sleep, a future's result). It is here:\n{stack}"
        )
        self.report(StalledError(message), strand.name)

    def _refuse(self, me: Strand) -> NoReturn:
        """Raise what ends the calling thread."""
        if me is self._main:
            if not self._told and isinstance(self.failure, Verdict):
                self._told = True
                raise self.failure
            raise StopThread
        if not self._stopping:
            # Nothing more may happen before the main thread knows; it gives the baton back to have this thread end.
            self._hand_over(me, self._main)
        me.refusals += 1
        while me.refusals > _MOST_REFUSALS:
            self._hand_over(me, self._main)
        raise StopThread

    def _refuse_stranger(self) -> NoReturn:
        thread = threading.current_thread().name
        error = UncontrolledThreadError(thread, running=self._main.ident is not None)
        if self._main.ident is not None:
            self.report(error, thread)
        raise error
