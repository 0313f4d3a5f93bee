"""What takes the results of a dispatch in a test, and handlers' results of every kind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

import reactivex
from reactivex import abc

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.streams.protocols import Subscriber, Subscription

PATIENCE = 30.0


def results_of(flowable: Flowable[Any]) -> list[Any]:
    return Flowable.from_observable(flowable.to_list()).run()


def dispatched(messages: Any, handler: Callable[[Any], Any], executor: KeyedExecutor, **options: Any) -> Flowable[Any]:
    operator = keyed_dispatch(lambda message: message, handler, executor=executor, **options)
    return Flowable.from_iterable(messages).pipe(operator)


class Collector(Subscriber[Any]):
    """Takes what it asks for, and says when it has ended."""

    def __init__(self, demand: int) -> None:
        self.demand = demand
        self.taken: list[Any] = []
        self.error: Exception | None = None
        self.ended = threading.Event()
        self.subscription: Subscription

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self.demand:
            subscription.request(self.demand)

    def on_next(self, value: Any) -> None:
        self.taken.append(value)

    def on_error(self, error: Exception) -> None:
        self.error = error
        self.ended.set()

    def on_completed(self) -> None:
        self.ended.set()


class Push(Subscription):
    """A source that sends when it is told to, within the demand."""

    def __init__(self) -> None:
        self.demand = 0
        self.ended = False
        self.subscriber: Subscriber[Any]

    def publish(self, subscriber: Subscriber[Any], scheduler: abc.SchedulerBase | None) -> Subscription:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)
        return self

    def request(self, n: int) -> None:
        self.demand += n

    def cancel(self) -> None:
        self.ended = True

    def send(self, message: Any) -> None:
        self.demand -= 1
        self.subscriber.on_next(message)


class Arrivals:
    """Counts handlers that have begun, and says when all have."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self._lock = threading.Lock()
        self.all_there = threading.Event()

    def arrive(self) -> None:
        with self._lock:
            self._missing -= 1
            if not self._missing:
                self.all_there.set()


class OldAwaitable:
    """An awaitable that is neither a coroutine nor a future."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, Any]:
        yield from asyncio.sleep(0).__await__()
        return self._value


def done_future(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def later_future(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    asyncio.get_event_loop().call_later(0.001, future.set_result, value)
    return future


def loop_future(value: Any, delay: float) -> asyncio.Future[Any]:
    future = asyncio.get_event_loop().create_future()
    if delay:
        asyncio.get_event_loop().call_later(delay, future.set_result, value)
    else:
        future.set_result(value)
    return future


async def coroutine(value: Any) -> Any:
    await asyncio.sleep(0.001)
    return value


RETURNED: dict[str, Callable[[Any], Any]] = {
    "value": lambda value: value,
    "coroutine": coroutine,
    "awaitable": OldAwaitable,
    "task": lambda value: asyncio.get_event_loop().create_task(coroutine(value)),
    "loop's future": lambda value: loop_future(value, 0.001),
    "loop's future, done": lambda value: loop_future(value, 0),
    "future": later_future,
    "future, done": done_future,
    "observable": reactivex.of,
    "flowable": lambda value: Flowable.from_iterable([value]),
}
