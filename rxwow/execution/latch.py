"""A latch: something that happens once, waited for by threads and by coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rxwow.platform import Platform

__all__ = ["Latch"]


class Latch:
    """Opens once; `_lock` guards `_callbacks` and the step to open."""

    def __init__(self, platform: Platform) -> None:
        self._lock = platform.lock()
        self._event = platform.event()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_open(self) -> bool:
        return self._event.is_set()

    def open(self) -> None:
        """Let all that wait go on. Idempotent."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self._event.set()
        for callback in callbacks:
            callback()

    def when_open(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the latch opens, on the thread that opens it, or now if it is open."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout: float | None) -> bool:
        """Block the thread until the latch is open, for `timeout` seconds at most; return whether it is."""
        return self._event.wait(timeout)

    async def wait_async(self, timeout: float | None) -> bool:
        """Wait in a coroutine until the latch is open, for `timeout` seconds at most; return whether it is."""
        loop = asyncio.get_running_loop()
        opened = asyncio.Event()

        def on_open() -> None:
            try:
                loop.call_soon_threadsafe(opened.set)
            except RuntimeError:
                # The loop was closed; nobody waits there any more.
                return

        self.when_open(on_open)
        try:
            await asyncio.wait_for(opened.wait(), timeout)
        except TimeoutError:
            return self.is_open
        finally:
            self._forget(on_open)
        return True

    def _forget(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
