"""Handlers that return an Observable: what it emits is emitted, within demand or a bounded buffer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex.disposable import Disposable

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import HandlerExit, MissingBackpressureError, RxwowError
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import (
    PATIENCE,
    Collector,
    dispatched,
    results_of,
)

# Observables.


@given(lengths=st.lists(st.integers(0, 40), max_size=12), flowable=st.booleans())
def test_all_that_an_observable_emits_is_a_result(lengths: list[int], flowable: bool) -> None:
    def handle(message: tuple[int, int]) -> Observable[Any]:
        number, length = message
        items = [(number, item) for item in range(length)]
        return Flowable.from_iterable(items) if flowable else reactivex.from_iterable(items)

    with KeyedExecutor(2) as executor:
        operator = keyed_dispatch(lambda _: "one key", handle, executor=executor, max_in_flight=3)
        results = results_of(Flowable.from_iterable(list(enumerate(lengths))).pipe(operator))
    assert results == [(number, item) for number, length in enumerate(lengths) for item in range(length)]


def test_a_failing_observable_is_a_failing_handler_after_what_it_has_emitted() -> None:
    def handle(message: int) -> Observable[int]:
        return reactivex.concat(reactivex.of(message, message), reactivex.throw(ValueError(message)))

    with KeyedExecutor(1) as executor:
        assert results_of(dispatched([1, 2], handle, executor, on_failure=SKIP)) == [1, 1, 2, 2]
        collector = Collector(10)
        dispatched([1], handle, executor).subscribe(collector)
        assert collector.ended.wait(PATIENCE)
        assert collector.taken == [1, 1]
        assert isinstance(collector.error, ValueError)


def test_an_observable_that_raises_when_it_is_subscribed_is_a_failing_handler() -> None:
    def refuse(observer: Any, scheduler: Any = None) -> Any:
        raise LookupError("no subscription here")

    with KeyedExecutor(1) as executor:
        with pytest.raises(LookupError, match="no subscription here"):
            dispatched([1], lambda _: Observable(refuse), executor).run()
        assert results_of(dispatched([1], lambda _: Observable(refuse), executor, on_failure=SKIP)) == []


def test_an_observable_that_exits_when_it_is_subscribed_is_a_failing_handler() -> None:
    # F31: the message must not wait for ever, and its worker must live on.
    def exits(observer: Any, scheduler: Any = None) -> Any:
        raise SystemExit(3)

    with KeyedExecutor(1) as executor:
        with pytest.raises(RxwowError, match="SystemExit"):
            dispatched([1], lambda _: Observable(exits), executor).run()
        assert results_of(dispatched([1], str, executor)) == ["1"]

    async def on_the_main_thread() -> list[Any]:
        # There an exit is let through by the streams, and must still be the message's failure.
        async with KeyedExecutor.on_running_loop() as executor:
            flowable = dispatched([1, 2], lambda message: Observable(exits) if message == 1 else message, executor)
            with pytest.raises(HandlerExit, match="SystemExit"):
                _ = [result async for result in flowable]
            flowable = dispatched([1], lambda _: Observable(exits), executor, on_failure=SKIP)
            return [result async for result in flowable]

    assert asyncio.run(on_the_main_thread()) == []


@given(demands=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_a_handlers_flowable_is_pulled_no_faster_than_its_results_are_taken(demands: list[int]) -> None:
    pulled: list[int] = []

    def scenario(platform: ControlledPlatform) -> None:
        def count() -> Generator[int]:
            for number in range(1000):
                pulled.append(number)
                yield number

        executor = KeyedExecutor(1)
        collector = Collector(0)
        dispatched(["only"], lambda _: Flowable.from_iterable(count()), executor).subscribe(collector)
        for asked in demands:
            collector.subscription.request(asked)
            # In virtual time all that can be done is done before this returns.
            platform.sleep(1.0)
            # The prefetch of 16, and what was taken.
            assert len(pulled) <= len(collector.taken) + 16
        assert collector.taken == list(range(sum(demands)))
        executor.dispose()
        executor.wait_closed()

    pulled.clear()
    run(scenario)


@pytest.mark.parametrize(("emitted", "fits"), [(272, True), (273, False)])
def test_a_handlers_plain_observable_beyond_its_capacity_fails(emitted: int, fits: bool) -> None:
    # 256 wait, after the 16 that were asked for in advance and wait downstream.
    with KeyedExecutor(1) as executor:
        collector = Collector(0)
        dispatched(["only"], lambda _: reactivex.range(emitted), executor).subscribe(collector)
        collector.subscription.request(1)
        # When the only worker has handled this, it has handled that: the Observable has emitted all, and one was taken.
        dispatched([1], str, executor).run()
        collector.subscription.request(1000)
        assert collector.ended.wait(PATIENCE)
        if fits:
            assert collector.error is None
            assert collector.taken == list(range(emitted))
        else:
            assert isinstance(collector.error, MissingBackpressureError)
            assert collector.taken == list(range(len(collector.taken)))


def test_an_observable_that_is_cancelled_by_the_end_is_disposed() -> None:
    disposed = threading.Event()
    began = threading.Event()

    def endless(observer: Any, scheduler: Any = None) -> Any:
        began.set()
        return Disposable(disposed.set)

    with KeyedExecutor(1) as executor:
        collector = Collector(10)
        dispatched([1], lambda _: Observable(endless), executor).subscribe(collector)
        assert began.wait(PATIENCE)
        collector.subscription.cancel()
        assert disposed.wait(PATIENCE)
