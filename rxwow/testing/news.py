"""Waiting for a condition that changes when something is told."""

from __future__ import annotations

from collections.abc import Callable

from rxwow.platform import Event, Platform

__all__ = ["News"]


class News:
    """Wakes those that wait for a condition, so that they look at it again.

    `_lock` guards `_waiting`.

    >>> from rxwow.platform import PRODUCTION
    >>> news, found = News(PRODUCTION), []
    >>> def find():
    ...     found.append(1)
    ...     news.tell()
    >>> PRODUCTION.thread(find, "finder").start()
    >>> news.wait_until(lambda: found, patience=5)
    True
    """

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._lock = platform.lock()
        self._waiting: list[Event] = []

    def tell(self) -> None:
        """Make all that wait look at their condition again."""
        with self._lock:
            waiting = tuple(self._waiting)
        for event in waiting:
            event.set()

    def wait_until(self, condition: Callable[[], object], patience: float) -> bool:
        """Wait until a condition holds.

        Args:
            condition: is called on this thread, without a lock, at first and after each `tell`.
            patience: seconds to wait at most.

        Returns:
            Whether it held before the time was up.
        """
        due = self._platform.monotonic() + patience
        event = self._platform.event()
        with self._lock:
            self._waiting.append(event)
        try:
            while True:
                event.clear()
                if condition():
                    return True
                left = due - self._platform.monotonic()
                if left <= 0 or not event.wait(left):
                    return bool(condition())
        finally:
            with self._lock:
                self._waiting.remove(event)
