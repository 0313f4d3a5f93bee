"""What becomes of a message whose handler failed: the policies, and a worker that outlives whatever is raised."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import reactivex

from rxwow import FAIL, SKIP, Backoff, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import HandlerExit, InvalidArgumentError
from rxwow.execution import ExecutionHook
from tests.execution.collecting import PATIENCE, Collector, dispatched, results_of

EXITS: list[type[BaseException]] = [
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    GeneratorExit,
    RecursionError,
    MemoryError,
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rxwow")


def in_every_kind(fails: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """Return `fails` as a plain, an async, a future's and an Observable's handler."""

    async def later(message: Any) -> Any:
        await asyncio.sleep(0)
        return fails(message)

    def future(message: Any) -> Future[Any]:
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(fails(message))
        except BaseException as error:  # noqa: BLE001 - as an executor does
            outcome.set_exception(error)
        return outcome

    def observable(message: Any) -> reactivex.Observable[Any]:
        return reactivex.defer(lambda _: reactivex.of(fails(message)))

    return {"plain": fails, "async": later, "future": future, "observable": observable}


KINDS = list(in_every_kind(str))


class Told(ExecutionHook):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def message_skipped(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
        self.events.append(("skipped", dispatch, key, item, str(error)))

    def message_failed(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
        self.events.append(("failed", dispatch, key, item, str(error)))

    def message_retried(self, dispatch: str, key: Any, item: Any, error: Exception, delay: float) -> None:
        self.events.append(("retried", dispatch, key, item, str(error), delay))


def first_fails_when(go: threading.Event) -> Callable[[int], int]:
    """Return a handler that waits until its source has sent all, and fails with message 1."""

    def handler(message: int) -> int:
        assert go.wait(PATIENCE)
        return first_fails(message)

    return handler


def first_fails(message: int) -> int:
    if message == 1:
        raise ValueError("the first")
    return message


# F33: after a failure the next message of the key runs, or is settled, whatever the policy and the handler's kind.


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_skip_the_next_message_runs_and_the_skip_is_told(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    # F33.
    told = Told()
    with KeyedExecutor(1) as executor:
        executor.add_hook(told)
        handler = in_every_kind(first_fails)[kind]
        operator = keyed_dispatch(lambda _: "key", handler, executor=executor, on_failure=SKIP, name="shop")
        assert results_of(Flowable.from_iterable([1, 2, 3]).pipe(operator)) == [2, 3]
    assert told.events == [("skipped", "shop", "key", 1, "the first")]
    assert "shop skipped a message of key 'key' that failed" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_failure_the_rest_is_discarded_once_and_the_failure_is_told(kind: str) -> None:
    # F33.
    told, discarded, go = Told(), list[int](), threading.Event()
    with KeyedExecutor(1) as executor:
        executor.add_hook(told)
        handler = in_every_kind(first_fails_when(go))[kind]
        operator = keyed_dispatch(
            lambda _: "key", handler, executor=executor, on_failure=FAIL, name="shop", on_discard=discarded.append
        )
        collector = Collector(10)
        Flowable.from_iterable([0, 1, 2, 3]).pipe(operator).subscribe(collector)
        go.set()
        assert collector.ended.wait(PATIENCE)
    assert collector.taken == [0]
    assert isinstance(collector.error, ValueError)
    assert discarded == [2, 3]
    assert told.events == [("failed", "shop", "key", 1, "the first")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_retry_comes_before_the_next_message_of_its_key(kind: str) -> None:
    # F33.
    attempts: list[int] = []
    told = Told()

    def third_time(message: int) -> int:
        attempts.append(message)
        if message == 1 and len(attempts) < 3:
            raise ValueError("not yet")
        return message

    with KeyedExecutor(1) as executor:
        executor.add_hook(told)
        handler = in_every_kind(third_time)[kind]
        operator = keyed_dispatch(
            lambda _: "key", handler, executor=executor, on_failure=lambda *_: Retry(0), name="shop"
        )
        assert results_of(Flowable.from_iterable([1, 2]).pipe(operator)) == [1, 2]
    assert attempts == [1, 1, 1, 2]
    assert told.events == [("retried", "shop", "key", 1, "not yet", 0)] * 2


def test_a_policy_is_asked_with_the_message_and_its_error() -> None:
    asked: list[tuple[int, str]] = []

    def policy(message: int, error: Exception) -> Any:
        asked.append((message, str(error)))
        return SKIP

    with KeyedExecutor(1) as executor:
        assert results_of(dispatched([0, 1, 2], first_fails, executor, on_failure=policy)) == [0, 2]
    assert asked == [(1, "the first")]


@pytest.mark.parametrize("nonsense", [None, 0, 1.5, "SKIP", True, Backoff()])
def test_a_policy_that_returns_nonsense_ends_the_stream(nonsense: Any) -> None:
    with KeyedExecutor(1) as executor:
        flowable = dispatched([1, 2], first_fails, executor, on_failure=lambda *_: nonsense)
        with pytest.raises(InvalidArgumentError, match="what on_failure returns must be FAIL, SKIP or Retry") as caught:
            flowable.run()
    assert str(caught.value.__context__) == "the first"


@pytest.mark.parametrize("raised", [LookupError, *EXITS])
def test_a_policy_that_raises_ends_the_stream(raised: type[BaseException]) -> None:
    # F31.
    def policy(message: int, error: Exception) -> Any:
        raise raised("the policy")

    with KeyedExecutor(1) as executor:
        with pytest.raises((LookupError, HandlerExit, RecursionError, MemoryError), match="the policy"):
            dispatched([1, 2], first_fails, executor, on_failure=policy).run()
        assert results_of(dispatched([5], str, executor)) == ["5"]


@pytest.mark.parametrize("raised", [LookupError, *EXITS])
def test_a_hook_or_on_discard_that_raises_changes_nothing(raised: type[BaseException]) -> None:
    # F31.
    class Bad(ExecutionHook):
        def message_skipped(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
            raise raised("the hook")

        message_failed = message_skipped

    discards: list[int] = []

    def discard(message: int) -> None:
        discards.append(message)
        raise raised("on_discard")

    with KeyedExecutor(1) as executor:
        executor.add_hook(Bad())
        assert results_of(dispatched([1, 2], first_fails, executor, on_failure=SKIP)) == [2]
        executor.add_hook(Bad())
        go = threading.Event()
        operator = keyed_dispatch(lambda _: 0, first_fails_when(go), executor=executor, on_discard=discard)
        collector = Collector(10)
        Flowable.from_iterable([1, 2, 3]).pipe(operator).subscribe(collector)
        go.set()
        assert collector.ended.wait(PATIENCE)
        assert isinstance(collector.error, ValueError)
        assert results_of(dispatched([5], str, executor)) == ["5"]
    assert discards == [2, 3]


# F31: whatever a handler raises is its message's failure, and its worker lives on.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exits", EXITS)
def test_what_would_end_a_thread_is_the_messages_failure(exits: type[BaseException], kind: str) -> None:
    # F31.
    def fails(message: int) -> int:
        if message == 1:
            raise exits("on purpose")
        return message

    handler = in_every_kind(fails)[kind]
    with KeyedExecutor(1) as executor:
        flowable = dispatched([1], handler, executor)
        with pytest.raises(Exception, match="on purpose") as caught:
            flowable.run()
        # Those two are Exceptions already.
        if not issubclass(exits, Exception):
            assert isinstance(caught.value, HandlerExit) or kind == "observable"
            assert isinstance(caught.value.__cause__, exits)
        operator = keyed_dispatch(lambda _: 0, handler, executor=executor, on_failure=SKIP)
        assert results_of(Flowable.from_iterable([0, 1, 2]).pipe(operator)) == [0, 2]
        assert len(executor.statistics().workers) == 1


@pytest.mark.parametrize("exits", EXITS)
def test_a_result_callback_that_exits_ends_its_stream_and_no_worker(exits: type[BaseException]) -> None:
    # F31.
    class Exits(Collector):
        def on_next(self, value: Any) -> None:
            super().on_next(value)
            self.ended.set()
            raise exits("on purpose")

    with KeyedExecutor(1) as executor:
        collector = Exits(10)
        dispatched([1, 2], str, executor).subscribe(collector)
        assert collector.ended.wait(PATIENCE)
        assert results_of(dispatched([5], str, executor)) == ["5"]
    assert collector.taken == ["1"]
    assert collector.error is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exits", EXITS)
def test_a_handler_that_exits_does_not_end_the_callers_loop(exits: type[BaseException], kind: str) -> None:
    # F31, where there is no worker's thread to catch what ends a loop.
    def fails(message: int) -> int:
        if message == 1:
            raise exits("on purpose")
        return message

    async def main() -> list[Any]:
        async with KeyedExecutor.on_running_loop() as executor:
            operator = keyed_dispatch(lambda _: 0, in_every_kind(fails)[kind], executor=executor, on_failure=SKIP)
            return [result async for result in Flowable.from_iterable([0, 1, 2]).pipe(operator)]

    assert asyncio.run(main()) == [0, 2]


def test_no_delay_stays_none_after_any_number_of_attempts() -> None:
    """The power of the factor alone is beyond any number long before."""
    assert Backoff(attempts=10_000, delay=0.0).decide("message", ValueError(), 5_000) == Retry(0.0)
    assert Backoff(attempts=10_000, delay=1.0).decide("message", ValueError(), 5_000) == Retry(60.0)
