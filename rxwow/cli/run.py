"""One dispatch, from its subscription to its end, and what may come between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any, Final

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.cli.bad_input import BadInputError
from rxwow.cli.console import reader_has_gone, say
from rxwow.cli.intake import Intake
from rxwow.cli.interrupts import interrupts
from rxwow.cli.order import Message
from rxwow.cli.results import Results, StandardOutputClosedError
from rxwow.errors import ExecutorClosedError

__all__ = ["Ending", "Failure", "Run"]

REFRESH: Final = 0.1
"""Seconds between two updates of the display, and until a Ctrl-C is noticed at the latest."""
TIME_TO_CLEAN_UP: Final = 1.0
"""Seconds that a cancelled coroutine has for its `finally` blocks before the process ends without it."""


class Ending(Enum):
    """How a run ended."""

    COMPLETED = auto()
    FAILED = auto()
    OUTPUT_FAILED = auto()
    DRAINED = auto()
    DISPOSED = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """A message whose handler failed, and what it raised."""

    message: Message[Any]
    error: Exception


class _Event(Enum):
    INTERRUPTED = auto()
    OUTPUT_FAILED = auto()
    ENDED = auto()
    CLOSED = auto()


class Run:
    """Runs a dispatch on worker threads, while the calling thread waits for what comes: the end, Ctrl-C, a full disk.

    All that comes is put into one queue, which may be done from a signal handler and from any thread, and is acted upon
    by the calling thread alone.

    Attributes:
        failures: messages whose handler failed; `_lock` guards it and `failure`.
        failure: the one that ended the run.
        output_error: why the results could not be taken any more.
    """

    def __init__(
        self, executor: KeyedExecutor, results: Results, on_skip: Callable[[int, Failure], None] | None
    ) -> None:
        """Prepare a run.

        Args:
            executor: what runs the handlers; it is closed at the end.
            results: where the results go.
            on_skip: called, with how many there were, for each failure that the run goes on after; None means that it
                ends with the first failure.
        """
        self._executor = executor
        self._results = results
        self._on_skip = on_skip
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._lock = threading.Lock()
        self._unexpected: Exception | None = None
        self.failures = 0
        self.failure: Failure | None = None
        self.output_error: BadInputError | StandardOutputClosedError | None = None

    def execute(
        self,
        intake: Intake[Any],
        handler: Callable[[Message[Any]], Any],
        *,
        blocking: bool,
        update: Callable[[], None] | None,
    ) -> Ending:
        """Dispatch the messages and wait for the end.

        Args:
            intake: the source of the messages.
            handler: what is called with each.
            blocking: whether the source may have to wait.
            update: called now and then to bring a display up to date.
        """
        flow = Flowable.from_iterable(intake.messages, blocking=blocking).pipe(
            keyed_dispatch(
                attrgetter("key"),
                handler,
                executor=self._executor,
                on_failure=self._decide,
                name="rxwow dispatch",
            )
        )
        with interrupts(lambda: self._events.put(_Event.INTERRUPTED)):
            flow.subscribe(self._take, self._ended_with, lambda: self._events.put(_Event.ENDED))
            return self._wait(intake, update)

    def _wait(self, intake: Intake[Any], update: Callable[[], None] | None) -> Ending:
        interruptions = 0
        closing = False
        while (event := self._next(update)) is not _Event.CLOSED:
            # The drain takes a moment to begin, in which more would be read; and this alone ends no source that waits.
            intake.stop()
            if event is _Event.INTERRUPTED:
                interruptions += 1
                if interruptions > 1:
                    self._executor.dispose()
                    self._executor.wait_closed(TIME_TO_CLEAN_UP)
                    return Ending.DISPOSED
                say("rxwow dispatch: stopping when what was read is handled; Ctrl-C again stops at once")
            if not closing:
                closing = True
                # On another thread, so that this one still hears of a second Ctrl-C.
                threading.Thread(target=self._close, name="rxwow-closing", daemon=True).start()
        return self._ending(interrupted=interruptions > 0)

    def _next(self, update: Callable[[], None] | None) -> _Event:
        while True:
            if update is not None:
                update()
            # Never without a timeout: a Ctrl-C that comes just before this thread falls asleep doesn't wake it, and
            # Python calls the signal handler only when it is awake.
            try:
                return self._events.get(timeout=REFRESH)
            except Empty:
                continue

    def _close(self) -> None:
        # At the end of the stream too: after a failure other handlers may still be in the middle of something.
        self._executor.drain()
        self._executor.wait_closed()
        self._events.put(_Event.CLOSED)

    def _ending(self, *, interrupted: bool) -> Ending:
        if self.failure is not None:
            return Ending.FAILED
        if self.output_error is not None:
            return Ending.OUTPUT_FAILED
        if interrupted:
            return Ending.DRAINED
        if self._unexpected is not None:
            raise self._unexpected
        return Ending.COMPLETED

    # Called on the workers.

    def _take(self, line: str | None) -> None:
        if self.output_error is not None:
            return
        try:
            self._results.take(line)
        except (BadInputError, StandardOutputClosedError) as error:
            self._output_failed(error)

    def _output_failed(self, error: BadInputError | StandardOutputClosedError) -> None:
        self.output_error = error
        self._events.put(_Event.OUTPUT_FAILED)

    def _decide(self, message: Message[Any], error: Exception) -> Any:
        if isinstance(error, BrokenPipeError) and reader_has_gone():
            # A handler that prints. Not its fault, and nobody is left to tell.
            self._output_failed(StandardOutputClosedError())
            return SKIP
        failure = Failure(message, error)
        with self._lock:
            self.failures += 1
            if self._on_skip is not None:
                self._on_skip(self.failures, failure)
                return SKIP
            if self.failure is None:
                self.failure = failure
        return FAIL

    def _ended_with(self, error: Exception) -> None:
        if not isinstance(error, ExecutorClosedError):
            self._unexpected = error
        self._events.put(_Event.ENDED)
