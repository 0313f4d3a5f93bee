"""dump_on: a signal that makes a process say why nothing moves."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any, Final, TextIO

from reactivex import abc

from rxwow.errors import InvalidArgumentError, UsageError
from rxwow.execution.process import process
from rxwow.platform import PRODUCTION

__all__ = ["dump_on"]

SIGNALS_READ: Final = 4096
"""Signals that came while an explanation was printed, and are answered by one more."""


def dump_on(signum: int, *, file: TextIO | None = None) -> abc.DisposableBase:
    """Print `explain()` of every executor of this process whenever a signal comes, such as `signal.SIGUSR1`.

    It is printed by a thread of its own, so it also comes while the main thread waits for a lock that another thread
    holds. Python lets a signal's handler run between two steps of the main thread, though: if that one is stuck inside
    an extension module, nothing is printed. A child that is forked does not inherit it: there the signal prints a line
    that says so, and `dump_on` can be called again. Windows has no SIGUSR1; `signal.SIGBREAK`, say, works there.

    Args:
        signum: the signal, one that a program may handle; its handler is replaced.
        file: a text stream; what is `sys.stderr` when the signal comes if None.

    Returns:
        A disposable that puts the handler back that was there before, to be disposed on the main thread; also a
        context manager that does so at its end.

    Raises:
        UsageError: it was not called on the main thread, the only one on which Python lets a signal be handled; or the
            program that Python is embedded in handles the signal.
        InvalidArgumentError: there is no such signal here, or it can't be handled.

    >>> import io
    >>> report = io.StringIO()
    >>> with dump_on(signal.SIGTERM, file=report) as handle:
    ...     signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    False
    >>> signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    True
    """
    _check_main_thread("dump_on()")
    try:
        before: Any = signal.getsignal(signum)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError("signum", signum, "a signal of this system, such as signal.SIGTERM") from error
    if before is None:
        raise UsageError(
            f"signal {signum} is handled by something that was there before Python, and could not be put back; use "
            "another signal"
        )
    dump = _Dump(signum, before, file)
    dump.begin()
    return dump


def _check_main_thread(call: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(f"{call} must be called on the main thread; Python handles signals there")


class _Dump(abc.DisposableBase):
    """The handler of one signal, and the thread that prints.

    The handler runs on the main thread, between any two of its steps: any lock may be held there, also that of the
    stream that is printed to. So all it does is to write a byte to a pipe. Only the main thread writes the fields.
    """

    def __init__(self, signum: int, before: Any, file: TextIO | None) -> None:
        self._signum = signum
        self._before = before
        self._file = file
        self._process_id = os.getpid()
        self._reader, self._writer = os.pipe()
        self._disposed = False
        if hasattr(os, "set_blocking"):
            # Before Python 3.12 it is not there on Windows. The pipe is full only after thousands of signals.
            os.set_blocking(self._writer, False)

    def begin(self) -> None:
        try:
            signal.signal(self._signum, self._handle)
        except (ValueError, OSError) as error:
            self._close()
            raise InvalidArgumentError("signum", self._signum, "a signal that a program may handle") from error
        try:
            PRODUCTION.thread(self._serve, f"rxwow-dump-{self._signum}").start()
        except BaseException:
            # The system has no more threads.
            signal.signal(self._signum, self._before)
            self._close()
            raise

    def _close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def dispose(self) -> None:
        """Put the handler back that was there before, unless another has taken its place. Idempotent.

        Raises:
            UsageError: it was not called on the main thread.
        """
        if self._disposed:
            return
        _check_main_thread("dispose() of what dump_on returned")
        self._disposed = True
        if signal.getsignal(self._signum) == self._handle:
            signal.signal(self._signum, self._before)
        if os.getpid() == self._process_id:
            # The thread sees the end of the pipe, and closes its own.
            os.close(self._writer)
        else:
            self._close()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._disposed:
            # Called by another handler that had been put in its place.
            return
        if os.getpid() != self._process_id:
            # The thread is the parent's, and so is the other end of the pipe.
            os.write(2, b"rxwow: dump_on was called before this process was forked; call it in the child too\n")
            return
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            # As many are waiting to be answered.
            return

    def _serve(self) -> None:
        try:
            while os.read(self._reader, SIGNALS_READ):
                self._print()
        finally:
            os.close(self._reader)

    def _print(self) -> None:
        file = sys.stderr if self._file is None else self._file
        try:
            file.write(_report())
            file.flush()
        except Exception:  # noqa: BLE001 - a stream that was closed, say; the next signal may find another.
            traceback.print_exc()


def _report() -> str:
    """Return the explanation of all executors, each as far as it can be had."""
    executors = process.executors()
    number = f"{len(executors)} executor{'' if len(executors) == 1 else 's'}"
    lines = [f"rxwow: {number} in process {os.getpid()}, {PRODUCTION.now():%Y-%m-%d %H:%M:%S} UTC"]
    for executor in sorted(executors, key=lambda executor: executor.name):
        try:
            lines.append(str(executor.explain()))
        except Exception:  # noqa: BLE001 - one must not keep the others from being told of.
            lines.append(f"executor {executor.name!r} can't be explained:\n{traceback.format_exc()}")
    return "\n".join(lines) + "\n"
