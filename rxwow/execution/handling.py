"""What becomes of a message whose handler did not simply return a value: it waits, it failed, it is tried again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from contextvars import Context
from typing import TYPE_CHECKING, Any

from rxwow.errors import HandlerExit, InvalidKeyError
from rxwow.execution.completion import DUE, FINISHED, Begin, Outcome, Waiting, begin_observable, waits_for
from rxwow.execution.failure import FAIL, SKIP, Retry
from rxwow.execution.mailbox import Mailbox, NoKey

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch

__all__ = ["Handling"]

logger = logging.getLogger("rxwow.execution")


class Handling:
    """The slow path of a turn, for one dispatch; every method is called on the thread of the mailbox's worker.

    A method that is asked to deal with a message returns whether the turn goes on with the next message of the mailbox.
    """

    __slots__ = ("_dispatch",)

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch

    def begin_wait(
        self,
        mailbox: Mailbox,
        item: Any,
        attempt: int,
        begin: Begin,
        result: Any,
        context: Context,
        results: list[Any],
    ) -> bool:
        """Let the message wait for what its handler returned."""
        if results and begin is begin_observable:
            # Its items go downstream without a turn; the result of the message before it must not come after them.
            self._dispatch.emit(results)
        dispatch = self._dispatch
        waiting = Waiting(item, attempt, "")
        waiting.since = dispatch.platform.monotonic()
        try:
            begin(dispatch, mailbox, waiting, result, context)
        except BaseException as error:  # noqa: BLE001 - user code; it is the message's failure.
            dispatch.end_wait(mailbox, waiting, Outcome(error=error))
        with dispatch.lock:
            # Not before, or a wait could be found that can't be cancelled yet. It may have ended by now, on whatever
            # thread; the turn that deals with that is this worker's too.
            mailbox.waiting = waiting
            cancels = dispatch.closed
        if cancels and waiting.cancel is not None:
            waiting.cancel()
        return False

    def resume(self, mailbox: Mailbox, results: list[Any]) -> bool:
        """Deal with the outcome of what the message waited for."""
        dispatch = self._dispatch
        with dispatch.lock:
            waiting = mailbox.waiting
            mailbox.waiting = None
        if waiting is None or waiting.outcome is None:
            return True
        outcome = waiting.outcome
        if outcome is DUE:
            return self._try(mailbox, waiting.attempt + 1, results)
        if outcome.error is not None:
            return self.failed(mailbox, waiting.item, waiting.attempt, outcome.error, results)
        if outcome is FINISHED:
            dispatch.results_taken(1)
        else:
            results.append(outcome.result)
        return True

    def _try(self, mailbox: Mailbox, attempt: int, results: list[Any]) -> bool:
        dispatch = self._dispatch
        if dispatch.closed:
            # Its end discards the message.
            return True
        try:
            item = mailbox.popleft()
        except IndexError:
            # Taken by the end of the dispatch, from another thread.
            return True
        if isinstance(mailbox.key, NoKey):
            return self.failed(mailbox, item, attempt, InvalidKeyError(item, mailbox.key.error), results)
        try:
            context = dispatch.context.copy()
            result = context.run(dispatch.handler, item)
        except BaseException as error:  # noqa: BLE001 - the worker must outlive its handlers.
            return self.failed(mailbox, item, attempt, error, results)
        begin = waits_for(result, dispatch.kinds)
        if begin is not None:
            return self.begin_wait(mailbox, item, attempt, begin, result, context, results)
        results.append(result)
        return True

    def failed(self, mailbox: Mailbox, item: Any, attempt: int, error: BaseException, results: list[Any]) -> bool:
        """Do with the failed message what the failure policy says."""
        dispatch = self._dispatch
        cancelled = isinstance(error, (asyncio.CancelledError, concurrent.futures.CancelledError))
        if cancelled and dispatch.closed:
            # Cancelled by the end of the dispatch: that is not the handler's outcome.
            dispatch.discard([item])
            return True
        failure = HandlerExit(error) if cancelled or not isinstance(error, Exception) else error
        if dispatch.closed:
            self._end(mailbox, item, failure, results)
            return True
        decision, failure = dispatch.options.on_failure.decide(item, failure, attempt)
        if isinstance(decision, Retry):
            self._retry_later(mailbox, item, attempt, failure, decision.delay)
            return False
        if decision is SKIP:
            self._skip(mailbox, item, failure)
        elif decision is FAIL:
            self._end(mailbox, item, failure, results)
        return True

    def _retry_later(self, mailbox: Mailbox, item: Any, attempt: int, error: Exception, delay: float) -> None:
        dispatch = self._dispatch
        waiting = Waiting(item, attempt, "retry")
        timer = mailbox.worker.loop.call_later(delay, dispatch.end_wait, mailbox, waiting, DUE)
        waiting.cancel = timer.cancel
        waiting.since = dispatch.platform.monotonic()
        waiting.due = waiting.since + delay
        with dispatch.lock:
            closed = dispatch.closed
            if not closed:
                # Back to the head, where the end of the dispatch finds it as it finds any queued message.
                mailbox.appendleft(item)
                mailbox.waiting = waiting
        if closed:
            timer.cancel()
            dispatch.discard([item])
        else:
            dispatch.hooks.report("message_retried", dispatch.options.name, mailbox.key, item, error, delay)

    def _skip(self, mailbox: Mailbox, item: Any, error: Exception) -> None:
        dispatch = self._dispatch
        with dispatch.lock:
            dispatch.window.skip(1)
        logger.warning("%s skipped a message of key %r that failed", dispatch.options.name, mailbox.key, exc_info=error)
        dispatch.hooks.report("message_skipped", dispatch.options.name, mailbox.key, item, error)

    def _end(self, mailbox: Mailbox, item: Any, error: Exception, results: list[Any]) -> None:
        dispatch = self._dispatch
        # The results of the messages before this one come before its error.
        dispatch.emit(results)
        with dispatch.lock:
            dispatch.window.fail(1)
            first = not dispatch.closed and not dispatch.failed
            dispatch.failed = True
        dispatch.hooks.report("message_failed", dispatch.options.name, mailbox.key, item, error)
        if first:
            dispatch.terminate(error)
        else:
            # Nobody can be told by on_error any more.
            logger.error(
                "a handler of %s failed after its end, for key %r", dispatch.options.name, mailbox.key, exc_info=error
            )
