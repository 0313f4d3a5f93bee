"""The threads for handlers that block: as many as are needed, up to a limit, and none for longer."""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from rxwow.errors import BlockingPoolFullError, ExecutorClosedError
from rxwow.execution.parallelism import available_cpus
from rxwow.platform import Platform

__all__ = ["IDLE_TIME", "MOST_QUEUED", "THREADS_A_CPU", "ElasticPool", "PoolFuture"]

P = ParamSpec("P")
R = TypeVar("R")

THREADS_A_CPU: Final = 10
IDLE_TIME: Final = 60.0
"""Seconds that a thread without work is kept."""
MOST_QUEUED: Final = 100_000
"""Calls that may wait for a thread; the next is refused."""


class ElasticPool(concurrent.futures.Executor):
    """Runs calls that block, each on a thread that does nothing else meanwhile.

    A call goes to the thread that became idle last, so that the others reach the end of their idle time; else to a new
    thread, up to ten for each CPU; else it waits in a queue, up to 100,000 calls.

    `_lock` guards all fields that change. `_serving` counts the threads that take calls, `_threads` those that have not
    ended.

    Args:
        name: the threads are called `name-blocking-1` and so on.
        platform: gives threads and the clock.
        most_threads: how many threads there are at most; None for ten for each CPU.
        idle_time: seconds that a thread without work is kept.
        most_queued: how many calls may wait for a thread.
    """

    def __init__(
        self,
        name: str,
        platform: Platform,
        *,
        most_threads: int | None = None,
        idle_time: float = IDLE_TIME,
        most_queued: int = MOST_QUEUED,
    ) -> None:
        self._name = name
        self._platform = platform
        self._most_threads = most_threads or THREADS_A_CPU * available_cpus()
        self._idle_time = idle_time
        self._most_queued = most_queued
        self._lock = platform.lock()
        self._queue: deque[_Call] = deque()
        self._idle: list[_PoolThread] = []
        self._serving = 0
        self._threads = 0
        self._started = 0
        self._ended: Callable[[], None] | None = None

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[R]:
        """Call `fn` on a thread of the pool.

        Returns:
            A future of what it returns; a call that waits in the queue can be cancelled.

        Raises:
            BlockingPoolFullError: too many calls wait already.
            ExecutorClosedError: the pool was stopped.
        """
        future: PoolFuture[R] = PoolFuture(self)
        call = _Call(future, partial(fn, *args, **kwargs))
        with self._lock:
            if self._ended is not None:
                raise ExecutorClosedError(self._name, "it runs no more handlers that block")
            if self._idle:
                thread = self._idle.pop()
                thread.call = call
                thread.due.set()
                return future
            if self._serving >= self._most_threads:
                if len(self._queue) >= self._most_queued:
                    raise BlockingPoolFullError(self._name, self._most_threads, self._most_queued)
                self._queue.append(call)
                return future
            self._started += 1
            thread = _PoolThread(self, self._platform, f"{self._name}-blocking-{self._started}", call)
            self._serving += 1
            self._threads += 1
        try:
            thread.start()
        except BaseException:
            # The system has no more threads; what is queued waits for those that there are.
            with self._lock:
                self._serving -= 1
            self.forget()
            raise
        return future

    def stop(self, ended: Callable[[], None]) -> None:
        """Take no more calls, and call `ended` when no thread is left; does not wait. Called once.

        Calls that wait in the queue are still made, unless they are cancelled.
        """
        with self._lock:
            self._ended = ended
            idle, self._idle = self._idle, []
            last = not self._threads
        for thread in idle:
            thread.due.set()
        if last:
            ended()

    def statistics(self) -> tuple[int, int, int]:
        """Return how many threads there are, how many of them are idle, and how many calls wait for one."""
        with self._lock:
            return self._serving, len(self._idle), len(self._queue)

    # What the threads ask.

    def next_call(self, thread: _PoolThread) -> _Call | None:
        """Wait for the next call for a thread; return None if it must end, and is counted no more."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            if self._ended is not None:
                self._serving -= 1
                return None
            thread.due.clear()
            self._idle.append(thread)
        thread.due.wait(self._idle_time)
        with self._lock:
            call, thread.call = thread.call, None
            if call is None:
                # Not counted from the same moment on: a call that comes now must not be left to it.
                self._serving -= 1
                if thread in self._idle:
                    self._idle.remove(thread)
            return call

    def forget(self) -> None:
        """Note that a thread has ended."""
        with self._lock:
            self._threads -= 1
            ended = None if self._threads else self._ended
        if ended is not None:
            ended()


class PoolFuture(concurrent.futures.Future[R]):
    """The future of a call that knows which pool makes it, and on which thread: None while it waits for one."""

    thread: int | None = None

    def __init__(self, pool: ElasticPool) -> None:
        super().__init__()
        self.pool = pool


class _Call:
    """A call and the future of its result."""

    __slots__ = ("_call", "_future")

    def __init__(self, future: PoolFuture[Any], call: Callable[[], Any]) -> None:
        self._future = future
        self._call = call

    def run(self) -> None:
        if not self._future.set_running_or_notify_cancel():
            return
        self._future.thread = threading.get_ident()
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001 - the handler's; whoever waits for the future gets it.
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


class _PoolThread:
    """A thread of the pool; `call` is what it is given while it is idle, and guarded by the pool's lock."""

    def __init__(self, pool: ElasticPool, platform: Platform, name: str, call: _Call) -> None:
        self.call: _Call | None = call
        self.due = platform.event()
        self._pool = pool
        self._thread = platform.thread(self._serve, name)

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        call, self.call = self.call, None
        try:
            while call is not None:
                call.run()
                # Let go of it before the wait: it refers to the message.
                call = None
                call = self._pool.next_call(self)
        finally:
            self._pool.forget()
