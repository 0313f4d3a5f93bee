"""Whatever becomes of a message, its place in the window is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import reactivex
from reactivex import Subject

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import (
    PATIENCE,
    RETURNED,
    Collector,
    dispatched,
    results_of,
)

# F08: credit returns to the full window after every outcome.


def raises(message: int) -> None:
    raise ValueError(message)


async def raises_later(message: int) -> None:
    await asyncio.sleep(0)
    raise ValueError(message)


async def is_cancelled(_: int) -> None:
    raise asyncio.CancelledError


def cancelled_future(_: int) -> Future[None]:
    future: Future[None] = Future()
    future.cancel()
    return future


def failed_future(message: int) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(ValueError(message))
    return future


OUTCOMES: dict[str, Callable[[Any], Any]] = {
    **RETURNED,
    "None": lambda _: None,
    "empty observable": lambda _: reactivex.empty(),
    "long observable": lambda _: reactivex.range(20),
    "error": raises,
    "error later": raises_later,
    "cancelled": is_cancelled,
    "future, cancelled": cancelled_future,
    "future, failed": failed_future,
    "observable, failed": lambda message: reactivex.throw(ValueError(message)),
}


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_all_credit_returns_after_every_outcome(outcome: str, window: int) -> None:
    # F08.
    def scenario(platform: ControlledPlatform) -> None:
        executor = KeyedExecutor(2)
        source: Subject[int] = Subject()
        collector = Collector(1000)
        handler = OUTCOMES[outcome]
        operator = keyed_dispatch(
            lambda message: message, handler, executor=executor, max_in_flight=window, on_failure=lambda *_: SKIP
        )
        source.pipe(operator).subscribe(collector)
        for message in range(3 * window + 1):
            source.on_next(message)
        platform.sleep(1.0)
        (statistics,) = executor.statistics().dispatches
        assert statistics.window.admitted == 3 * window + 1
        assert statistics.window.in_flight == 0
        assert statistics.window.requested == window
        executor.dispose()
        executor.wait_closed()

    run(scenario)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_after_a_failure_that_ends_the_stream_the_books_are_closed(window: int) -> None:
    # F08, for the outcome that stops: nothing stays in flight.
    discarded: list[int] = []

    def fail_third(message: int) -> None:
        if message == 2:
            raise ValueError(message)

    with KeyedExecutor(1) as executor:
        collector = Collector(1000)
        operator = keyed_dispatch(
            lambda _: 0,
            fail_third,
            executor=executor,
            max_in_flight=window,
            on_failure=FAIL,
            on_discard=discarded.append,
        )
        Flowable.from_iterable(range(10)).pipe(operator).subscribe(collector)
        assert collector.ended.wait(PATIENCE)
        assert isinstance(collector.error, ValueError)
        assert collector.taken == [None, None]
    assert discarded == list(range(3, 3 + len(discarded)))
    assert len(discarded) < window


def test_who_batches_can_see_that_the_window_is_full_and_flush() -> None:
    # F11: acknowledgements in batches of ten, a window of four, and handlers that wait for their acknowledgement. The
    # operator can't finish a handler for somebody else, but it says that it is full, which is when to flush.
    pending: list[Future[None]] = []
    flushes: list[int] = []

    with KeyedExecutor(1) as executor:

        def acknowledge(_: int) -> Future[None]:
            acknowledged: Future[None] = Future()
            pending.append(acknowledged)
            window = executor.statistics().dispatches[0].window
            if len(pending) == 10 or len(pending) == window.limit or window.admitted == 10:
                flushes.append(len(pending))
                batch, pending[:] = pending[:], []
                for future in batch:
                    future.set_result(None)
            return acknowledged

        assert len(results_of(dispatched(range(10), acknowledge, executor, max_in_flight=4))) == 10
    assert sum(flushes) == 10
    assert max(flushes) <= 4
