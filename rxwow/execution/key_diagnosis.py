"""What the messages of one key wait for."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rxwow.execution.cause import Cause
from rxwow.execution.completion import InnerResults
from rxwow.execution.elastic_pool import ElasticPool, PoolFuture
from rxwow.execution.explanation import KeyExplanation, ThreadExplanation
from rxwow.execution.whereabouts import Place, is_running, place_of_coroutine

if TYPE_CHECKING:
    from rxwow.execution.completion import Waiting
    from rxwow.execution.mailbox import Mailbox
    from rxwow.execution.thread_diagnosis import Threads
    from rxwow.execution.worker import Worker

__all__ = ["KeyState"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyState:
    """A mailbox, as it was when the lock of its dispatch was held."""

    key: Hashable
    mailbox: Mailbox
    queued: int
    waiting: Waiting | None
    last: bool
    """Whether the message that was taken last is of this key; of a mailbox that keys share it may be of another."""

    @property
    def messages(self) -> int:
        """Messages that are unfinished; the one that is handled is not in the mailbox, but for one that is retried."""
        handled = self._in_turn if self.waiting is None else self.waiting.reason not in ("retry", "key")
        return self.queued + handled

    @property
    def worker(self) -> Worker | None:
        # It is given one a moment after it is made.
        return getattr(self.mailbox, "worker", None)

    @property
    def _in_turn(self) -> bool:
        return self.last and self.worker is not None and self.worker.turn_of is self.mailbox

    @property
    def _awaited(self) -> Any:
        """What the message waits for: the object whose method ends the wait early."""
        return None if self.waiting is None else getattr(self.waiting.cancel, "__self__", None)

    @property
    def _coroutine(self) -> Any:
        get_coro = getattr(self._awaited, "get_coro", None)
        return None if get_coro is None else get_coro()

    @property
    def pool(self) -> ElasticPool | None:
        """The pool that a handler that blocks is in."""
        awaited = self._awaited
        return awaited.pool if isinstance(awaited, PoolFuture) else None

    def cause(self) -> Cause:
        """Return what the first message waits for; `TURN` for whatever holds the worker, if anything does."""
        waiting = self.waiting
        if waiting is None or waiting.outcome is not None:
            return Cause.HANDLER if self._in_turn else Cause.TURN
        awaited = self._awaited
        if waiting.due is not None:
            return Cause.RETRY
        if isinstance(awaited, PoolFuture):
            return Cause.POOL_FULL if awaited.thread is None else Cause.POOL_THREAD
        if isinstance(awaited, concurrent.futures.Future):
            return Cause.FUTURE
        if isinstance(awaited, InnerResults):
            return Cause.NO_DEMAND if awaited._untaken else Cause.OBSERVABLE
        if awaited is None or is_running(self._coroutine):
            return Cause.HANDLER
        return Cause.AWAITABLE

    def seconds(self, now: float) -> float | None:
        """Return for how long it has waited, or has been handled; None if that is not known."""
        waiting = self.waiting
        if waiting is not None and waiting.outcome is None and waiting.since is not None:
            return now - waiting.since
        return now - self.mailbox.worker.turn_began if self._in_turn else None

    def explain(self, cause: Cause, threads: Threads) -> KeyExplanation:
        """Put together what is known; the stack of its handler is looked at here, and not before."""
        waiting = self.waiting
        worker: ThreadExplanation | None = None
        if cause in (Cause.TURN, Cause.WORKER) and self.worker is not None:
            worker = threads.worker(self.worker)
        return KeyExplanation(
            key=self.key,
            messages=self.messages,
            cause=cause,
            seconds=self.seconds(threads.now),
            place=self._place(cause, threads),
            due=None if waiting is None or waiting.due is None else max(0.0, waiting.due - threads.now),
            attempt=1 if waiting is None else waiting.attempt,
            worker=worker,
            detail=self._detail(),
        )

    def _place(self, cause: Cause, threads: Threads) -> Place | None:
        awaited = self._awaited
        if cause is Cause.HANDLER and self.worker is not None:
            return threads.worker(self.worker).place
        if cause is Cause.AWAITABLE:
            return place_of_coroutine(self._coroutine)
        if isinstance(awaited, PoolFuture) and awaited.thread is not None:
            return threads.pool_call(awaited.thread)
        return None

    def _detail(self) -> str:
        awaited = self._awaited
        if isinstance(awaited, concurrent.futures.Future):
            return "running" if awaited.running() else "pending"
        return ""
