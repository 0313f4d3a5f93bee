"""A keyed dispatch is a publisher: it keeps the rules of Reactive Streams, whatever its handlers are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.testing.contracts import PublisherContract

WORKERS = 2


class DispatchContract(PublisherContract):
    """Each test has an executor of its own."""

    executor: KeyedExecutor

    @pytest.fixture(autouse=True)
    def with_executor(self) -> Iterator[None]:
        with KeyedExecutor(workers=WORKERS) as self.executor:
            yield
            self.executor.dispose()

    def handler(self) -> Callable[[int], Any]:
        raise NotImplementedError

    def dispatched(self, count: int, handler: Callable[[int], Any]) -> Flowable[Any]:
        dispatch = keyed_dispatch(lambda number: number % 7, handler, executor=self.executor)
        return Flowable.from_iterable(range(count)).pipe(dispatch)

    def create_publisher(self, count: int) -> Flowable[Any]:
        return self.dispatched(count, self.handler())

    def create_failed_publisher(self) -> Flowable[Any]:
        return self.dispatched(10, fail)


def fail(_: int) -> NoReturn:
    raise LookupError


class TestPlainHandlers(DispatchContract):
    def handler(self) -> Callable[[int], Any]:
        return str


class TestAsyncHandlers(DispatchContract):
    def handler(self) -> Callable[[int], Any]:
        async def handle(number: int) -> int:
            await asyncio.sleep(0)
            return number

        return handle


class TestHandlersOnAPool(DispatchContract):
    @pytest.fixture(autouse=True)
    def with_executor(self) -> Iterator[None]:
        with ThreadPoolExecutor(2) as self.pool, KeyedExecutor(workers=WORKERS) as self.executor:
            yield
            self.executor.dispose()

    def handler(self) -> Callable[[int], Any]:
        return lambda number: self.pool.submit(str, number)


class TestInnerFlowables(DispatchContract):
    def handler(self) -> Callable[[int], Any]:
        return lambda number: Flowable.from_iterable([number])
