"""The top of a chain of lifted operators: the source as its first operator sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxwow.streams.chain import Chain
from rxwow.streams.feed import BatchFeed, Feed
from rxwow.streams.flowable import Flowable

__all__ = ["Tap", "counted"]


class Tap(Flowable[Any]):
    """The source of one subscription: a plain observer of it gets what the chain asks for.

    Operators that subscribe again, such as repeat, get a fresh subscription to the source with a demand of its own. A
    `Subscriber` asks for itself, and is subscribed to the source.
    """

    def __init__(self, source: Flowable[Any], chain: Chain) -> None:
        super().__init__(source._publish)
        self._source = source
        self._chain = chain

    def _subscribe_core(
        self, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        feed = (BatchFeed if self._chain.takes_batches else Feed)(observer, self._chain)
        self._chain.attach(feed)
        self._source.subscribe(feed, scheduler=scheduler)
        return Disposable(feed.cancel)


def counted(
    source: Observable[Any], operator: Callable[[Observable[Any]], Observable[Any]], chain: Chain
) -> Observable[Any]:
    """Apply an operator that emits its items later, and let the chain know how many are in it."""

    def subscribe_above(observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        chain.begin_delay()

        def on_next(item: Any) -> None:
            chain.enter()
            observer.on_next(item)

        return source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)

    inner = operator(Observable(subscribe_above))

    def subscribe_below(observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        def on_next(item: Any) -> None:
            observer.on_next(item)
            chain.leave()

        return inner.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)

    return Observable(subscribe_below)
