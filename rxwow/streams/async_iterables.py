"""from_async_iterable: the source that is awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, Callable
from typing import Any, Final, TypeVar

from reactivex import abc
from reactivex.scheduler import EventLoopScheduler, NewThreadScheduler, TimeoutScheduler

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.streams.async_emitter import AsyncIterableEmitter, AsyncIterableOrFactory
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import is_about_to_wait, running_loop
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["from_async_iterable"]

T = TypeVar("T")

_THREADED: Final = (NewThreadScheduler, EventLoopScheduler, TimeoutScheduler)
"""Schedulers with threads of their own; a ThreadPoolScheduler is a NewThreadScheduler."""


def from_async_iterable(async_iterable_or_factory: AsyncIterableOrFactory[T]) -> Flowable[T]:
    """Emit the items of an async iterable, as they are requested.

    `__anext__` is called only for an item that was requested, one call at a time, in a task of one event loop: the one
    that runs on the subscribing thread, unless that thread is about to wait in `run()` or the subscribe-time scheduler
    has threads of its own; else the one that the subscriber offers in its `event_loop()`, as a keyed dispatch does;
    else one of its own, on a thread that ends with the subscription. All signals are given there. A cancel stops an
    `__anext__` that waits, then calls `aclose`; it returns before they have ended.

    Args:
        async_iterable_or_factory: an async iterable, or a function that makes a fresh one for each subscription, such
            as an async generator function. What was made for the subscription is closed at its end.

    Returns:
        A Flowable that completes at the end of the iterable; an exception of it is its `on_error`, and so is the
        closing of the event loop.

    Raises:
        InvalidArgumentError: `async_iterable_or_factory` is neither.

    >>> async def numbers():
    ...     yield 1
    ...     yield 2
    >>> from_async_iterable(numbers).run()
    2
    """
    _check_argument(async_iterable_or_factory)

    def publish(subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
        platform = current_platform()
        loop = _loop_for(subscriber, scheduler)
        emitter: AsyncIterableEmitter[T]
        if loop is not None:
            emitter = AsyncIterableEmitter(subscriber, platform, async_iterable_or_factory, loop)
        else:
            emitter = _OwnLoopEmitter(subscriber, platform, async_iterable_or_factory)
        emitter.start()
        return emitter

    return Flowable(publish)


def _check_argument(async_iterable_or_factory: object) -> None:
    if not isinstance(async_iterable_or_factory, AsyncIterable) and not callable(async_iterable_or_factory):
        allowed = "an async iterable or a function that makes one"
        raise InvalidArgumentError("async_iterable_or_factory", async_iterable_or_factory, allowed)


def _loop_for(subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> asyncio.AbstractEventLoop | None:
    # RxPY's own run(), of an operator's result, waits as well, and says so by no more than such a scheduler.
    elsewhere = is_about_to_wait() or isinstance(scheduler, _THREADED) or _serving.one_source
    loop = None if elsewhere else running_loop()
    if loop is None:
        offer: Callable[[], asyncio.AbstractEventLoop | None] | None = getattr(subscriber, "event_loop", None)
        loop = None if offer is None else offer()
    return loop


class _Serving(threading.local):
    """Whether the calling thread's loop is there for one source alone, and closed at its end.

    An operator such as repeat subscribes to the next source from the end of the one before.
    """

    one_source: bool = False


_serving = _Serving()


class _OwnLoopEmitter(AsyncIterableEmitter[T]):
    """Has a loop of its own, on a thread of its own."""

    __slots__ = ("_thread", "_unused")

    def __init__(self, subscriber: Subscriber[T], platform: Platform, factory: AsyncIterableOrFactory[T]) -> None:
        super().__init__(subscriber, platform, factory, platform.event_loop())
        self._unused = self._loop.create_future()
        self._thread = platform.thread(self._serve, "rxwow-source")

    def start(self) -> None:
        self._thread.start()
        super().start()

    def _loop_unused(self) -> None:
        self._unused.set_result(None)

    def _serve(self) -> None:
        async def until_unused() -> None:
            await self._unused

        _serving.one_source = True
        # Ends the tasks and generators that the iterable has left behind, and closes the loop.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(until_unused())
