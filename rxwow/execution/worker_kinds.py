"""The two kinds of worker: one with a thread of its own, and one on a loop that runs already."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

from rxwow.errors import InvalidArgumentError
from rxwow.execution.mailbox import Mailbox
from rxwow.execution.worker import Worker
from rxwow.platform import Platform
from rxwow.streams.guard import allow_waiting, forbid_waiting

__all__ = ["LoopWorker", "ThreadWorker"]

logger = logging.getLogger("rxwow.execution")


class ThreadWorker(Worker):
    """A worker with a thread and a loop of its own, both made when it gets its first message.

    `_lock` guards `_loop`, `_has_thread` and `_ended`.
    """

    def __init__(
        self, name: str, spin: float, platform: Platform, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
    ) -> None:
        super().__init__(name, spin, platform)
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
            ended()
        else:
            # A thread that looked just now ends, and closes the loop, without being told.
            self.call_soon(loop.stop)

    def join(self) -> None:
        if self.started:
            self._thread.join()

    def _serve(self) -> None:
        loop = self.loop
        self.ident = threading.get_ident()
        forbid_waiting(self.ident, f"the worker {self.name}")
        asyncio.set_event_loop(loop)
        while self._ended is None:
            try:
                loop.run_forever()
            except BaseException:
                logger.critical("the loop of worker %s was ended by an exception; it goes on", self.name, exc_info=True)
        try:
            self._finish(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            try:
                # What came after the last drain: a future, say, that another thread completed.
                self._refuse()
            finally:
                allow_waiting(self.ident)
                self._ended()

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let what was cancelled come to its end, so that its clean-up runs and nothing is reported as lost."""
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            # A second cancel would end the clean-up that the first one has begun.
            if not task.cancelling():
                task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        # The outcomes of those tasks came back as turns.
        while self.fifo or self._interrupted:
            self._drain()
        loop.run_until_complete(loop.shutdown_asyncgens())
        # The threads of asyncio.to_thread are this worker's too.
        loop.run_until_complete(loop.shutdown_default_executor())


class LoopWorker(Worker):
    """A worker on a loop that runs already, in the thread that makes it; it has no thread and never closes the loop."""

    def __init__(self, name: str, platform: Platform, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name, 0.0, platform)
        self._running_loop = loop
        self.ident = threading.get_ident()
        forbid_waiting(self.ident, f"the event loop that {name} works on")

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
            ended()

        # After the cancelled handlers have had their step.
        if not self.call_soon(end):
            end()

    def join(self) -> None:
        pass
