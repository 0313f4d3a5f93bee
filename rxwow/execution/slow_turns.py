"""The watchdog: says which handler holds a worker for too long, and where it is.

It costs a message nothing: a worker notes whose turn it runs anyway, and the watchdog looks at that from a thread of
its own, which sleeps for as long as all workers are parked.
"""

from __future__ import annotations

import logging
import reprlib
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rxwow.errors import InvalidArgumentError
from rxwow.execution.turn import run_turns
from rxwow.execution.whereabouts import frames_of_threads
from rxwow.platform import Platform, Thread

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.worker import Worker

__all__ = ["SlowTurns", "check_slow_turn"]

logger = logging.getLogger("rxwow.execution")

QUIET: Final = 60.0
"""Seconds for which nothing more is said of a dispatch whose slow turn was logged."""
MOST_FRAMES: Final = 50
_OWN: Final = str(Path(__file__).parent.parent)

_representation = reprlib.Repr()
_representation.maxother = _representation.maxstring = 60


def check_slow_turn(value: object) -> None:
    """Raise `InvalidArgumentError` unless `value` is a number of seconds, 0, or None."""
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0):
        raise InvalidArgumentError("slow_turn", value, "a number of seconds, or 0 or None for no watch")


class SlowTurns:
    """Watches the workers of one executor, on a thread that is there from their first message until they have ended.

    It looks every half of `seconds`, so a turn is told of when it has lasted for `seconds` to one and a half times as
    long. It sees the turns of plain handlers, and the first step of others up to what they return; a coroutine's later
    steps are the event loop's, whose debug mode tells of them.

    `_lock` guards `_workers` and `_started`. `asleep` is set by the watchdog's thread before it looks at each worker
    under that worker's own lock, and read by a worker under that lock when it stops being parked: so either the
    watchdog sees that it runs, or it sees that the watchdog sleeps. `_quiet_until` is the watchdog's thread's alone.

    Args:
        seconds: what a turn may take.
        workers: whom it watches; each tells it by `leave` that it has ended.
        name: of its thread.
        platform: gives the thread and the clock.
    """

    def __init__(self, seconds: float, workers: Sequence[Worker], name: str, platform: Platform) -> None:
        self.asleep = True
        self._seconds = seconds
        self._name = name
        self._platform = platform
        self._lock = platform.lock()
        self._due = platform.event()
        self._workers = list(workers)
        self._started = False
        self._thread: Thread = platform.thread(self._serve, name)
        self._quiet_until: dict[str, float] = {}
        for worker in workers:
            worker.slow_turns = self

    # Called by workers, and by whoever wakes them.

    def wake(self) -> None:
        """Look from now on; called, outside any lock, when a worker has work and the watchdog sleeps."""
        with self._lock:
            if not self._workers:
                return
            starts = not self._started
            self._started = True
        if starts:
            try:
                self._thread.start()
            except RuntimeError:
                # The system has no more threads; messages come first.
                logger.warning("%s can't start, so slow turns are not told of", self._name, exc_info=True)
                self.asleep = False
        else:
            self._due.set()

    def leave(self, worker: Worker) -> None:
        """Watch `worker` no more; after the last, the thread ends."""
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)
            ends = not self._workers
        if ends:
            self._due.set()

    def join(self) -> None:
        """Wait until the thread is gone, when all workers have left."""
        if self._thread.ident is not None:
            self._thread.join()

    # Called on its thread.

    def _serve(self) -> None:
        while True:
            workers = self._watched()
            if not workers:
                return
            self._due.clear()
            self.asleep = True
            if any(worker.is_running() for worker in workers):
                self.asleep = False
                timeout: float | None = self._seconds / 2
            else:
                timeout = None
            # The last may have left before the event was cleared.
            if self._watched():
                self._due.wait(timeout)
            for worker in workers:
                self._look_at(worker)

    def _watched(self) -> list[Worker]:
        with self._lock:
            return self._workers[:]

    def _look_at(self, worker: Worker) -> None:
        # In this order: the batch of a mailbox seen first has begun by then, so `began` is not that of one before it.
        mailbox = worker.turn_of
        began = worker.turn_began
        now = self._platform.monotonic()
        if mailbox is None or now - began < self._seconds:
            return
        dispatch = mailbox.dispatch
        name = dispatch.options.name
        if now < self._quiet_until.get(name, now):
            return
        key = mailbox.key_at_hand
        stack = _stack_of(None if worker.ident is None else frames_of_threads().get(worker.ident))
        if worker.turn_of is not mailbox or worker.turn_began != began:
            # It has come to its end meanwhile, and what was seen may be of the next.
            return
        self._quiet_until = {other: until for other, until in self._quiet_until.items() if now < until}
        self._quiet_until[name] = now + QUIET
        self._tell(worker, dispatch, key, now - began, stack)

    def _tell(self, worker: Worker, dispatch: Dispatch, key: Any, seconds: float, stack: str) -> None:
        try:
            logger.warning(
                "a turn of %s, for key %s, has held the worker %s for %.1f s, and with it all other keys there; mark a "
                "handler that waits @blocking, or await; give one that computes a process pool (run_in). It is at:\n%s",
                dispatch.options.name,
                # A key's own __repr__ may be long, or may raise; reprlib sees to both.
                _representation.repr(key),
                worker.name,
                seconds,
                stack,
            )
        except Exception:  # noqa: BLE001 - an application's own log filter or handler; the watch goes on.
            self._quiet_until[dispatch.options.name] = self._platform.monotonic() + QUIET


def _stack_of(frame: types.FrameType | None) -> str:
    """Describe the user's frames inside the turn that a thread is in, the innermost last."""
    frames: list[tuple[types.FrameType, int]] = []
    while frame is not None and frame.f_code is not run_turns.__code__ and len(frames) < MOST_FRAMES:
        if not frame.f_code.co_filename.startswith(_OWN):
            frames.append((frame, frame.f_lineno or frame.f_code.co_firstlineno))
        frame = frame.f_back
    lines = traceback.StackSummary.extract(iter(reversed(frames))).format()
    return "".join(lines).rstrip() or "  (its stack can't be seen)"
