"""The two kinds of worker: one with a thread of its own, and one on a loop that runs already."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from rxwow.errors import InvalidArgumentError
from rxwow.execution.detection import blocking_calls
from rxwow.execution.mailbox import Mailbox
from rxwow.execution.worker import LOOP_ROUNDS, Worker
from rxwow.execution.worker_local import LoopResources, begin_resources, end_resources, forget_resources
from rxwow.platform import Platform
from rxwow.streams.guard import allow_waiting, forbid_waiting

__all__ = ["LoopWorker", "ThreadWorker"]

logger = logging.getLogger("rxwow.execution")

_closing: set[asyncio.Task[None]] = set()
"""Owns the tasks until they end, as event loops don't. Adding to a set is one step with and without a GIL."""


class ThreadWorker(Worker):
    """A worker with a thread and a loop of its own, both made when it gets its first message.

    `_lock` guards `_loop`, `_has_thread` and `_ended`.
    """

    def __init__(
        self,
        name: str,
        spin: float,
        platform: Platform,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
        *,
        detects_blocking: bool = False,
    ) -> None:
        super().__init__(name, spin, platform)
        self._detects_blocking = detects_blocking
        self._loop_factory = loop_factory or platform.event_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_thread = False
        self._ended: Callable[[], None] | None = None
        self._thread = platform.thread(self._serve, name)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop or self._start()

    @property
    def started(self) -> bool:
        return self._has_thread

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._make_loop()
                try:
                    if self._ended is None:
                        self._thread.start()
                        self._has_thread = True
                finally:
                    if not self._has_thread:
                        loop.close()
                self._loop = loop
            return self._loop

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop_factory()
        if not isinstance(loop, asyncio.AbstractEventLoop) or loop.is_running() or loop.is_closed():
            raise InvalidArgumentError("what loop_factory returns", loop, "a new event loop, for this worker alone")
        return loop

    def stop(self, ended: Callable[[], None]) -> None:
        with self._lock:
            self._ended = ended
            loop = self._loop
        if loop is None:
            self._leave_watchdog()
            ended()
        else:
            # A thread that looked just now ends, and closes the loop, without being told.
            self.call_soon(loop.stop)

    def join(self) -> None:
        if self.started:
            self._thread.join()

    def _serve(self) -> None:
        loop = self.loop
        ident = self.ident = threading.get_ident()
        with ExitStack() as at_end:
            at_end.callback(self._say_ended)
            forbid_waiting(ident, f"the worker {self.name}")
            at_end.callback(allow_waiting, ident)
            # What comes after the last drain: a future, say, that another thread completed.
            at_end.callback(self._refuse)
            if self._detects_blocking:
                self._detect_blocking(ident)
                at_end.callback(blocking_calls.unwatch, ident)
            asyncio.set_event_loop(loop)
            at_end.callback(loop.close)
            at_end.callback(asyncio.set_event_loop, None)
            begin_resources(loop)
            at_end.callback(forget_resources, loop)
            while self._ended is None:
                try:
                    loop.run_forever()
                except (Exception, KeyboardInterrupt, SystemExit):
                    # asyncio lets the last two through. A test that ends its threads raises something else.
                    logger.critical("the loop of worker %s was ended by an error; it goes on", self.name, exc_info=True)
            self._finish(loop)

    def _detect_blocking(self, ident: int) -> None:
        try:
            blocking_calls.watch(ident)
        except Exception:
            logger.exception("calls that block can't be detected on worker %s", self.name)

    def _say_ended(self) -> None:
        self._leave_watchdog()
        if self._ended is not None:
            self._ended()

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let what was cancelled come to its end, so that its clean-up runs and nothing is reported as lost."""
        resources = end_resources(loop)
        if resources is not None:
            self._close(resources, loop)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            # A second cancel would end the clean-up that the first one has begun.
            if not self._cleans_up(task):
                task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        # The outcomes of those tasks came back as turns.
        while self.fifo or self._interrupted:
            self._drain()
        loop.run_until_complete(loop.shutdown_asyncgens())
        # The threads of asyncio.to_thread are this worker's too.
        loop.run_until_complete(loop.shutdown_default_executor())

    def _close(self, resources: LoopResources, loop: asyncio.AbstractEventLoop) -> None:
        """Close the resources that belong to the loop, after the handlers that use them and before all other tasks."""
        for _ in range(LOOP_ROUNDS):
            # The end of a dispatch may still be on its way to the tasks of its handlers.
            loop.run_until_complete(asyncio.sleep(0))
        ending = [task for task in asyncio.all_tasks(loop) if self._cleans_up(task)]
        loop.run_until_complete(asyncio.gather(*ending, return_exceptions=True))
        loop.run_until_complete(resources.close())

    def _cleans_up(self, task: asyncio.Task[Any]) -> bool:
        return task.cancelling() > 0 or task in self.cleanups


class LoopWorker(Worker):
    """A worker on a loop that runs already, in the thread that makes it; it has no thread and never closes the loop."""

    def __init__(self, name: str, platform: Platform, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name, 0.0, platform)
        self._running_loop = loop
        self.ident = threading.get_ident()
        forbid_waiting(self.ident, f"the event loop that {name} works on")
        begin_resources(loop)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._running_loop

    @property
    def started(self) -> bool:
        return False

    def submit(self, mailboxes: Sequence[Mailbox]) -> None:
        super().submit(mailboxes)
        if self._running_loop.is_closed():
            # It may have been closed while a drain was due.
            self._refuse()

    def stop(self, ended: Callable[[], None]) -> None:
        def end() -> None:
            # Not before: whoever waited on this thread would keep the loop from coming here.
            if self.ident is not None:
                allow_waiting(self.ident)
            resources = end_resources(self._running_loop)
            if resources is None:
                ended()
            else:
                self._close(resources, ended)

        # After the cancelled handlers have had their step.
        if not self.call_soon(end):
            end()

    def _close(self, resources: LoopResources, ended: Callable[[], None]) -> None:
        loop = self._running_loop

        def closed(task: asyncio.Task[None] | None = None) -> None:
            if task is not None:
                _closing.discard(task)
            forget_resources(loop, resources)
            ended()

        if loop.is_closed():
            resources.abandon()
            closed()
            return
        task = loop.create_task(resources.close())
        _closing.add(task)
        task.add_done_callback(closed)

    def join(self) -> None:
        pass
