"""A thread under control: a real one, which runs only while it holds the baton."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context

from rxwow.testing.baton import Baton
from rxwow.testing.clock import nanoseconds
from rxwow.testing.failures import StopThread
from rxwow.testing.schedule import Resource
from rxwow.testing.strand import Strand

__all__ = ["ControlledThread"]


class ControlledThread(Resource):
    """A thread that runs `target` in a context of its own. An exception that leaves `target` ends the run.

    Each is a new thread of the machine, so that nothing that one run leaves in thread-local storage changes the next.
    """

    def __init__(self, baton: Baton, target: Callable[[], object], name: str, context: Context, number: int) -> None:
        super().__init__("thread", number)
        self._baton = baton
        self._target = target
        self._context = context
        self._name = name
        self._strand = Strand(name)
        self._waiting: list[Strand] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def ident(self) -> int | None:
        return self._thread.ident

    def start(self) -> None:
        """Start the thread; it runs when it is chosen.

        Raises:
            RuntimeError: if it was started before.
        """
        if self._started:
            raise RuntimeError("threads can only be started once")
        self._started = True
        self._baton.begin(self._strand, self._thread)
        self._baton.after("starts", self)

    def is_alive(self) -> bool:
        """Return whether the thread was started and has not ended."""
        self._baton.before("looks whether alive:", self)
        return self._started and not self._strand.ended

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended.

        Args:
            timeout: seconds of virtual time to wait at most; None to wait without end.

        Raises:
            RuntimeError: if the thread was not started, or is the caller.
        """
        if not self._started:
            raise RuntimeError("cannot join thread before it is started")
        self._baton.approach("joins", self)
        me = self._baton.holder()
        if me is self._strand:
            raise RuntimeError("cannot join current thread")
        if self._strand.ended or (timeout is not None and timeout <= 0):
            self._baton.note("joins", self)
            return
        due = None if timeout is None else self._baton.clock.nanoseconds + nanoseconds(timeout)
        self._waiting.append(me)
        if not self._baton.block("waits for the end of", self, due):
            self._waiting.remove(me)

    def __str__(self) -> str:
        return str(self._strand)

    def state(self) -> str:
        return "" if self._started else ", which was not started"

    def _run(self) -> None:
        try:
            if self._baton.arrive(self._strand):
                self._context.run(self._target)
        except (StopThread, SystemExit):
            # SystemExit ends a thread without a word, as `threading` has it.
            pass
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._baton.report(error, str(self._strand))
        finally:
            self._baton.end(self._strand, self._waiting)
