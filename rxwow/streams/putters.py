"""Those who wait for room in an inlet: a task on its event loop, or a thread."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from rxwow.platform import Platform
from rxwow.streams.guard import running_loop

__all__ = ["Putter", "TaskPutter", "ThreadPutter"]


class Putter(ABC):
    """One that waits for room; the inlet's lock guards `told`. `gone` is set once, without it."""

    def __init__(self) -> None:
        self.told = False
        self.gone = False

    @abstractmethod
    def wake(self) -> bool:
        """Let it look; return False if it can't any more."""


class TaskPutter(Putter):
    """A task that awaits `future`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.future: asyncio.Future[None] = loop.create_future()

    def wake(self) -> bool:
        try:
            if running_loop() is self._loop:
                self._resolve()
            else:
                self._loop.call_soon_threadsafe(self._resolve)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            return False
        return True

    def _resolve(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class ThreadPutter(Putter):
    """A thread that waits for `event`."""

    def __init__(self, platform: Platform) -> None:
        super().__init__()
        self.event = platform.event()

    def wake(self) -> bool:
        self.event.set()
        return True
