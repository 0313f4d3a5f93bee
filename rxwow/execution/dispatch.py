"""A dispatch: one subscription to a keyed dispatch, from the messages it receives to the results it emits."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from reactivex import abc

from rxwow.errors import HandlerExit
from rxwow.execution.completion import Begin, Outcome, Waiting
from rxwow.execution.expectation import Expectation
from rxwow.execution.handling import Handling
from rxwow.execution.lineage import lineage
from rxwow.execution.mailbox import Mailbox, NoKey
from rxwow.execution.mailbox_set import MailboxSet
from rxwow.execution.outlet import Outlet
from rxwow.execution.placement import is_held
from rxwow.execution.statistics import DispatchStatistics
from rxwow.execution.window import InFlightWindow
from rxwow.streams.containment import is_contained
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

if TYPE_CHECKING:
    from rxwow.execution.executor import KeyedExecutor
    from rxwow.execution.explanation import DispatchExplanation
    from rxwow.execution.options import DispatchOptions
    from rxwow.execution.shared_mailbox import SharedMailbox
    from rxwow.execution.worker import Worker

__all__ = ["Dispatch"]

logger = logging.getLogger("rxwow.execution")


class Dispatch(BatchSubscriber[Any]):
    """The stations of one dispatch, and what passes between them.

    It subscribes to the source, admits what comes to the window, puts it into mailboxes, gives new mailboxes to
    workers, and is told by their turns what became of each message.

    `lock` guards the window, the mailboxes, each mailbox's `waiting`, `closed`, `failed`, `_upstream_done`,
    `asked_by` (the thread that asks the source now, and since when) and what is expected of turns. No user
    code is called with it held, but for the equality of keys. `closed` only ever becomes true, and is also read without
    it where a stale look does no harm.
    """

    def __init__(self, options: DispatchOptions, executor: KeyedExecutor, subscriber: Subscriber[Any]) -> None:
        self.options = options
        self.platform = executor.platform
        self.lock = self.platform.lock()
        self.window = InFlightWindow(options.max_in_flight)
        self.mailboxes = MailboxSet(self)
        self.outlet = Outlet(subscriber, self)
        self.handling = Handling(self)
        self.hooks = executor.hooks
        # Read by each turn.
        self.handler = options.handler
        self.throughput = options.throughput
        self.context = contextvars.copy_context()
        self.kinds: dict[type, Begin | None] = {}
        self.expectation = Expectation()
        self.closed = False
        self.failed = False
        self.feeds, self.within = lineage()
        self._executor = executor
        self.scheduler: abc.SchedulerBase | None = None
        """The one given to `subscribe`; the Observables that handlers return are given it too."""
        self._upstream: Subscription | None = None
        self._upstream_done = False
        self.asked_by: tuple[int, float] | None = None
        self.subscribed_by: tuple[int, float] | None = None
        """The thread that subscribes to the source now, and since when; told by `explain`."""

    # From the source to a mailbox.

    def on_subscribe(self, subscription: Subscription) -> None:
        with self.lock:
            self._upstream = subscription
            cancels = self.closed or self._upstream_done
        if cancels:
            subscription.cancel()
        else:
            self.replenish()

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """Offer an async source a loop to run on: a worker's."""
        return self._executor.any_worker().loop

    def on_next(self, value: Any) -> None:
        self.on_next_batch([value])

    def on_next_batch(self, items: Sequence[Any]) -> None:
        keys: list[Hashable]
        distinct: set[Hashable] | None
        try:
            keys = list(map(self.options.key, items))
            # Hashed before the lock is taken, since a hash is user code.
            distinct = set(keys)
        except BaseException as error:
            if not is_contained(error):
                raise
            # Found out and dealt with item by item.
            keys = [self._key_of(item) for item in items]
            distinct = None
        made: list[Mailbox] = []
        shared: list[SharedMailbox] = []
        with self.lock:
            refused = self.closed or self._upstream_done
            self.window.admit(len(items))
            if refused:
                pass
            elif distinct is None:
                made, shared = self.mailboxes.put_singly(keys, items)
            else:
                made, shared = self.mailboxes.deliver(keys, distinct, items, self._sharing_worker(keys, distinct))
            # The actions of a scheduler are of all kinds: what one took says nothing of the next.
            expected_turn = None if self.options.serves else self.expectation.turn
        for mailbox in shared:
            mailbox.worker.submit((mailbox,))
        if made:
            self._executor.place(made, expected_turn)
        if refused:
            self.discard(items)

    def _sharing_worker(self, keys: Collection[Hashable], distinct: Collection[Hashable]) -> Worker | None:
        """Return the worker for messages whose keys share a mailbox; None if they should not. The lock is held."""
        if self.options.serves or not self.expectation.shares(len(keys), len(distinct)):
            return None
        worker = self.mailboxes.sharing_worker
        if worker is None:
            return self._executor.choose(self.expectation.turn)
        # A handler that was always fast is slow this time: whoever needn't wait for it goes elsewhere.
        return None if is_held(worker) else worker

    def _key_of(self, item: Any) -> Hashable:
        try:
            key = self.options.key(item)
            hash(key)
        except BaseException as error:
            if not is_contained(error):
                raise
            return NoKey(error)
        return key

    def on_error(self, error: Exception) -> None:
        with self.lock:
            quiesced = self._upstream_done
        if quiesced:
            # A drain has cancelled the source; its messages finish.
            logger.warning("the source of %s failed after it was cancelled", self.options.name, exc_info=error)
        else:
            self.terminate(error)

    def on_completed(self) -> None:
        with self.lock:
            self._upstream_done = True
            completes = not self.mailboxes and not self.closed
        if completes:
            self.outlet.complete()

    def replenish(self) -> None:
        """Ask the source for what the window has room for, on this thread.

        One thread asks at a time. What becomes free meanwhile is asked for by a worker later, and not in a loop here: a
        source that answers at once would keep this thread, and the mailboxes of its worker, for ever.
        """
        with self.lock:
            upstream = self._upstream
            if upstream is None or self.asked_by or self._upstream_done or self.closed or not self.outlet.opened:
                return
            amount = self.window.to_request()
            if not amount:
                return
            self.asked_by = (threading.get_ident(), self.platform.monotonic())
        try:
            upstream.request(amount)
        except BaseException as error:
            # An exit on the main thread, which goes on from here; the source has ended without a word.
            self.terminate(HandlerExit(error, "source or the key function"))
            raise
        with self.lock:
            self.asked_by = None
            more = self.window.has_batch() and not self._upstream_done and not self.closed
        if more:
            self._executor.any_worker().call_soon(self.replenish)

    # What turns and completions tell.

    def settle(
        self, worker: Worker, results: list[Any], emptied: list[Mailbox], turns: int, messages: int, seconds: float
    ) -> None:
        """End a batch of turns: retire the mailboxes that are empty, emit the results, ask for more messages."""
        # Held until the lock is released: the last reference to a key may run code of the user's.
        keys = [mailbox.key for mailbox in emptied]
        divided: tuple[Any, list[Mailbox], list[Any]] = (None, [], [])
        with self.lock:
            self.expectation.learn(turns, messages, len(results), seconds)
            if self.closed:
                self.window.succeed(len(results))
                return
            filled, broken = self.mailboxes.retire(emptied) if emptied else (emptied, None)
            if not self.expectation.cheap and self.mailboxes.sharing_worker is worker:
                divided = self.mailboxes.divide(None)
            if results:
                self.outlet.put(results)
            completes = self._upstream_done and not self.mailboxes
        if broken is not None:
            self.terminate(broken)
            return
        del keys
        # Messages that are here already come before those that the source is asked for now.
        if filled:
            worker.fifo.extend(filled)
        if divided[1]:
            self._executor.place(divided[1], self.expectation.turn)
        if completes:
            self.outlet.complete()
        elif results:
            self.outlet.wake()
        else:
            self.replenish()

    def divide(self, shared: SharedMailbox) -> Mailbox:
        """Divide the shared mailboxes among their keys; called on their worker's thread.

        Args:
            shared: the one whose last message that was taken is not finished.

        Returns:
            The mailbox of that message's key.
        """
        with self.lock:
            self.expectation.cheap = False
            # Nobody comes to a mailbox after the end; it is for those that must be told of the message.
            own, made, held = (None, [], []) if self.closed else self.mailboxes.divide(shared)
        del held
        if own is None:
            own = self.mailboxes.make_detached(shared.keys[shared.begun - 1])
        own.worker = shared.worker
        if made:
            self._executor.place(made, self.expectation.turn)
        return own

    def emit(self, results: list[Any]) -> None:
        """Emit the results of as many messages, of a batch that is not at its end, and empty the list."""
        with self.lock:
            if self.closed:
                self.window.succeed(len(results))
            elif results:
                self.outlet.put(results[:])
        results.clear()
        self.outlet.wake()

    def end_wait(self, mailbox: Mailbox, waiting: Waiting, outcome: Outcome) -> None:
        """Take the outcome of a wait, from any thread, once; the mailbox's next turn deals with it."""
        with self.lock:
            if waiting.outcome is not None:
                return
            waiting.outcome = outcome
        mailbox.worker.submit((mailbox,))

    def results_taken(self, count: int) -> None:
        """Let as many messages leave the window as results were taken, or dropped."""
        with self.lock:
            self.window.succeed(count)

    # The end.

    def terminate(self, error: Exception) -> None:
        """End with `error`, now, if it has not ended."""
        self.outlet.fail(error, at_once=True)
        # Whoever else is just ending it may not have come to this.
        self.close()

    def refuse(self, mailbox: Mailbox, error: Exception) -> None:
        """End with `error`, since the worker of `mailbox` serves it no more; account for a wait that is over."""
        self.terminate(error)
        results: list[Any] = []
        self.handling.resume(mailbox, results)
        self.results_taken(len(results))

    def quiesce(self) -> None:
        """Accept nothing more, and complete when what was accepted has finished."""
        with self.lock:
            upstream = self._upstream
            # If its subscription comes only now, `on_subscribe` sees this and cancels it.
            self._upstream_done = self._upstream_done or upstream is None
        quiesce: Callable[[], None] | None = getattr(upstream, "quiesce", None)
        if quiesce is not None:
            # It has accepted something itself, and completes after that.
            quiesce()
            return
        self.on_completed()
        if upstream is not None:
            upstream.cancel()

    def close(self) -> None:
        """Let go of everything: cancel the source, discard what is queued, cancel what waits. Idempotent."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            mailboxes = self.mailboxes.take_all()
            waits = [(mailbox, mailbox.waiting) for mailbox in mailboxes if mailbox.waiting is not None]
        # The messages first: until they are taken, turns that are running go on with them.
        queued: list[Any] = []
        for mailbox in mailboxes:
            while mailbox:
                try:
                    queued.append(mailbox.popleft())
                except IndexError:
                    # A turn was faster.
                    break
        for mailbox, waiting in waits:
            self._cancel(mailbox, waiting)
        try:
            if self._upstream is not None:
                self._upstream.cancel()
        finally:
            # Also if an exit comes out of the source, on the main thread.
            self.outlet.drop()
            self.discard(queued)
            self._executor.forget(self)

    def _cancel(self, mailbox: Mailbox, waiting: Waiting) -> None:
        if waiting.cancel is None or mailbox.worker.call_soon(waiting.cancel):
            return
        # The worker's loop was closed under it, so this thread is as good.
        if waiting.reason == "awaitable":
            self.end_wait(mailbox, waiting, Outcome(error=asyncio.CancelledError()))
        else:
            waiting.cancel()

    def discard(self, items: Sequence[Any]) -> None:
        """Give up messages that no handler has finished, each through `on_discard`."""
        with self.lock:
            self.window.discard(len(items))
        on_discard = self.options.on_discard
        if on_discard is None:
            return
        for item in items:
            try:
                on_discard(item)
            except BaseException:
                # An exit too: it would keep the other messages from being discarded, and the dispatch from its end.
                logger.exception("on_discard of %s raised", self.options.name)

    def waits_for(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether a message waits for `task`, which runs its handler."""
        with self.lock:
            return task is not None and any(waiting.task is task for waiting in self.mailboxes.waits())

    def statistics(self) -> DispatchStatistics:
        """Return what the dispatch is doing now."""
        with self.lock:
            sizes = self.mailboxes.sizes()
            return DispatchStatistics(
                name=self.options.name,
                window=self.window.statistics(),
                mailboxes=len(sizes),
                peak_mailboxes=self.mailboxes.peak,
                mailboxed=sum(size for _, size, _ in sizes),
                waiting=sum(handler_waits for _, _, handler_waits in sizes),
                untaken=self.outlet.untaken,
                deepest=tuple(
                    heapq.nlargest(10, ((key, size) for key, size, _ in sizes if size), key=lambda pair: pair[1])
                ),
                expected_turn=self.expectation.turn,
                closed=self.closed,
            )

    def explain(self) -> DispatchExplanation:
        """Return why nothing moves, if nothing moves; see `KeyedExecutor.explain`."""
        from rxwow.execution.diagnosis import explain_dispatch

        return explain_dispatch(self)
