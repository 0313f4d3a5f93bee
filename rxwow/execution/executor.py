"""KeyedExecutor: the workers that keyed dispatches share, and their end."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rxwow.errors import BlockingCallError, ExecutorClosedError, InvalidArgumentError, UsageError
from rxwow.execution.detection import check_can_detect, mark_handlers
from rxwow.execution.elastic_pool import ElasticPool
from rxwow.execution.hooks import ExecutionHook, HookSet
from rxwow.execution.latch import Latch
from rxwow.execution.lineage import to_quiesce
from rxwow.execution.options import check_count, check_name
from rxwow.execution.parallelism import available_cpus
from rxwow.execution.placement import choose, place
from rxwow.execution.process import process, stop_forgotten
from rxwow.execution.slow_turns import SlowTurns, check_slow_turn
from rxwow.execution.statistics import ExecutorStatistics
from rxwow.execution.worker import MAX_SPIN, Worker
from rxwow.execution.worker_kinds import LoopWorker, ThreadWorker
from rxwow.platform import PRODUCTION, current_platform
from rxwow.streams.guard import check_may_wait

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.explanation import ExecutorExplanation
    from rxwow.execution.mailbox import Mailbox

__all__ = ["KeyedExecutor"]

logger = logging.getLogger("rxwow.execution")

OPEN: Final = "open"
DRAINING: Final = "draining"
CLOSED: Final = "closed"


class KeyedExecutor:
    """A few workers, each a thread with an event loop, that run the handlers of any number of keyed dispatches.

    Making one starts nothing: a worker's thread starts with its first message. An executor is ended by `drain`, which
    lets what was accepted finish, or by `dispose`, which does not; `with` and `async with` drain at a normal exit and
    dispose after an exception. One that is forgotten is disposed, with a `ResourceWarning`, when it is collected or the
    process ends.

    `_lock` guards `_state`, `_dispatches`, `_quiesced`, `_related`, `_unfinished` and `_blocking_pool`.

    Args:
        workers: how many; by default as many as this process may use CPUs (`available_cpus`).
        max_in_flight: default for dispatches: most messages received and not finished.
        throughput: default for dispatches: most messages of one key that complete synchronously in one turn.
        spin: seconds that a worker which has run out of messages polls before it parks, at most `MAX_SPIN` (1 ms). It
            saves a wake-up for messages that come at short intervals, and costs that much CPU each time; under a CPU
            quota leave it 0. A worker spins only when its last wait was shorter than `spin`.
        name: stands in the names of the threads, `name-0` and so on, and in errors and logs.
        loop_factory: makes each worker's event loop, such as `uvloop.new_event_loop`.
        slow_turn: seconds; a turn that holds its worker longer is logged with its dispatch, key and stack, once a
            minute for each dispatch. A thread watches while workers run; 0 or None for no watch.
        detect_blocking: raise `BlockingCallError` in a handler that sleeps or waits for a socket, a file or a lock and
            would hold its worker, but not in one that is `@blocking` or has its own pool. For development: it uses
            blockbuster (`pip install "rxwow[debug]"`), which slows such calls down in the whole process, and doesn't
            see a C extension's, a `with` on a lock, or a function bound to a name before (`from time import sleep`).

    Raises:
        InvalidArgumentError: an argument can't work.
        UsageError: `detect_blocking` without blockbuster.

    >>> from rxwow import Flowable, keyed_dispatch
    >>> with KeyedExecutor(workers=2) as executor:
    ...     dispatch = keyed_dispatch(lambda number: number % 2, str, executor=executor)
    ...     sorted(Flowable.from_iterable(range(4)).pipe(dispatch).to_list().run())
    ['0', '1', '2', '3']
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        max_in_flight: int = 256,
        throughput: int = 16,
        spin: float = 0.0,
        name: str = "rxwow",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        slow_turn: float | None = 1.0,
        detect_blocking: bool = False,
    ) -> None:
        if workers is not None:
            check_count("workers", workers)
        if loop_factory is not None and not callable(loop_factory):
            raise InvalidArgumentError("loop_factory", loop_factory, "a function that makes an event loop")
        check_slow_turn(slow_turn)
        if detect_blocking:
            check_can_detect()
        self._set_up(max_in_flight, throughput, spin, name, detects_blocking=detect_blocking)
        self._workers: Sequence[Worker] = [
            ThreadWorker(f"{name}-{number}", spin, self.platform, loop_factory, detects_blocking=detect_blocking)
            for number in range(workers or available_cpus())
        ]
        self._watch(slow_turn)

    def _watch(self, slow_turn: float | None) -> None:
        """See to it that slow turns are told of, and that the executor is ended even if it is forgotten.

        Under test, the test's own platform ends what is left of a run, and a thread that watches would be one more
        whose steps each schedule has to draw.
        """
        self._slow_turns: SlowTurns | None = None
        self._forgotten: weakref.finalize[..., KeyedExecutor] | None = None
        if self.platform is not PRODUCTION:
            return
        if slow_turn:
            self._slow_turns = SlowTurns(slow_turn, self._workers, f"{self.name}-watchdog", self.platform)
        process.add(self)
        self._forgotten = weakref.finalize(self, stop_forgotten, self.name, tuple(self._workers))
        # At the exit of the process, `process` disposes those that are still referred to.
        self._forgotten.atexit = False

    def _set_up(
        self, max_in_flight: int, throughput: int, spin: float, name: str, *, detects_blocking: bool = False
    ) -> None:
        check_count("max_in_flight", max_in_flight)
        check_count("throughput", throughput)
        if not isinstance(spin, (int, float)) or not 0 <= spin <= MAX_SPIN:
            raise InvalidArgumentError("spin", spin, f"a number of seconds from 0 to {MAX_SPIN}")
        check_name(name)
        self.name = name
        self.max_in_flight = max_in_flight
        self.throughput = throughput
        self.platform = current_platform()
        self.hooks = HookSet(self.platform)
        self._lock = self.platform.lock()
        self._state = OPEN
        self._dispatches: set[Dispatch] = set()
        self._quiesced: set[Dispatch] = set()
        self._related = False
        self._unfinished = False
        self._blocking_pool: ElasticPool | None = None
        self._detects_blocking = detects_blocking
        self._process_id = os.getpid()
        self._idle = Latch(self.platform)
        self._closed = Latch(self.platform)

    @classmethod
    def on_running_loop(cls, *, max_in_flight: int = 256, throughput: int = 16, name: str = "rxwow") -> KeyedExecutor:
        """Make an executor without threads: one worker on the event loop that runs in the calling thread.

        Its handlers can use what is bound to that loop, such as HTTP sessions and database pools.

        Raises:
            UsageError: no event loop runs in this thread.

        >>> async def main():
        ...     async with KeyedExecutor.on_running_loop() as executor:
        ...         return executor.statistics().state
        >>> asyncio.run(main())
        'open'
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise UsageError(
                "KeyedExecutor.on_running_loop() must be called in a coroutine; no event loop runs in this thread"
            ) from error
        executor = cls.__new__(cls)
        executor._set_up(max_in_flight, throughput, 0.0, name)
        executor._workers = [LoopWorker(f"{name}-loop", executor.platform, loop)]
        executor._watch(slow_turn=None)
        return executor

    @classmethod
    def shared(cls) -> KeyedExecutor:
        """Return the executor that all dispatches of the process use by default; it can't be drained or disposed.

        A process that was forked makes its own, when it first asks for it.
        """
        return process.get_shared(lambda: cls(name="rxwow-shared"))

    # What dispatches ask.

    def accept(self, dispatch: Dispatch) -> ExecutorClosedError | None:
        """Take in a dispatch that is about to subscribe; return the error to end it with if it is too late."""
        if self._inherited():
            return self._inherited_error()
        if self._detects_blocking:
            mark_handlers(dispatch.context, dispatch.options.name)
        feeds, within = dispatch.feeds, dispatch.within
        with self._lock:
            # The result of a message that was accepted is part of it.
            if self._state == OPEN or (self._state == DRAINING and within in self._dispatches):
                self._dispatches.add(dispatch)
                self._related = self._related or bool(feeds or within or dispatch.options.serves)
                return None
            cuts = self._state == DRAINING and feeds in self._dispatches
        if cuts and feeds is not None:
            # Its source subscribes again, as `concat` and `repeat` do; it finishes what it has.
            feeds.quiesce()
        return ExecutorClosedError(self.name, "subscribe while it is open, or use another")

    def forget(self, dispatch: Dispatch) -> None:
        """Let go of a dispatch that has ended."""
        if self._inherited():
            return
        with self._lock:
            self._dispatches.discard(dispatch)
            self._quiesced.discard(dispatch)
            # Only one that is related to others can have kept them from their turn, and most are not.
            ready = self._take_ready() if self._related and self._state == DRAINING else []
            idle = self._state != OPEN and not self._dispatches
        for other in ready:
            other.quiesce()
        if idle:
            self._idle.open()

    def place(self, mailboxes: Sequence[Mailbox], expected_turn: float | None) -> None:
        """Give new mailboxes to workers; see `rxwow.execution.placement`."""
        place(self._workers, mailboxes, expected_turn)

    def choose(self, expected_turn: float | None) -> Worker:
        """Return the worker for what one new mailbox will have."""
        return choose(self._workers, expected_turn)

    def any_worker(self) -> Worker:
        """Return a worker for something that any of them can do."""
        ident = threading.get_ident()
        for worker in self._workers:
            if worker.ident == ident:
                return worker
        return choose(self._workers, None)

    def blocking_pool(self) -> ElasticPool:
        """Return the threads for handlers that block, which are this executor's own."""
        with self._lock:
            if self._blocking_pool is None:
                self._blocking_pool = ElasticPool(self.name, self.platform)
                if self._state == CLOSED:
                    self._blocking_pool.stop(_nothing)
            return self._blocking_pool

    # What users ask.

    def add_hook(self, hook: ExecutionHook) -> None:
        """Have `hook` told what happens to messages."""
        if not isinstance(hook, ExecutionHook):
            raise InvalidArgumentError("hook", hook, "an ExecutionHook")
        self.hooks.add(hook)

    def remove_hook(self, hook: ExecutionHook) -> None:
        """Tell `hook` nothing more."""
        self.hooks.remove(hook)

    def statistics(self) -> ExecutorStatistics:
        """Return what the executor, its workers and its dispatches are doing now."""
        self._refuse_if_inherited()
        with self._lock:
            state, dispatches = self._state, list(self._dispatches)
        return ExecutorStatistics(
            name=self.name,
            state=state,
            workers=tuple(worker.statistics() for worker in self._workers),
            dispatches=tuple(dispatch.statistics() for dispatch in dispatches),
        )

    def explain(self, name: str | None = None) -> ExecutorExplanation:
        """Return why nothing moves, if nothing moves: who waits for whom, for how long, and at which line of code.

        It is for a person: `str()` of it is a few lines that begin with the cause. What moves meanwhile may be seen on
        both sides of its step. Not for a display: it looks at each message that waits, and at the stacks of threads.

        Args:
            name: that of the dispatches to tell of; None for all that have not ended.

        >>> with KeyedExecutor(workers=1, name="till") as executor:
        ...     print(executor.explain())
        executor 'till' has nothing to do: nothing is subscribed
        """
        from rxwow.execution.diagnosis import explain_executor

        self._refuse_if_inherited()
        with self._lock:
            state, dispatches = self._state, list(self._dispatches)
        return explain_executor(self.name, state, self._workers, dispatches, name)

    def dispose(self) -> None:
        """End now, without waiting: the force stop. Idempotent; may be called from anywhere.

        Queued messages are discarded on the calling thread, running handlers finish their current step, and every
        dispatch ends with `ExecutorClosedError`. `wait_closed` says when the threads are gone.
        """
        self._refuse_if_shared("dispose")
        with self._lock:
            if self._state == CLOSED:
                return
            self._state = CLOSED
            dispatches = list(self._dispatches)
            self._unfinished = bool(dispatches)
        error = ExecutorClosedError(self.name, "it was disposed before this dispatch had finished")
        with ExitStack() as ends:
            # All of them, even if an exit comes out of a subscriber on the main thread.
            ends.callback(self._stop_workers)
            ends.callback(self._idle.open)
            for dispatch in dispatches:
                ends.callback(dispatch.terminate, error)

    def dispose_forgotten(self) -> None:
        """Dispose with a `ResourceWarning` at the exit of the process, if anything was started and never ended."""
        with self._lock:
            forgotten = self._state != CLOSED and bool(
                self._dispatches or any(worker.started for worker in self._workers)
            )
        if forgotten:
            self.dispose()
            # Last, as warnings may be errors.
            warnings.warn(
                f"executor {self.name!r} was neither drained nor disposed before the process ended; use it in a `with` "
                "block",
                ResourceWarning,
                stacklevel=1,
            )

    def drain(self, timeout: float | None = None) -> bool:
        """Accept nothing more, wait until what was accepted has finished, and end: the graceful stop.

        It blocks the calling thread. If results are taken on that thread, by an `async for` of its event loop say, or
        by an `on_next` that makes this call, it waits for itself: there `drain_async`, or give a `timeout`.

        Args:
            timeout: seconds; when they are over, what is left is disposed. None waits for as long as it takes.

        Returns:
            Whether all that was accepted has finished; if not, the threads may take a moment longer (`wait_closed`).

        Raises:
            BlockingCallError: called on a worker, which would wait for itself.
        """
        self._refuse_if_shared("drain")
        check_may_wait("drain()", "call it on another thread, or await drain_async()")
        self._quiesce()
        self._idle.wait(timeout)
        self.dispose()
        finished = not self._unfinished
        if finished:
            self.wait_closed()
        return finished

    def drain_then(self, drained: Callable[[bool], object]) -> None:
        """Begin what `drain` does, without waiting.

        Args:
            drained: called with what `drain` returns, on the thread that ended last, when all threads have ended.
        """
        self._refuse_if_shared("drain_then")

        def end() -> None:
            self.dispose()
            self._closed.when_open(lambda: drained(not self._unfinished))

        self._quiesce()
        self._idle.when_open(end)

    async def drain_async(self, timeout: float | None = None) -> bool:
        """Do what `drain` does, without blocking the event loop.

        Raises:
            BlockingCallError: awaited in a handler of this executor, which it would wait for.
        """
        self._refuse_if_shared("drain_async")
        self._refuse_in_own_handler()
        self._quiesce()
        await self._idle.wait_async(timeout)
        self.dispose()
        finished = not self._unfinished
        if finished:
            await self.wait_closed_async()
        return finished

    def wait_closed(self, timeout: float | None = None) -> bool:
        """Wait until a disposed or drained executor has no thread left.

        Args:
            timeout: seconds to wait at most.

        Returns:
            Whether all threads are gone.

        Raises:
            BlockingCallError: called on a worker, which would wait for itself.
        """
        self._refuse_if_inherited()
        check_may_wait("wait_closed()", "call it on another thread, or await wait_closed_async()")
        closed = self._closed.wait(timeout)
        if closed:
            self._join_workers()
        return closed

    async def wait_closed_async(self, timeout: float | None = None) -> bool:
        """Do what `wait_closed` does, without blocking the event loop."""
        self._refuse_if_inherited()
        closed = await self._closed.wait_async(timeout)
        if closed:
            self._join_workers()
        return closed

    def __enter__(self) -> Self:
        self._refuse_if_shared("with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inherited():
            # The parent's block ends it.
            return
        if error is None:
            try:
                self.drain()
            except BaseException:
                # The user is tired of waiting, or this thread must not wait.
                self.dispose()
                raise
        else:
            self.dispose()

    async def __aenter__(self) -> Self:
        self._refuse_if_shared("async with")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inherited():
            return
        if error is None:
            try:
                await self.drain_async()
            finally:
                # A drain that is cancelled must not leave threads behind.
                self.dispose()
        else:
            self.dispose()

    def __repr__(self) -> str:
        return f"<KeyedExecutor {self.name!r} workers={len(self._workers)} {self._state}>"

    # The end.

    def _quiesce(self) -> None:
        with self._lock:
            if self._state == OPEN:
                self._state = DRAINING
            ready = self._take_ready()
            idle = not self._dispatches
        for dispatch in ready:
            dispatch.quiesce()
        if idle:
            self._idle.open()

    def _take_ready(self) -> list[Dispatch]:
        """Return the dispatches to quiesce now, each once; called with the lock held.

        Once, because one that is quiesced may end at once, and its end comes here: a thousand would nest in each other.
        """
        ready = [dispatch for dispatch in to_quiesce(self._dispatches) if dispatch not in self._quiesced]
        self._quiesced.update(ready)
        return ready

    def _stop_workers(self) -> None:
        if self._forgotten is not None:
            self._forgotten.detach()
        with self._lock:
            pool = self._blocking_pool
        left = len(self._workers) + (pool is not None)
        lock = self.platform.lock()

        def ended() -> None:
            nonlocal left
            with lock:
                left -= 1
                last = not left
            if last:
                self._closed.open()

        for worker in self._workers:
            worker.stop(ended)
        if pool is not None:
            pool.stop(ended)

    def _join_workers(self) -> None:
        # Each has said that it ends; a thread is gone a moment after that.
        for worker in self._workers:
            worker.join()
        if self._slow_turns is not None:
            self._slow_turns.join()

    def _inherited(self) -> bool:
        return os.getpid() != self._process_id

    def _inherited_error(self) -> ExecutorClosedError:
        return ExecutorClosedError(
            self.name, "it was made before this process was forked, and is its parent's to end; make one in the child"
        )

    def _refuse_if_inherited(self) -> None:
        """Refuse before any lock is taken: another thread may have held it when the process was forked."""
        if self._inherited():
            raise self._inherited_error()

    def _refuse_in_own_handler(self) -> None:
        task = asyncio.current_task()
        with self._lock:
            dispatches = list(self._dispatches)
        if any(dispatch.waits_for(task) for dispatch in dispatches):
            raise BlockingCallError(
                "drain_async()",
                "the handler that awaits it",
                "await it elsewhere, or start it and go on: asyncio.create_task(executor.drain_async())",
            )

    def _refuse_if_shared(self, call: str) -> None:
        self._refuse_if_inherited()
        if self is process.shared:
            raise UsageError(
                f"{call} on KeyedExecutor.shared(), which other code uses too; make an executor of your own to end it"
            )


def _nothing() -> None:
    pass
