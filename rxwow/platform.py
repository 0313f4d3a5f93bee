"""What the library asks of the machine: locks, events, threads, event loops and the clock.

Everything that waits, wakes or measures time goes through a `Platform`, so that a test can put all of it under control:
`rxwow.testing` has a platform whose threads run one at a time, in an order drawn from a seed, on a virtual clock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol

__all__ = ["PRODUCTION", "Event", "Lock", "Platform", "Thread", "current_platform"]


class Lock(Protocol):
    """A mutual exclusion lock, not reentrant; used as a context manager."""

    def acquire(self) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class Event(Protocol):
    """A flag that threads can wait for; once set it stays set until `clear`."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Thread(Protocol):
    """A thread that was made and not yet started."""

    @property
    def name(self) -> str: ...

    @property
    def ident(self) -> int | None: ...

    def start(self) -> None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...


class Platform:
    """The machine as it is: `threading`, asyncio and the monotonic clock.

    A test platform subclasses it and replaces every method. Times are seconds of a clock that never goes back.
    """

    def lock(self) -> Lock:
        return threading.Lock()

    def event(self) -> Event:
        return threading.Event()

    def thread(self, target: Callable[[], None], name: str) -> Thread:
        """Make a daemon thread that will run `target`; a process that exits does not wait for it."""
        return threading.Thread(target=target, name=name, daemon=True)

    def event_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    # Not a method of ours that calls it: the hot path asks for the time.
    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def pause(self) -> None:
        """Let other threads run for a moment: what a spinning worker does between two looks."""
        time.sleep(0)

    def point(self, name: str) -> None:
        """A marked point between two steps that another thread may come between; does nothing but in a test."""


PRODUCTION = Platform()

_current: ContextVar[Platform] = ContextVar("rxwow.platform", default=PRODUCTION)


def current_platform() -> Platform:
    """Return the platform of the calling thread: `PRODUCTION`, except on the controlled threads of a test.

    >>> current_platform() is PRODUCTION
    True
    """
    return _current.get()
