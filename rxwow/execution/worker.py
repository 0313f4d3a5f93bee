"""The worker: one event loop, and one FIFO of mailboxes whose turns it runs on that loop.

A turn is not a task of its own: the worker drains its FIFO in one callback of the loop, so a busy worker takes the next
mailbox without being woken, and timers, I/O and coroutines of waiting handlers run on the same thread between two
drains.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rxwow.errors import ExecutorClosedError
from rxwow.execution.mailbox import Mailbox
from rxwow.execution.statistics import WorkerStatistics
from rxwow.execution.turn import run_turns
from rxwow.platform import Lock, Platform
from rxwow.streams.containment import as_error

if TYPE_CHECKING:
    from rxwow.execution.slow_turns import SlowTurns

__all__ = ["DRAIN_TIME", "MAX_SPIN", "Worker"]

logger = logging.getLogger("rxwow.execution")

DRAIN_TIME: Final = 0.002
"""Seconds of turns after which a worker lets its loop's timers and I/O have their turn."""
LOOP_ROUNDS: Final = 3
"""Rounds of the loop between two drains: a timer or I/O event, the future that it completes, and the task that waits
for that future each take one, and none should wait for a drain of its own."""
MAX_SPIN: Final = 0.001
"""Most seconds a worker may poll before it parks."""


class Worker(ABC):
    """Runs the turns of the mailboxes it is given, in the order given.

    `fifo` is appended to by any thread and taken from by the worker alone; a deque guards itself, so no lock of ours is
    taken. `_lock` guards the step from parked to running. `_interrupted`, the counters, `turn_of` (the mailbox whose
    turn runs) and `turn_began` (when the batch that it is in began) belong to the worker's thread; others read them as
    they happen to be. So do `cleanups`, the tasks that are closing a handler's generator and must not be cancelled.
    `slow_turns` is set before the worker is given anything.
    """

    def __init__(self, name: str, spin: float, platform: Platform) -> None:
        self.name = name
        self.fifo: deque[Mailbox] = deque()
        self.turns = 0
        self.messages = 0
        self.ident: int | None = None
        self.turn_of: Mailbox | None = None
        self.turn_began = 0.0
        self.slow_turns: SlowTurns | None = None
        self.cleanups: set[asyncio.Task[Any]] = set()
        self.platform = platform
        self._lock: Lock = platform.lock()
        self._parked = True
        self._parked_since = 0.0
        self._spin = spin
        self._spins = False
        self._wakes = 0
        self._interrupted: tuple[Mailbox, int] | None = None
        self._no_loop: Exception | None = None

    # Called from any thread.

    @property
    @abstractmethod
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs the turns; `ThreadWorker` makes it, and starts its thread, when it is first asked for."""

    @property
    def parked(self) -> bool:
        return self._parked

    @property
    @abstractmethod
    def started(self) -> bool:
        """Whether it has a thread that must be ended."""

    @abstractmethod
    def stop(self, ended: Callable[[], None]) -> None:
        """End once the turn that runs has ended, then call `ended`; does not wait. Called once."""

    @abstractmethod
    def join(self) -> None:
        """Wait until the thread of a worker that has ended is gone."""

    def load(self) -> int:
        """Return how many turns a new mailbox would wait for: those queued, and the one that is running."""
        if self._parked:
            return 0
        return len(self.fifo) + (threading.get_ident() != self.ident)

    def is_running(self) -> bool:
        """Whether it is not parked; under the lock, so exact for a watchdog that has said that it sleeps."""
        with self._lock:
            return not self._parked

    def submit(self, mailboxes: Sequence[Mailbox]) -> None:
        """Append mailboxes to the FIFO, and wake the worker if it is parked."""
        self.fifo.extend(mailboxes)
        self.platform.point("submitted")
        if self._parked:
            self._wake()

    def call_soon(self, callback: Callable[[], object]) -> bool:
        """Have `callback` called on the worker's thread; return False if the worker has ended, or can't start."""
        try:
            loop = self.loop
        except Exception as error:  # noqa: BLE001 - a user's loop factory, or no more threads; it ends the dispatches.
            self._no_loop = error
            return False
        try:
            if threading.get_ident() == self.ident:
                loop.call_soon(callback)
            else:
                loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop is closed.
            return False
        return True

    def _wake(self) -> None:
        with self._lock:
            if not self._parked:
                return
            self._parked = False
            self._wakes += 1
            self._spins = self._spin > 0 and self.platform.monotonic() - self._parked_since < self._spin
            watchdog = self._sleeping_watchdog()
        if watchdog is not None:
            watchdog.wake()
        if not self.call_soon(self._drain):
            self._refuse()

    def _sleeping_watchdog(self) -> SlowTurns | None:
        """Return who has to be told that this worker runs; called with the lock held."""
        watchdog = self.slow_turns
        return watchdog if watchdog is not None and watchdog.asleep else None

    def _leave_watchdog(self) -> None:
        if self.slow_turns is not None:
            self.slow_turns.leave(self)

    def _refuse(self) -> None:
        """End the dispatches whose mailboxes can't be served: the loop was closed under them, or there is none.

        Parked first, then looked, as in `_park`: whoever submits from now on comes here again.
        """
        self._parked = True
        interrupted, self._interrupted = self._interrupted, None
        if interrupted is not None:
            self._refuse_mailbox(interrupted[0])
        while True:
            try:
                mailbox = self.fifo.popleft()
            except IndexError:
                return
            self._refuse_mailbox(mailbox)

    def _refuse_mailbox(self, mailbox: Mailbox) -> None:
        closed = "its event loop was closed; drain or dispose the executor before its loop"
        mailbox.dispatch.refuse(mailbox, self._no_loop or ExecutorClosedError(self.name, closed))

    def statistics(self) -> WorkerStatistics:
        return WorkerStatistics(
            name=self.name,
            started=self.started,
            parked=self._parked,
            queued=len(self.fifo),
            turns=self.turns,
            messages=self.messages,
            wakes=self._wakes,
        )

    # Called on the worker's thread.

    def _drain(self) -> None:
        """Run turns until there are none, or for `DRAIN_TIME`."""
        monotonic = self.platform.monotonic
        deadline = monotonic() + DRAIN_TIME
        while True:
            mailbox, budget = self._interrupted or (self._next(), 0)
            self._interrupted = None
            if mailbox is None:
                return
            try:
                self._interrupted = run_turns(self, mailbox, budget)
            except BaseException as error:
                # Only a bug of ours, or a KeyboardInterrupt out of a subscriber, comes here. The worker must outlive
                # it: the messages in its FIFO have no other. Those of this mailbox may be nowhere any more.
                logger.critical("worker %s survived an exception", self.name, exc_info=True)
                mailbox.dispatch.terminate(as_error(error))
            if monotonic() >= deadline and (self.fifo or self._interrupted):
                self._yield_to_loop(LOOP_ROUNDS)
                return

    def _yield_to_loop(self, rounds: int) -> None:
        if rounds:
            self.loop.call_soon(self._yield_to_loop, rounds - 1)
        else:
            self._drain()

    def _next(self) -> Mailbox | None:
        try:
            return self.fifo.popleft()
        except IndexError:
            pass
        if self._spins:
            mailbox = self._spin_for_next()
            if mailbox is not None:
                return mailbox
        return self._park()

    def _park(self) -> Mailbox | None:
        """Become parked, then look again, in this order.

        A submitter appends, then reads `_parked`. Either its append comes before our last look, which then finds the
        mailbox, or our look, and so our `_parked = True`, comes before its append, and it sees that it must wake us.
        The look is a `popleft`, not a test for emptiness: deque operations exclude each other on free-threaded CPython
        too, and that is what orders the two writes and the two reads there.
        """
        self._parked_since = self.platform.monotonic()
        self.platform.point("parks")
        self._parked = True
        self.platform.point("parked")
        try:
            mailbox = self.fifo.popleft()
        except IndexError:
            return None
        with self._lock:
            woken = not self._parked
            self._parked = False
            watchdog = self._sleeping_watchdog()
        if watchdog is not None:
            watchdog.wake()
        if woken:
            # By a submitter: the drain that it asked for takes the mailbox.
            self.fifo.appendleft(mailbox)
            return None
        return mailbox

    def _spin_for_next(self) -> Mailbox | None:
        until = self.platform.monotonic() + self._spin
        while self.platform.monotonic() < until:
            self.platform.pause()
            try:
                return self.fifo.popleft()
            except IndexError:
                continue
        return None
