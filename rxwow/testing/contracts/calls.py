"""Calls that may hang: each is made on a thread of its own and waited for, but not for ever."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextvars import copy_context

from rxwow.platform import Platform
from rxwow.testing.failures import StopThread

__all__ = ["Abandoned", "Call"]


class Abandoned(SystemExit):
    """Ends a publisher that goes on and on, from inside the signal that it gives.

    It is a SystemExit because a thread may end with one without a word, and because few publishers catch it.
    """


class Call:
    """A call that runs on a thread of its own, in a copy of the caller's context.

    What it raises is kept for `check`. `error` is set before `_done`, and read after that.

    Args:
        platform: makes the thread.
        action: what is called.

    >>> from rxwow.platform import PRODUCTION
    >>> call = Call(PRODUCTION, lambda: None)
    >>> call.returned_within(5), call.error
    (True, None)
    """

    def __init__(self, platform: Platform, action: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._done = platform.event()
        context = copy_context()
        self._thread = platform.thread(lambda: context.run(self._act, action), "rxwow-contract")
        self._thread.start()

    def returned_within(self, seconds: float) -> bool:
        """Wait for the call to come back; return whether it did."""
        if not self._done.wait(seconds):
            return False
        self._thread.join()
        return True

    def check(self, seconds: float) -> None:
        """Wait for the call to come back, and raise what it raised.

        Raises:
            AssertionError: it did not come back in time; the message says where it is.
        """
        if not self.returned_within(seconds):
            raise AssertionError(f"a call did not come back within {seconds:g} s; it is at\n{self.whereabouts()}")
        if self.error is not None:
            raise self.error

    def whereabouts(self) -> str:
        """Return the stack of the call, as a traceback shows it."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else "an unknown place"

    def _act(self, action: Callable[[], object]) -> None:
        try:
            action()
        except StopThread:
            raise
        except BaseException as error:  # noqa: BLE001 - raised by `check`, on the thread that waits
            self.error = error
        self._done.set()
