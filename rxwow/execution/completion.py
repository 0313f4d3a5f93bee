"""When a handler is finished: a plain value at once; what it waits for or emits, when that completes.

While it waits, the message holds its mailbox and no worker. However the wait ends, and on whatever thread, the outcome
is left in the mailbox and the mailbox goes back to its worker: it is one more turn. So the next message of a key can't
start before the outcome of the one before it was dealt with, and no completion needs a lock against a turn.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, cast

from reactivex import Observable, abc

from rxwow.errors import ForeignLoopError, MissingBackpressureError
from rxwow.execution.handler_generator import HandlerGenerator, is_foreign_loop
from rxwow.execution.lineage import belonging_to
from rxwow.platform import current_platform
from rxwow.streams.async_iterables import from_async_iterable
from rxwow.streams.flowable import Flowable
from rxwow.streams.observables import ObservableSubscription
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.mailbox import Mailbox

__all__ = ["DUE", "FINISHED", "InnerResults", "Outcome", "Waiting", "begin_observable", "waits_for"]

INNER_PREFETCH: Final = 16
"""Items asked of a handler's Flowable ahead of what was taken of it."""
INNER_CAPACITY: Final = 256
"""Items of a handler's plain Observable that wait to be taken; more are a MissingBackpressureError."""


class Outcome:
    """How a wait ended: with a result, with an error, or with neither."""

    __slots__ = ("error", "result")

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.result = result
        self.error = error


FINISHED: Final = Outcome()
"""An Observable completed; its items were its results."""
DUE: Final = Outcome()
"""The delay of a retry is over."""


class Waiting:
    """The message at the head of a mailbox that waits for its handler, or for its next attempt.

    `outcome` is written once, before the mailbox is given to its worker, and read by that worker.
    """

    __slots__ = ("attempt", "cancel", "due", "item", "outcome", "reason", "since", "task")

    def __init__(self, item: Any, attempt: int, reason: str) -> None:
        self.item = item
        self.attempt = attempt
        self.reason = reason
        self.outcome: Outcome | None = None
        self.cancel: Callable[[], object] | None = None
        """Ends the wait early; called on the worker's thread."""
        self.task: asyncio.Task[Any] | None = None
        """What awaits, if it waits for an awaitable."""
        self.since: float | None = None
        """When the wait began, by the platform's clock; told by `explain`."""
        self.due: float | None = None
        """When the next attempt is due, if this is the wait for it."""


Begin = Callable[["Dispatch", "Mailbox", Waiting, Any, Context], None]
"""Starts to wait for what a handler returned; called on the mailbox's worker, inside no lock."""


def waits_for(value: object, kinds: dict[type, Begin | None]) -> Begin | None:
    """Return how to wait for `value`, or None if it is a plain result.

    Args:
        value: what a handler returned.
        kinds: what was found out so far, by type; it is added to, and emptied when it has a thousand entries, since a
            program may make types without end.
    """
    # Its type is asked, and never the value, whose `__class__` is user code: that of a lazy proxy may raise.
    kind = type(value)
    try:
        return kinds[kind]
    except KeyError:
        pass
    if kind is types.GeneratorType:
        # Whether a generator can be awaited is a property of its code, not of its type.
        code = cast("types.GeneratorType[Any, Any, Any]", value).gi_code
        return _begin_awaitable if code.co_flags & inspect.CO_ITERABLE_COROUTINE else None
    begin: Begin | None = None
    if issubclass(kind, types.CoroutineType):
        begin = _begin_coroutine
    elif issubclass(kind, concurrent.futures.Future):
        begin = _begin_future
    elif issubclass(kind, Observable):
        begin = begin_observable
    elif issubclass(kind, Awaitable):
        begin = _begin_awaitable
    elif issubclass(kind, AsyncIterator):
        begin = _begin_generator
    if len(kinds) >= 1000:
        kinds.clear()
    kinds[kind] = begin
    return begin


# Awaitables: a task of the worker's own loop.


def _begin_coroutine(dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting, value: Any, context: Context) -> None:
    waiting.reason = "awaitable"
    never_begun = functools.partial(_never_begun, dispatch, mailbox, waiting, value)
    task = mailbox.worker.loop.create_task(_await(dispatch, mailbox, waiting, value, never_begun), context=context)
    waiting.task = task
    waiting.cancel = task.cancel
    task.add_done_callback(never_begun)


async def _await(
    dispatch: Dispatch,
    mailbox: Mailbox,
    waiting: Waiting,
    coroutine: Awaitable[Any],
    never_begun: Callable[[asyncio.Task[Any]], None],
) -> None:
    task = waiting.task
    if task is None:
        # Begun inside `create_task`, by an eager task factory.
        task = asyncio.current_task()
    else:
        # A callback of the task would be one more round through the loop for each message: 6 % of all it costs.
        task.remove_done_callback(never_begun)
    try:
        outcome = Outcome(await coroutine)
    except GeneratorExit as error:
        if task is None or asyncio.current_task(task.get_loop()) is not task:
            # Its loop was closed under it, and what is left of it is collected, on whatever thread.
            raise
        outcome = Outcome(error=error)
    except BaseException as error:  # noqa: BLE001 - what the handler raised. asyncio would let an exit end the loop.
        outcome = Outcome(error=_explained(error, coroutine))
    dispatch.end_wait(mailbox, waiting, outcome)


def _explained(error: BaseException, coroutine: Awaitable[Any]) -> BaseException:
    if isinstance(error, RuntimeError) and is_foreign_loop(error):
        explained = ForeignLoopError(coroutine)
        explained.__cause__ = error
        return explained
    return error


def _never_begun(dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting, coroutine: Any, _: asyncio.Task[Any]) -> None:
    """End the wait for a task that was cancelled before its first step, which never enters its coroutine."""
    # Closing it says that this is known.
    coroutine.close()
    dispatch.end_wait(mailbox, waiting, Outcome(error=asyncio.CancelledError()))


def _begin_awaitable(dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting, value: Any, context: Context) -> None:
    if asyncio.isfuture(value) and value.get_loop() is not mailbox.worker.loop:
        dispatch.end_wait(mailbox, waiting, Outcome(error=ForeignLoopError(value)))
        return

    async def wait() -> Any:
        return await value

    _begin_coroutine(dispatch, mailbox, waiting, wait(), context)


# Futures: completed by whatever thread runs them.


def _begin_future(dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting, value: Any, context: Context) -> None:
    del context
    waiting.reason = "future"
    future: concurrent.futures.Future[Any] = value
    waiting.cancel = future.cancel

    def done(future: concurrent.futures.Future[Any]) -> None:
        if future.cancelled():
            outcome = Outcome(error=concurrent.futures.CancelledError())
        else:
            error = future.exception()
            outcome = Outcome(future.result()) if error is None else Outcome(error=error)
        dispatch.end_wait(mailbox, waiting, outcome)

    future.add_done_callback(done)


# Observables: their items are results of the message, which is finished when they complete and all were taken.


def begin_observable(dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting, value: Any, context: Context) -> None:
    """Subscribe to what a handler returned, and wait for its end."""
    observable: Observable[Any] = value
    _begin_flowable(dispatch, mailbox, waiting, _with_demand(observable), context, dispatch.scheduler)


def _begin_generator(dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting, value: Any, context: Context) -> None:
    # Its task is of the loop that runs here, the worker's, which a scheduler could change; and nothing of it comes
    # before this turn is settled.
    items = HandlerGenerator(value, mailbox.worker.cleanups)
    _begin_flowable(dispatch, mailbox, waiting, from_async_iterable(lambda: items), context, None)


def _begin_flowable(
    dispatch: Dispatch,
    mailbox: Mailbox,
    waiting: Waiting,
    flowable: Flowable[Any],
    context: Context,
    scheduler: abc.SchedulerBase | None,
) -> None:
    waiting.reason = "observable"
    inner = InnerResults(dispatch, mailbox, waiting)
    waiting.cancel = inner.cancel
    try:
        with belonging_to(dispatch):
            context.run(flowable.subscribe, inner, scheduler=scheduler)
    except Exception as error:  # noqa: BLE001 - the user's own Observable; it is the message's failure.
        inner.on_error(error)


class _InnerSubscription(ObservableSubscription[Any]):
    """Gives a handler's plain Observable demand."""

    __slots__ = ()

    def _overflow_error(self) -> Exception:
        return MissingBackpressureError(
            INNER_CAPACITY,
            "return a Flowable (Flowable.from_iterable, Flowable.from_async_iterable), or write the "
            "handler as an async generator, and it is asked for items as their results are taken",
            "the Observable that a handler returned",
        )


def _with_demand(observable: Observable[Any]) -> Flowable[Any]:
    if isinstance(observable, Flowable):
        return observable

    def publish(subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> Subscription:
        subscription = _InnerSubscription(subscriber, current_platform(), OverflowStrategy.BUFFER, INNER_CAPACITY)
        subscription.start()
        subscription.connect(observable, scheduler)
        return subscription

    return Flowable(publish)


class InnerResults(BatchSubscriber[Any]):
    """Takes the items of one handler's Observable or async generator to the results of its dispatch.

    Its items are asked for as those before them are taken downstream, so an Observable with demand is not pulled faster
    than the subscriber takes. The dispatch's lock guards `_untaken` and `_end`.
    """

    __slots__ = ("_dispatch", "_end", "_mailbox", "_subscription", "_taken", "_untaken", "_waiting")

    def __init__(self, dispatch: Dispatch, mailbox: Mailbox, waiting: Waiting) -> None:
        self._dispatch = dispatch
        self._mailbox = mailbox
        self._waiting = waiting
        self._subscription: Subscription | None = None
        self._untaken = 0
        self._taken = 0
        self._end: Outcome | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        subscription.request(INNER_PREFETCH)

    def cancel(self) -> None:
        # A source that was cancelled says nothing more; the wait is over all the same.
        if self._subscription is not None:
            self._subscription.cancel()
        self._dispatch.end_wait(self._mailbox, self._waiting, Outcome(error=asyncio.CancelledError()))

    def on_next(self, value: Any) -> None:
        self.on_next_batch([value])

    def on_next_batch(self, items: Sequence[Any]) -> None:
        with self._dispatch.lock:
            self._untaken += len(items)
        self._dispatch.outlet.offer_inner(items, self)

    def on_error(self, error: Exception) -> None:
        self._finish(Outcome(error=error))

    def on_completed(self) -> None:
        self._finish(FINISHED)

    def taken(self, count: int) -> None:
        """Called when `count` of the results were taken downstream."""
        with self._dispatch.lock:
            self._untaken -= count
            self._taken += count
            end = None if self._untaken else self._end
            # In halves of the prefetch, for the reason that the window asks in batches.
            replenish = self._taken if self._end is None and self._taken >= INNER_PREFETCH // 2 else 0
            self._taken -= replenish
        if end is not None:
            self._dispatch.end_wait(self._mailbox, self._waiting, end)
        elif replenish and self._subscription is not None:
            self._subscription.request(replenish)

    def _finish(self, end: Outcome) -> None:
        with self._dispatch.lock:
            self._end = end
            waits = self._untaken > 0
        if not waits:
            self._dispatch.end_wait(self._mailbox, self._waiting, end)
