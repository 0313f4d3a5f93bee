"""What a mapper returns: made a Flowable, and subscribed so that it needn't wait for the thread's trampoline."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar, cast

import reactivex
from reactivex import Observable, abc, typing
from reactivex.scheduler import CurrentThreadScheduler, TimeoutScheduler
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from rxwow.errors import InvalidArgumentError
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import emitting_scheduler
from rxwow.streams.protocols import Subscriber

__all__ = ["Inner", "Subscribe", "check_observables", "flowable_of", "mapper_of", "subscribe", "subscribe_inner"]

T = TypeVar("T")
R = TypeVar("R")
_State = TypeVar("_State")

Inner: TypeAlias = Observable[T] | Awaitable[T] | concurrent.futures.Future[T] | AsyncIterable[T] | Iterable[T]
"""What an inner stream may be given as."""

Subscribe: TypeAlias = Callable[[Flowable[Any], Subscriber[Any], abc.SchedulerBase | None], None]
"""A way to subscribe, with the scheduler of the subscription."""


def flowable_of(value: Inner[T], argument: str) -> Flowable[T]:
    """Make a Flowable of anything that stands for a stream.

    Args:
        value: an Observable, a future, an awaitable, an async iterable or an iterable.
        argument: how the error names `value`.

    Raises:
        InvalidArgumentError: it is none of these.

    >>> flowable_of("ab", "source").run()
    'b'
    """
    source: object = value
    if isinstance(source, Observable):
        return Flowable.from_observable(source)
    if asyncio.isfuture(source) or isinstance(source, concurrent.futures.Future):
        return Flowable.from_observable(reactivex.from_future(cast(typing.AnyFuture[T], source)))
    # An async iterable comes before an iterable: an object that is both waits when it is iterated.
    if isinstance(source, AsyncIterable):
        return Flowable.from_async_iterable(source)
    if isinstance(source, Iterable):
        return Flowable.from_iterable(source)
    if isinstance(source, Awaitable):
        return Flowable.from_async_iterable(_Awaited(source))
    raise InvalidArgumentError(argument, source, "an Observable, a future, an awaitable, or an iterable, async or not")


def mapper_of(mapper: Callable[[Any], Inner[R]] | Inner[R]) -> Callable[[Any], Inner[R]]:
    """Return a mapper that is one, and for an inner stream one that always gives it."""
    if callable(mapper):
        return mapper
    inner = flowable_of(mapper, "mapper")
    return lambda _: inner


def check_observables(sources: Iterable[object]) -> None:
    """Refuse a source that is no Observable, before anything is subscribed to."""
    for source in sources:
        if not isinstance(source, Observable):
            raise InvalidArgumentError("sources", source, "Observables")


def subscribe(flowable: Flowable[T], subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> None:
    """Subscribe to a stream together with the operator."""
    flowable.subscribe(subscriber, scheduler=scheduler)


def subscribe_inner(flowable: Flowable[T], subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> None:
    """Subscribe to an inner stream from inside the emission of an outer one.

    RxPY's sources put their emission off to the trampoline of the thread. An outer Observable that sends on it doesn't
    let go of the thread before its last item; and one that is held up until an inner stream has completed would wait
    for ever for one whose emission comes after its own. So such an inner stream gets a trampoline of its own.
    """
    if (
        scheduler is None
        and emitting_scheduler() is None
        and not CurrentThreadScheduler.singleton().schedule_required()
    ):
        here = _Here()

        def subscribe_here(_: abc.SchedulerBase, __: Any = None) -> None:
            flowable.subscribe(subscriber, scheduler=here)

        here.schedule(subscribe_here)
    else:
        flowable.subscribe(subscriber, scheduler=scheduler)


class _Awaited(AsyncIterable[T]):
    """An awaitable seen as a stream of its only result."""

    def __init__(self, awaitable: Awaitable[T]) -> None:
        self._awaitable = awaitable

    async def __aiter__(self) -> AsyncIterator[T]:
        yield await self._awaitable


class _Here(PeriodicScheduler):
    """Does what RxPY's sources do by default, but on a trampoline of its own: this thread, or a timer for later."""

    def __init__(self) -> None:
        super().__init__()
        self._trampoline = CurrentThreadScheduler()

    def schedule(self, action: abc.ScheduledAction[_State], state: _State | None = None) -> abc.DisposableBase:
        return self._trampoline.schedule(action, state)

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: abc.ScheduledAction[_State], state: _State | None = None
    ) -> abc.DisposableBase:
        return TimeoutScheduler.singleton().schedule_relative(duetime, action, state)

    def schedule_absolute(
        self, duetime: typing.AbsoluteTime, action: abc.ScheduledAction[_State], state: _State | None = None
    ) -> abc.DisposableBase:
        return TimeoutScheduler.singleton().schedule_absolute(duetime, action, state)
