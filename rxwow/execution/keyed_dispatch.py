"""keyed_dispatch: the operator."""

from __future__ import annotations

import concurrent.futures
import inspect
import pickle
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextvars import copy_context
from typing import Any, Final, TypeVar, overload

from reactivex import Observable, abc

from rxwow.errors import InvalidArgumentError
from rxwow.execution.blocking import is_blocking
from rxwow.execution.dispatch import Dispatch
from rxwow.execution.executor import KeyedExecutor
from rxwow.execution.failure import FAIL, FailurePolicy, OnFailure
from rxwow.execution.lineage import feeding
from rxwow.execution.options import DispatchOptions, check_callable, check_count, check_name, is_async
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["begin_dispatch", "keyed_dispatch"]

T = TypeVar("T")
R = TypeVar("R")

CAPACITY: Final = 256
"""Items of a plain Observable that wait for the window where its emitting thread can't be blocked."""


@overload
def keyed_dispatch(
    key: Callable[[T], Hashable],
    handler: Callable[[T], Awaitable[R]],
    *,
    executor: KeyedExecutor | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def keyed_dispatch(
    key: Callable[[T], Hashable],
    handler: Callable[[T], concurrent.futures.Future[R]],
    *,
    executor: KeyedExecutor | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def keyed_dispatch(
    key: Callable[[T], Hashable],
    handler: Callable[[T], Observable[R]],
    *,
    executor: KeyedExecutor | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def keyed_dispatch(
    key: Callable[[T], Hashable],
    handler: Callable[[T], AsyncIterator[R]],
    *,
    executor: KeyedExecutor | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


@overload
def keyed_dispatch(
    key: Callable[[T], Hashable],
    handler: Callable[[T], R],
    *,
    executor: KeyedExecutor | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[T], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[T]], Flowable[R]]: ...


def keyed_dispatch(
    key: Callable[[Any], Hashable],
    handler: Callable[[Any], Any],
    *,
    executor: KeyedExecutor | None = None,
    max_in_flight: int | None = None,
    throughput: int | None = None,
    on_failure: OnFailure = FAIL,
    on_discard: Callable[[Any], object] | None = None,
    run_in: concurrent.futures.Executor | None = None,
    name: str | None = None,
) -> Callable[[Observable[Any]], Flowable[Any]]:
    """Handle the messages of one key one at a time, in the order received, and those of different keys side by side.

    Promised: the next message of a key starts after the previous handler's result has completed. Not promised: that
    consecutive messages of a key run on the same thread.

    Args:
        key: gives the key of a message, once for each; called on the thread that emits the message. Any hashable will
            do, None included; equal keys are one key, so 1, 1.0 and True are. A message without a usable key is handled
            as failed.
        handler: a plain function, an `async def`, an async generator, or anything that can be called and returns an
            awaitable, a `concurrent.futures.Future`, an Observable or an async iterator. It runs on a worker, in a copy
            of the subscription's context. It is finished when what it returned completes. A handler that waits holds no
            worker; a plain one that holds up its thread should be marked `@blocking`, and runs on a thread of a pool.
        executor: whose workers run the handlers; `KeyedExecutor.shared()` if None.
        max_in_flight: most messages received and not finished, results not yet taken included; the executor's if None.
        throughput: most messages of one key that complete synchronously before other keys of the worker have their
            turn; the executor's if None.
        on_failure: `FAIL` ends the stream with the handler's error, `SKIP` logs it and goes on, a `Backoff` tries
            again, or a function `(message, error)` returns `FAIL`, `SKIP` or `Retry(delay)`. A retry holds up its own
            key only; what an Observable or an async generator has emitted before it failed is emitted again.
        on_discard: called with each message that was received and that no handler finished, when the stream is
            cancelled or fails: on the thread that ended it, or on the worker whose coroutine was cancelled.
        run_in: an executor, such as a process pool, that runs the handler while its mailbox waits without a worker.
        name: stands in logs and statistics; the handler's name if None.

    Returns:
        An operator from an Observable of messages to a Flowable of results: one for each plain, awaitable or future
        handler, all items of an Observable or async generator; in order within a key, across keys as they finish. They
        are emitted one at a time, within the subscriber's demand, on the worker that has one or on the thread that
        requests. The source is asked for nothing before the first request. A plain Observable is slowed down by
        blocking its emitting thread; on a worker, or on a thread with a running event loop, 256 items wait, and more
        end the stream with `MissingBackpressureError`.

    Raises:
        InvalidArgumentError: an argument can't work.

    >>> from rxwow import Flowable
    >>> totals = {}
    >>> def add(payment):
    ...     account, amount = payment
    ...     totals[account] = totals.get(account, 0) + amount
    >>> payments = [("ann", 5), ("bob", 3), ("ann", 2)]
    >>> Flowable.from_iterable(payments).pipe(keyed_dispatch(lambda payment: payment[0], add)).run()
    >>> totals
    {'ann': 7, 'bob': 3}
    """
    check_callable("key", key)
    check_callable("handler", handler)
    _check_optional(executor, max_in_flight, throughput, on_discard, name)
    policy = FailurePolicy(on_failure)
    if run_in is not None:
        _check_run_in(run_in, handler)
    blocks = run_in is None and is_blocking(handler)

    def dispatch(source: Observable[Any]) -> Flowable[Any]:
        flowable = Flowable.from_observable(source, on_overflow="block", capacity=CAPACITY)

        def publish(subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> Subscription:
            chosen = executor or KeyedExecutor.shared()
            runs_in = chosen.blocking_pool() if blocks else run_in
            options = DispatchOptions(
                key=key,
                handler=handler if runs_in is None else _RunIn(runs_in, handler),
                max_in_flight=max_in_flight or chosen.max_in_flight,
                throughput=throughput or chosen.throughput,
                on_failure=policy,
                on_discard=on_discard,
                name=name or str(getattr(handler, "__qualname__", type(handler).__name__)),
            )
            return begin_dispatch(options, chosen, flowable, subscriber, scheduler)

        return Flowable(publish)

    return dispatch


def begin_dispatch(
    options: DispatchOptions,
    executor: KeyedExecutor,
    source: Flowable[Any],
    subscriber: Subscriber[Any],
    scheduler: abc.SchedulerBase | None,
) -> Subscription:
    """Subscribe `subscriber` to the results of a new dispatch, and that to `source`."""
    dispatch = Dispatch(options, executor, subscriber)
    dispatch.scheduler = scheduler
    refusal: Exception | None = executor.accept(dispatch)
    if refusal is None and isinstance(options.handler, _RunIn):
        refusal = options.handler.refusal()
    if refusal is not None:
        dispatch.terminate(refusal)
    dispatch.outlet.start()
    if not dispatch.closed:
        dispatch.subscribed_by = (threading.get_ident(), dispatch.platform.monotonic())
        try:
            with feeding(dispatch):
                source.subscribe(dispatch, scheduler=scheduler)
        except Exception as error:  # noqa: BLE001 - a source that raises where it should call on_error.
            dispatch.terminate(error)
        finally:
            dispatch.subscribed_by = None
    return dispatch.outlet


def _check_optional(
    executor: object, max_in_flight: object, throughput: object, on_discard: object, name: object
) -> None:
    if executor is not None and not isinstance(executor, KeyedExecutor):
        raise InvalidArgumentError("executor", executor, "a KeyedExecutor, or None for the shared one")
    if max_in_flight is not None:
        check_count("max_in_flight", max_in_flight)
    if throughput is not None:
        check_count("throughput", throughput)
    if on_discard is not None:
        check_callable("on_discard", on_discard)
    if name is not None:
        check_name(name)


class _RunIn:
    """A handler that runs another on an executor of the user's, in a copy of the message's context where it can."""

    def __init__(self, executor: concurrent.futures.Executor, handler: Callable[[Any], Any]) -> None:
        self._executor = executor
        self._handler = handler
        self._in_processes = isinstance(executor, concurrent.futures.ProcessPoolExecutor)
        self.__qualname__ = getattr(handler, "__qualname__", type(handler).__name__)

    def __call__(self, item: Any) -> concurrent.futures.Future[Any]:
        if self._in_processes:
            return self._executor.submit(self._handler, item)
        return self._executor.submit(copy_context().run, self._handler, item)

    def refusal(self) -> InvalidArgumentError | None:
        """Return the error to end a dispatch with, before it starts, whose handler can't be sent to another process."""
        if not self._in_processes:
            return None
        try:
            pickle.dumps(self._handler)
        except Exception as error:  # noqa: BLE001 - pickling runs user code; the cause is chained.
            refusal = InvalidArgumentError(
                "handler", self._handler, "a function at the top level of a module, to be run in a process pool"
            )
            refusal.__cause__ = error
            return refusal
        return None


def _check_run_in(executor: object, handler: object) -> None:
    if not isinstance(executor, concurrent.futures.Executor):
        raise InvalidArgumentError("run_in", executor, "a concurrent.futures.Executor")
    if is_async(handler) or inspect.isasyncgenfunction(handler):
        raise InvalidArgumentError(
            "handler",
            handler,
            "a plain function when run_in is given; an async def runs on the workers, without run_in",
        )
