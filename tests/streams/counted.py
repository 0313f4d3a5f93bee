"""A source that notes what is asked of it, and counts what the operators above it hold."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reactivex import abc

from rxwow.streams.flowable import Flowable
from rxwow.streams.nobody import NOBODY
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription


class Counted:
    """Emits `items`, then `error`, on the thread that asks, and never ends if it is `endless`.

    `requests` are the demands that it got, `given` how many items it has given.
    """

    def __init__(
        self,
        items: Sequence[Any] = (),
        error: Exception | None = None,
        *,
        endless: bool = False,
        make: Callable[[Callable[[], Iterator[Any]]], Flowable[Any]] = Flowable.from_iterable,
    ) -> None:
        self.requests: list[int] = []
        self.schedulers: list[abc.SchedulerBase | None] = []
        self.given = 0
        self.cancels = 0
        self.ends = 0
        self._items = items
        self._error = error
        self._endless = endless
        self._make = make

    @property
    def requested(self) -> int:
        return sum(self.requests)

    @property
    def subscribed(self) -> int:
        return len(self.schedulers)

    @property
    def active(self) -> bool:
        """Whether it was subscribed to and is neither cancelled nor at its end."""
        return self.subscribed > self.ends + self.cancels

    def flowable(self) -> Flowable[Any]:
        def iterate() -> Iterator[Any]:
            yield from self._items
            if self._error is not None:
                raise self._error

        def publish(subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> Subscription:
            self.schedulers.append(scheduler)
            tap = _Tap(self, subscriber)
            self._make(iterate).subscribe(tap, scheduler=scheduler)
            assert tap.subscription is not None
            return tap.subscription

        return Flowable(publish)


class Published:
    """A source whose signals the test gives, to `subscriber`; it doesn't look at the demand."""

    def __init__(self) -> None:
        self.subscriber: BatchSubscriber[Any] = _Tap(Counted(), NOBODY)

    def flowable(self) -> Flowable[Any]:
        def publish(subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
            assert isinstance(subscriber, BatchSubscriber)
            self.subscriber = subscriber
            subscription = _Nothing()
            subscriber.on_subscribe(subscription)
            return subscription

        return Flowable(publish)


class _Nothing(Subscription):
    def request(self, n: int) -> None:
        pass

    def cancel(self) -> None:
        pass


class _Tap(BatchSubscriber[Any]):
    def __init__(self, counted: Counted, subscriber: Subscriber[Any]) -> None:
        self._counted = counted
        self._subscriber = subscriber
        self.subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = _Counting(self._counted, subscription)
        self._subscriber.on_subscribe(self.subscription)

    def on_next(self, value: Any) -> None:
        self.on_next_batch([value])

    def on_next_batch(self, items: Sequence[Any]) -> None:
        self._counted.given += len(items)
        assert isinstance(self._subscriber, BatchSubscriber)
        self._subscriber.on_next_batch(items)

    def on_error(self, error: Exception) -> None:
        self._counted.ends += 1
        self._subscriber.on_error(error)

    def on_completed(self) -> None:
        if self._counted._endless:
            return
        self._counted.ends += 1
        self._subscriber.on_completed()


class _Counting(Subscription):
    def __init__(self, counted: Counted, subscription: Subscription) -> None:
        self._counted = counted
        self._subscription = subscription
        self._cancelled = False

    def request(self, n: int) -> None:
        assert 1 <= n <= UNBOUNDED
        if not self._cancelled:
            self._counted.requests.append(n)
        self._subscription.request(n)

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._counted.cancels += self._counted.ends == 0
        self._subscription.cancel()
