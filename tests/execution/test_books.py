"""The books balance after every step: each message that was received is in one place, and ends in one way."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reactivex.subject import ReplaySubject

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.execution import DispatchStatistics, ExecutionHook
from rxwow.execution.dispatch import Dispatch
from rxwow.testing import DeterministicExecutor
from tests.execution.collecting import PATIENCE, Collector, Push, dispatched

KINDS = ["plain", "failing", "blocking", "async", "future", "observable"]
A_MOMENT = 0.001
# No sum of moments, so that no retry is due at the very instant at which the books are looked at.
LATER = 0.010_000_007


def check_books(statistics: DispatchStatistics) -> None:
    """Check what holds at all times, also while messages move."""
    window = statistics.window
    assert window.admitted == (
        window.succeeded + window.skipped + window.failed + window.discarded + window.in_flight
    ), statistics
    assert 0 <= window.in_flight <= window.limit, statistics
    assert 0 <= window.peak_in_flight <= window.limit, statistics
    assert window.requested >= 0, statistics


@dataclass(eq=False)
class Message:
    number: int
    key: int
    kind: str
    failures: int = 0


class Told(ExecutionHook):
    def __init__(self) -> None:
        self.skipped = self.failed = 0

    def message_skipped(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
        self.skipped += 1

    def message_failed(self, dispatch: str, key: Any, item: Any, error: Exception) -> None:
        self.failed += 1


class Books(RuleBasedStateMachine):
    """A dispatch on controlled threads, whose source, handlers, subscriber and end are moved by rules."""

    executor: DeterministicExecutor

    @initialize(
        workers=st.integers(1, 3),
        window=st.sampled_from([1, 2, 3, 16, 33]),
        throughput=st.sampled_from([1, 2, 16]),
        seed=st.integers(0, 1000),
        on_failure=st.sampled_from(["fail", "skip", "retry"]),
    )
    def begin(self, workers: int, window: int, throughput: int, seed: int, on_failure: str) -> None:
        self.executor = DeterministicExecutor(workers, seed=seed, max_in_flight=window, throughput=throughput)
        self.executor.__enter__()
        self.platform = self.executor.controlled
        self.source = Push()
        self.collector = Collector(0)
        self.told = Told()
        self.executor.add_hook(self.told)
        self.sent = self.blocked = 0
        self.discarded: list[Message] = []
        self.pending: dict[int, Callable[[bool], None]] = {}
        self.decision = {"fail": FAIL, "skip": SKIP, "retry": Retry(LATER)}[on_failure]
        operator = keyed_dispatch(
            lambda message: message.key,
            self.handle,
            executor=self.executor,
            on_failure=lambda message, error: self.decide(message),
            on_discard=self.discarded.append,
        )
        Flowable[Message](self.source.publish).pipe(operator).subscribe(self.collector)
        (self.dispatch,) = list[Dispatch](self.executor._dispatches)

    def decide(self, message: Message) -> Any:
        message.failures += 1
        # A retry succeeds in the end.
        return SKIP if message.failures > 3 else self.decision

    def handle(self, message: Message) -> Any:
        return getattr(self, "handle_" + message.kind)(message)

    def handle_plain(self, message: Message) -> int:
        return message.number

    def handle_failing(self, message: Message) -> int:
        raise ValueError(message.number)

    def handle_blocking(self, message: Message) -> int:
        go = self.platform.event()
        outcome: list[bool] = []

        def finish(well: bool) -> None:
            outcome.append(well)
            go.set()

        self.pending[message.number] = finish
        self.blocked += 1
        go.wait()
        self.blocked -= 1
        if not outcome[0]:
            raise ValueError(message.number)
        return message.number

    async def handle_async(self, message: Message) -> int:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()

        def set_outcome(well: bool) -> None:
            if not future.done():
                _settle(future, message.number, well)

        self.pending[message.number] = lambda well: _call(loop, set_outcome, well)
        return await future

    def handle_future(self, message: Message) -> Future[int]:
        future: Future[int] = Future()

        def finish(well: bool) -> None:
            if not future.cancelled():
                _settle(future, message.number, well)

        self.pending[message.number] = finish
        return future

    def handle_observable(self, message: Message) -> ReplaySubject[int]:
        # Replayed, as a rule may finish it before it is subscribed.
        subject: ReplaySubject[int] = ReplaySubject()

        def finish(well: bool) -> None:
            if well:
                subject.on_next(message.number)
                subject.on_completed()
            else:
                subject.on_error(ValueError(message.number))

        self.pending[message.number] = finish
        return subject

    @precondition(lambda self: self.source.demand > 0 and not self.source.ended)
    @rule(key=st.integers(0, 3), kind=st.sampled_from(KINDS))
    def send(self, key: int, kind: str) -> None:
        self.source.send(Message(self.sent, key, kind))
        self.sent += 1

    @precondition(lambda self: self.source.demand > 0 and not self.source.ended)
    @rule(keys=st.lists(st.integers(0, 3), min_size=2, max_size=10), kind=st.sampled_from(KINDS))
    def send_many(self, keys: list[int], kind: str) -> None:
        for key in keys:
            if self.source.demand and not self.source.ended:
                self.send(key, kind)

    @precondition(lambda self: self.pending)
    @rule(which=st.integers(0, 100), well=st.booleans())
    def finish(self, which: int, well: bool) -> None:
        numbers = list(self.pending)
        self.pending.pop(numbers[which % len(numbers)])(well)

    @rule(n=st.sampled_from([1, 1, 2, 3, 40]))
    def request(self, n: int) -> None:
        self.collector.subscription.request(n)

    @rule()
    def settle(self) -> None:
        """Let all threads do what they can, and compare the books with what was seen."""
        self.platform.sleep(A_MOMENT)
        statistics = self.dispatch.statistics()
        window = statistics.window
        # Nothing moves now, so each message in flight is in one of the places that are told apart.
        places = 0 if statistics.closed else statistics.mailboxed + statistics.waiting + statistics.untaken
        # Those that a worker has handled just before one that blocks are settled together with it.
        running = window.in_flight - places
        assert running >= self.blocked if self.blocked else running == 0, statistics
        assert window.admitted == self.sent
        assert window.discarded == len(self.discarded)
        assert (window.skipped, window.failed) == (self.told.skipped, self.told.failed)
        if not statistics.closed:
            assert window.succeeded <= len(self.collector.taken)
            # What was neither asked for nor is in flight is less than a batch, once the subscriber has asked.
            if self.dispatch.outlet.opened and not self.source.ended and not self.blocked:
                assert 0 <= window.limit - window.requested - window.in_flight < window.batch

    @rule()
    def wait_for_retries(self) -> None:
        self.platform.sleep(2 * LATER + A_MOMENT / 2)

    # The ends come seldom, or there would be little before them.

    @precondition(lambda self: self.sent > 5 and not self.source.ended)
    @rule(end=st.sampled_from(["complete", "error", "cancel", "dispose", "go on", "go on", "go on"]))
    def end(self, end: str) -> None:
        self.source.ended = end in ("complete", "error")
        if end == "complete":
            self.source.subscriber.on_completed()
        elif end == "error":
            self.source.subscriber.on_error(ValueError("the source"))
        elif end == "cancel":
            self.collector.subscription.cancel()
        elif end == "dispose":
            self.executor.dispose()

    @invariant()
    def the_books_balance(self) -> None:
        statistics = self.dispatch.statistics()
        check_books(statistics)
        assert statistics.mailboxed + statistics.waiting + statistics.untaken <= statistics.window.in_flight

    def teardown(self) -> None:
        if not hasattr(self, "executor"):
            return
        try:
            self.end_all()
        finally:
            # The threads of one example must not outlive it.
            self.executor.__exit__(None, None, None)

    def end_all(self) -> None:
        self.executor.dispose()
        self.platform.sleep(A_MOMENT)
        while self.pending:
            self.pending.popitem()[1](True)
            self.platform.sleep(A_MOMENT)
        self.executor.wait_closed()
        statistics = self.dispatch.statistics()
        check_books(statistics)
        assert statistics.window.in_flight == 0, statistics
        assert statistics.window.discarded == len(self.discarded) == len(set(self.discarded))


def _settle(future: Future[int] | asyncio.Future[int], number: int, well: bool) -> None:
    if well:
        future.set_result(number)
    else:
        future.set_exception(ValueError(number))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[bool], None], argument: bool) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, argument)


def test_the_books_balance_after_every_step(soak: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")
    examples = 5000 if soak else 200
    run_state_machine_as_test(Books, settings=settings(deadline=None, max_examples=examples, stateful_step_count=40))


def test_the_books_balance_while_threads_run() -> None:
    looks = 0
    with KeyedExecutor(3, max_in_flight=32) as executor:

        def handle(message: int) -> Any:
            if message % 7 == 0:
                raise ValueError(message)
            return asyncio.sleep(0, message) if message % 3 else message

        collector = Collector(100_000)
        subscribing = threading.Thread(
            target=lambda: dispatched(range(5000), handle, executor, on_failure=lambda *_: SKIP).subscribe(collector)
        )
        subscribing.start()
        last = None
        # Without a pause the looks would keep the dispatch's lock from the workers, which is not a fair one.
        while not collector.ended.wait(A_MOMENT / 10):
            for statistics in executor.statistics().dispatches:
                check_books(statistics)
                looks += 1
                last = statistics
        subscribing.join(PATIENCE)
        assert not subscribing.is_alive()
    assert looks
    assert last is not None
    assert len(collector.taken) == 5000 - len(range(0, 5000, 7))
