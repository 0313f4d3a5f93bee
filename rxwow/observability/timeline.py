"""TimelineRecorder: which message of which key ran when, on which thread, and whether it kept its key's order."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from reactivex import Observable
from reactivex import operators as ops

from rxwow.errors import InvalidKeyError
from rxwow.execution.blocking import blocking, is_blocking
from rxwow.execution.options import check_callable, is_async
from rxwow.platform import current_platform

__all__ = ["HandlerRun", "TimelineRecorder"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class HandlerRun:
    """One call of a handler, from its beginning until what it returned was complete."""

    key: Hashable
    """The key of the message."""
    message: Any
    """What the handler was called with."""
    order: Any
    """The place of the message among those of its key, as `order` of `TimelineRecorder.wrap` gave it, or None."""
    thread: str
    """The name of the thread on which it began."""
    began: float
    """When it began, in seconds since the first run of its recorder began."""
    ended: float | None
    """When what it returned was complete, in seconds likewise; None if that is still to come."""
    failed: bool
    """Whether it raised, or what it returned ended with an error or was cancelled."""
    violates: bool
    """Whether it began before an earlier run of its key had ended, or after a message that comes later in its key."""


class _Call(NamedTuple):
    """What is known of a run when it begins."""

    key: Hashable
    message: Any
    order: Any
    thread: str


class _Entry:
    """A line of the log: a call began or ended."""

    __slots__ = ("call", "ends", "failed", "time")

    def __init__(self, call: _Call, time: float, *, ends: bool, failed: bool = False) -> None:
        self.call = call
        self.time = time
        self.ends = ends
        self.failed = failed


class TimelineRecorder:
    """Notes when the handlers that it wraps run, wherever they run: on workers, in a thread pool, in an RxPY pipeline.

    It keeps every message and is meant for looking at a few thousand of them, not for production. It reads the clock
    of the platform on whose thread the handler runs, so that under `rxwow.testing` its times are virtual.

    No lock guards `_log`, which is only appended to and copied. The list guards itself: each of the two is one step,
    under the GIL since it is one call into C, and on free-threaded CPython since it holds the list's own lock. A
    beginning is noted before the handler is called and an end before it returns, so the log's order is the true one.

    >>> from rxwow import Flowable, keyed_dispatch
    >>> recorder = TimelineRecorder()
    >>> handler = recorder.wrap(lambda payment: None, key=lambda payment: payment[0])
    >>> payments = Flowable.from_iterable([("ann", 5), ("bob", 3), ("ann", 2)])
    >>> payments.pipe(keyed_dispatch(lambda payment: payment[0], handler)).run()
    >>> sorted(run.key for run in recorder.runs), recorder.violations
    (['ann', 'ann', 'bob'], 0)
    """

    def __init__(self) -> None:
        self._log: list[_Entry] = []

    def wrap(
        self,
        handler: Callable[[T], R],
        *,
        key: Callable[[T], Hashable],
        order: Callable[[T], Any] | None = None,
    ) -> Callable[[T], R]:
        """Return a handler that does what `handler` does and notes when.

        Args:
            handler: a plain function or an `async def` of one message. What it returns may be an awaitable, a
                `concurrent.futures.Future` or an Observable: the run ends when that is complete. (A thread that waits
                in `result()` of such a Future may go on a moment before the end is noted.)
            key: gives the key of a message; called where the handler is called.
            order: gives the place of a message among those of its key: a number, or anything that can be compared.
                Without it, only runs that overlap count as violations.

        Returns:
            A plain function for a plain one, an `async def` for an `async def`, `@blocking` if `handler` is. It raises
            what the handler raises, and `InvalidKeyError` if the message has no key.

        Raises:
            InvalidArgumentError: an argument can't be called.

        >>> recorder = TimelineRecorder()
        >>> deliver = recorder.wrap(print, key=lambda number: number % 2, order=lambda number: number)
        >>> deliver(3)
        3
        >>> deliver(1)
        1
        >>> recorder.violations
        1
        """
        check_callable("handler", handler)
        check_callable("key", key)
        if order is not None:
            check_callable("order", order)
        if is_async(handler):
            return cast("Callable[[T], R]", self._wrap_async(cast("Any", handler), key, order))

        @functools.wraps(handler)
        def noted(message: T) -> R:
            call = self._begin(message, key, order)
            try:
                result = handler(message)
            except BaseException:
                self._end(call, failed=True)
                raise
            return cast("R", self._until_complete(call, result))

        return blocking(noted) if is_blocking(handler) else noted

    @property
    def runs(self) -> tuple[HandlerRun, ...]:
        """All runs so far, in the order in which they began."""
        log = self._log.copy()
        endings: dict[int, _Entry] = {}
        for entry in log:
            if entry.ends:
                # An Observable is disposed of after it completed, and may be subscribed to again; the first end counts.
                endings.setdefault(id(entry.call), entry)
        return tuple(
            _run(entry, endings.get(id(entry.call)), log[0].time, violates=violates)
            for entry, violates in _judged(log, endings)
        )

    @property
    def violations(self) -> int:
        """How many runs so far broke the order of their key; see `HandlerRun.violates`."""
        return sum(run.violates for run in self.runs)

    # Inside: called on the threads of the handlers.

    def _begin(self, message: Any, key: Callable[[Any], Hashable], order: Callable[[Any], Any] | None) -> _Call:
        try:
            of_key = key(message)
            hash(of_key)
        except Exception as error:
            raise InvalidKeyError(message, error) from error
        call = _Call(of_key, message, None if order is None else order(message), threading.current_thread().name)
        self._log.append(_Entry(call, current_platform().monotonic(), ends=False))
        return call

    def _end(self, call: _Call, *, failed: bool = False) -> None:
        self._log.append(_Entry(call, current_platform().monotonic(), ends=True, failed=failed))

    def _wrap_async(
        self,
        handler: Callable[[Any], Awaitable[Any]],
        key: Callable[[Any], Hashable],
        order: Callable[[Any], Any] | None,
    ) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        @functools.wraps(handler)
        async def noted(message: Any) -> Any:
            with self._noting_end(self._begin(message, key, order)):
                return await handler(message)

        return noted

    @contextmanager
    def _noting_end(self, call: _Call) -> Generator[None]:
        try:
            yield
        except BaseException:
            self._end(call, failed=True)
            raise
        self._end(call)

    async def _awaited(self, call: _Call, awaitable: Awaitable[Any]) -> Any:
        with self._noting_end(call):
            return await awaitable

    def _until_complete(self, call: _Call, returned: object) -> Any:
        """Return what the handler returned, or what stands for it, and see to it that its completion is noted first."""
        # Its type is asked, and never the value, whose `__class__` is user code.
        kind = type(returned)
        result: Any = returned
        if issubclass(kind, (concurrent.futures.Future, asyncio.Future)):
            self._note_end_of_future(call, result)
            return result
        if issubclass(kind, Observable):
            return result.pipe(
                # Noted on the way down: `finally_action` alone comes after the subscriber, which may begin the next.
                ops.do_action(
                    on_error=lambda _: self._end(call, failed=True),
                    on_completed=lambda: self._end(call),
                ),
                ops.finally_action(lambda: self._end(call, failed=True)),
            )
        if issubclass(kind, Awaitable):
            awaited = self._awaited(call, result)
            if issubclass(kind, Coroutine):
                # Whoever gives up `awaited` before its first step, closes it without entering it.
                weakref.finalize(awaited, self._close_unentered, call, result).atexit = False
            return awaited
        self._end(call)
        return result

    def _note_end_of_future(self, call: _Call, future: concurrent.futures.Future[Any] | asyncio.Future[Any]) -> None:
        def done(future: concurrent.futures.Future[Any] | asyncio.Future[Any]) -> None:
            self._end(call, failed=future.cancelled() or future.exception() is not None)

        # asyncio calls back in the loop's next round, and whoever awaits a future that is done does not wait for that.
        if future.done():
            done(future)
        else:
            future.add_done_callback(done)

    def _close_unentered(self, call: _Call, coroutine: Coroutine[Any, Any, Any]) -> None:
        coroutine.close()
        self._end(call, failed=True)


def _judged(log: list[_Entry], endings: dict[int, _Entry]) -> list[tuple[_Entry, bool]]:
    """Return each beginning, and whether it breaks the order of its key."""
    running: Counter[Hashable] = Counter()
    furthest: dict[Hashable, Any] = {}
    judged: list[tuple[_Entry, bool]] = []
    for entry in log:
        key, order = entry.call.key, entry.call.order
        if entry.ends:
            running[key] -= endings[id(entry.call)] is entry
            continue
        # The same place again is a retry.
        late = order is not None and key in furthest and order < furthest[key]
        judged.append((entry, late or running[key] > 0))
        running[key] += 1
        if order is not None and not late:
            furthest[key] = order
    return judged


def _run(begin: _Entry, end: _Entry | None, origin: float, *, violates: bool) -> HandlerRun:
    call = begin.call
    return HandlerRun(
        key=call.key,
        message=call.message,
        order=call.order,
        thread=call.thread,
        began=begin.time - origin,
        ended=None if end is None else end.time - origin,
        failed=end is not None and end.failed,
        violates=violates,
    )
