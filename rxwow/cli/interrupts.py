"""Ctrl-C as a call instead of an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupts"]


@contextmanager
def interrupts(on_interrupt: Callable[[], None]) -> Generator[None]:
    """Call `on_interrupt` at each Ctrl-C while the block runs.

    It is called between two instructions of the main thread, whatever that is doing, so it may take no lock. A process
    that was started with Ctrl-C ignored (`nohup`, a background job of a script) goes on ignoring it.
    """

    def handle(_signal: int, _frame: FrameType | None) -> None:
        on_interrupt()

    # Python lets the main thread alone set signal handlers.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
