"""Handlers of every kind that watch over the order within a key."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import reactivex

KINDS = ("plain", "async", "future", "observable")


class OrderWatch:
    """Handles messages `(key, number)`; notes those that began before the last of their key had finished, or before it.

    A handler of a key is alone with that key's fields if the promise holds, so only the shared dictionaries are locked.
    """

    def __init__(self, kinds: tuple[str, ...] = ("plain",), pool: ThreadPoolExecutor | None = None) -> None:
        self.breaches: list[str] = []
        self.handled: dict[Any, list[int]] = defaultdict(list)
        self._active: set[Any] = set()
        self._lock = threading.Lock()
        self._kinds = kinds
        self._pool = pool

    def __call__(self, message: tuple[Any, int]) -> Any:
        key, number = message
        with self._lock:
            if key in self._active:
                self.breaches.append(f"{message} began before the one before it had finished")
            if self.handled[key] and self.handled[key][-1] >= number:
                self.breaches.append(f"{message} began after {self.handled[key][-1]}")
            self._active.add(key)
            self.handled[key].append(number)
        return getattr(self, "_" + self._kinds[number % len(self._kinds)])(message)

    def _finish(self, message: tuple[Any, int]) -> tuple[Any, int]:
        with self._lock:
            self._active.discard(message[0])
        return message

    def _plain(self, message: tuple[Any, int]) -> Any:
        return self._finish(message)

    async def _async(self, message: tuple[Any, int]) -> Any:
        for _ in range(message[1] % 3):
            await asyncio.sleep(0)
        return self._finish(message)

    def _future(self, message: tuple[Any, int]) -> Future[Any]:
        assert self._pool is not None
        return self._pool.submit(self._finish, message)

    def _observable(self, message: tuple[Any, int]) -> reactivex.Observable[Any]:
        return reactivex.from_callable(lambda: self._finish(message))


class Gate:
    """A handler that waits, on its worker, until it is let go; knows who has come."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._open: set[Any] = set()
        self._all = False
        self.arrived: list[Any] = []
        self.threads: dict[Any, str] = {}

    def __call__(self, item: Any) -> Any:
        with self._news:
            self.arrived.append(item)
            self.threads[item] = threading.current_thread().name
            self._news.notify_all()
            assert self._news.wait_for(lambda: self._all or item in self._open, 20), f"{item} was not let go"
        return item

    def wait_for(self, condition: Callable[[], object]) -> None:
        with self._news:
            assert self._news.wait_for(condition, 20), f"waited in vain; came: {self.arrived}"

    def wait_for_arrivals(self, count: int) -> None:
        self.wait_for(lambda: len(self.arrived) >= count)

    def let_go(self, *items: Any) -> None:
        with self._news:
            self._open.update(items)
            self._all = self._all or not items
            self._news.notify_all()
