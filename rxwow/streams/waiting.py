"""Waiting for an event so that Ctrl-C gets through."""

from __future__ import annotations

import sys
import threading
from typing import Final

from rxwow.platform import PRODUCTION, Event, Platform

__all__ = ["wait_for"]

_LONGEST_WAIT: Final = 0.1 if sys.platform == "win32" else 1.0
"""Seconds. A signal interrupts a wait, but not one that begins just after it came; and on Windows none at all."""


def wait_for(event: Event, platform: Platform) -> None:
    """Wait until `event` is set, on a thread that `platform` made or found.

    Raises:
        KeyboardInterrupt: it came meanwhile, at most a second ago.

    >>> event = PRODUCTION.event()
    >>> event.set()
    >>> wait_for(event, PRODUCTION)
    """
    # Python handles signals on the main thread alone, and there are none in a test's virtual time.
    interruptible = platform is PRODUCTION and threading.current_thread() is threading.main_thread()
    while not event.wait(_LONGEST_WAIT if interruptible else None):
        pass
