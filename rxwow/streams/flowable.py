"""Flowable: an RxPY Observable that emits only what was requested."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler

from rxwow.streams.fluent import Fluent
from rxwow.streams.guard import emitting_with
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from rxwow.streams.overflow import OverflowStrategy, OverflowStrategyName

__all__ = ["Flowable"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Publish = Callable[[Subscriber[T], abc.SchedulerBase | None], Subscription]


class Flowable(Fluent[T_co]):
    """An Observable with demand.

    Subscribed with a `Subscriber` it follows Reactive Streams §1-§3: it emits at most what was requested, one signal at
    a time. Subscribed the RxPY way, with an observer or callbacks, it is an Observable like any other: it emits
    everything, on the subscribe-time scheduler if there is one. An observer that raises is logged once on
    `rxwow.streams`, and its subscription is cancelled.

    Users make one with `from_iterable`, `from_async_iterable`, `from_observable`, `empty`, `never`, `throw` or an
    operator.

    Args:
        publish: starts one subscription: it gets the subscriber and the subscribe-time scheduler, calls the
            subscriber's `on_subscribe`, and returns the same subscription.

    >>> Flowable.from_iterable([1, 2, 3]).run()
    3
    """

    def __init__(self, publish: Publish[T_co]) -> None:
        super().__init__()
        self._publish = publish

    @overload
    def subscribe(
        self, on_next: Subscriber[T_co], /, *, scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase: ...

    @overload
    def subscribe(
        self,
        on_next: abc.ObserverBase[T_co] | abc.OnNext[T_co] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase: ...

    def subscribe(
        self,
        on_next: Any = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Start a subscription.

        Args:
            on_next: a `Subscriber`, which gets what it requests; or an observer or callback, which gets everything.
            on_error: called with the error that ends the stream; not used with a subscriber or an observer.
            on_completed: called at the end; not used with a subscriber or an observer.
            scheduler: where an RxPY subscription is emitted, and what operators that need a scheduler use.

        Returns:
            A disposable that cancels the subscription.
        """
        if isinstance(on_next, Subscriber):
            subscriber = cast(Subscriber[T_co], on_next)
            return Disposable(self._publish(subscriber, scheduler).cancel)
        return super().subscribe(on_next, on_error, on_completed, scheduler=scheduler)

    def _subscribe_core(
        self, observer: abc.ObserverBase[T_co], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        # Everything is requested at once, or what waits for demand on this thread would wait for ever. But a source
        # that emits on this thread does so a little later, as RxPY's own sources do: when the observer has the
        # subscription in its hands and can dispose it from inside on_next.
        with emitting_with(scheduler or CurrentThreadScheduler.singleton()):
            subscription = self._publish(_ObserverSubscriber(observer), scheduler)
        return Disposable(subscription.cancel)

    # Sources.

    @staticmethod
    def from_iterable(
        iterable_or_factory: Iterable[T] | Callable[[], Iterable[T]], *, blocking: bool = False
    ) -> Flowable[T]:
        """Emit the items of an iterable; see `rxwow.streams.iterables.from_iterable`."""
        from rxwow.streams.iterables import from_iterable

        return from_iterable(iterable_or_factory, blocking=blocking)

    @staticmethod
    def from_async_iterable(
        async_iterable_or_factory: AsyncIterable[T] | Callable[[], AsyncIterable[T]],
    ) -> Flowable[T]:
        """Emit the items of an async iterable; see `rxwow.streams.async_iterables.from_async_iterable`."""
        from rxwow.streams.async_iterables import from_async_iterable

        return from_async_iterable(async_iterable_or_factory)

    @staticmethod
    def from_observable(
        observable: Observable[T],
        *,
        on_overflow: OverflowStrategy | OverflowStrategyName = "block",
        capacity: int = 256,
    ) -> Flowable[T]:
        """Give a plain Observable demand; see `rxwow.streams.observables.from_observable`."""
        from rxwow.streams.observables import from_observable

        return from_observable(observable, on_overflow=on_overflow, capacity=capacity)

    @staticmethod
    def empty() -> Flowable[Any]:
        """Complete at once, without a request."""
        from rxwow.streams.constants import empty

        return empty()

    @staticmethod
    def never() -> Flowable[Any]:
        """Emit nothing and never end."""
        from rxwow.streams.constants import never

        return never()

    @staticmethod
    def throw(error: Exception) -> Flowable[Any]:
        """End with `error` at once, without a request."""
        from rxwow.streams.constants import throw

        return throw(error)

    # Sinks.

    def run(self, scheduler: abc.SchedulerBase | None = None) -> T_co:
        """Wait for the end and return the last item; see `rxwow.streams.running.run`."""
        from rxwow.streams.running import run

        return run(self, scheduler)

    def __aiter__(self) -> AsyncIterator[T_co]:
        """Iterate with `async for`; see `rxwow.streams.iteration`."""
        from rxwow.streams.iteration import iterate

        return iterate(self)

    def stream(self) -> AbstractAsyncContextManager[AsyncIterator[T_co]]:
        """Iterate inside `async with`, cancelled for certain at its end; see `rxwow.streams.iteration.stream`."""
        from rxwow.streams.iteration import stream

        return stream(self)


class _ObserverSubscriber(Subscriber[T]):
    """A plain RxPY observer seen as a subscriber: it asks for everything."""

    def __init__(self, observer: abc.ObserverBase[T]) -> None:
        self._observer = observer
        # In place of the method below, which would be one more call for each item: 7 % of what `map` costs.
        vars(self)["on_next"] = observer.on_next

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(UNBOUNDED)

    def on_next(self, value: T) -> None:
        self._observer.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._observer.on_error(error)

    def on_completed(self) -> None:
        self._observer.on_completed()
