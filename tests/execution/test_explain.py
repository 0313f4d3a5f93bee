"""explain() names what everything waits for, and nothing else."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sysconfig
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import reactivex

from rxwow import Backoff, Flowable, KeyedExecutor, KeyedScheduler, blocking, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from rxwow.execution import diagnosis
from rxwow.execution.cause import Cause
from rxwow.execution.elastic_pool import ElasticPool
from rxwow.execution.explanation import DispatchExplanation, ExecutorExplanation
from rxwow.execution.whereabouts import Place, place_of_coroutine
from rxwow.streams.protocols import Subscription
from rxwow.testing import DeterministicExecutor, SourceProbe, SubscriberProbe
from tests.execution.collecting import PATIENCE, Collector, Push, results_of
from tests.execution.handlers import Gate

WAIT_S = 12.4
HERE = str(Place(__file__, 1, "", "")).split(":", maxsplit=1)[0]


@contextmanager
def virtual(workers: int = 1, **options: Any) -> Generator[DeterministicExecutor]:
    """An executor in virtual time, whose stuck dispatches are disposed at the end."""
    with DeterministicExecutor(workers, **options) as executor:
        yield executor
        executor.dispose()


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    (offset,) = [offset for offset, line in enumerate(lines) if text in line]
    return first + offset


def place_text(function: Callable[..., Any], text: str) -> str:
    (line,) = [line.strip() for line in inspect.getsource(function).splitlines() if text in line]
    return f"{HERE}:{line_of(function, text)} ({line})"


def only(explanation: ExecutorExplanation) -> DispatchExplanation:
    (dispatch,) = explanation.dispatches
    return dispatch


def check(
    dispatch: DispatchExplanation, *causes: Cause, says: tuple[str, ...] = (), never: tuple[str, ...] = ()
) -> DispatchExplanation:
    """Exactly these causes are named, in this order; and words of no other cause."""
    assert dispatch.causes == causes, str(dispatch)
    # What each key does is not all a cause: those behind another say that they wait for it.
    text = "\n".join(line for line in str(dispatch).splitlines() if not line.startswith("  key "))
    for words in says:
        assert words in text
    for cause in set(WORDS) - set(causes):
        assert WORDS[cause] not in text, text
    for words in never:
        assert words not in text
    return dispatch


WORDS = {
    Cause.AWAITABLE: "handler of key 'waits'",
    Cause.FUTURE: "for a future",
    Cause.OBSERVABLE: "Observable to complete",
    Cause.POOL_FULL: "threads for handlers that block are taken",
    Cause.POOL_THREAD: "has been running on a thread of the pool",
    Cause.RETRY: "next attempt",
    Cause.SUBSCRIBER: "subscriber has not returned",
    Cause.NO_DEMAND: "asked for no more",
    Cause.NOTHING_REQUESTED: "asked for nothing at all",
    Cause.SOURCE: "source has not returned",
    Cause.SOURCE_SILENT: "has sent none",
    Cause.SOURCE_NOT_SUBSCRIBED: "on_subscribe",
    Cause.LOCK: "comparison of keys",
    Cause.NOTHING: "nothing to do",
    Cause.ENDED: "has ended",
    Cause.WORKER: "waits for its worker",
}
"""Words that only the sentence of that cause has."""


async def wait_deep(gate: asyncio.Event) -> None:
    await gate.wait()


async def wait_on(message: str) -> str:
    if message.startswith("ann"):
        await wait_deep(asyncio.Event())
    return message


def key_of(message: str) -> str:
    return message.split(maxsplit=1)[0]


def subscribed(executor: KeyedExecutor, source: Flowable[Any], handler: Any, **options: Any) -> SubscriberProbe[Any]:
    probe: SubscriberProbe[Any] = SubscriberProbe(options.pop("demand", 1000))
    source.pipe(keyed_dispatch(options.pop("key", key_of), handler, executor=executor, **options)).subscribe(probe)
    return probe


def messages(**numbers: int) -> list[str]:
    return [f"{key} {number}" for key, count in numbers.items() for number in range(count)]


# What handlers wait for.


def test_a_window_that_is_full_because_of_one_key() -> None:
    with virtual(max_in_flight=256) as executor:
        source = SourceProbe(messages(bob=15, ann=241, cyd=100))
        subscribed(executor, source, wait_on, name="charge")
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.AWAITABLE)
        assert dispatch.full
        (key,) = dispatch.keys
        assert (key.key, key.messages, key.cause, key.seconds) == ("ann", 241, Cause.AWAITABLE, WAIT_S)
        assert key.place is not None
        assert (key.place.file, key.place.function) == (__file__, "wait_deep")
        assert (key.place.line, key.place.text) == (line_of(wait_deep, "await"), "await gate.wait()")
        assert str(dispatch) == (
            "dispatch 'charge': the window is full (241 of 256); 241 of its messages are of key 'ann', whose handler "
            f"has been waiting for 12.4 s at {HERE}:{key.place.line} (await gate.wait())"
        )


def test_a_coroutine_that_waits_in_a_window_with_room() -> None:
    with virtual() as executor:
        subscribed(executor, Flowable.from_iterable(messages(bob=3, ann=4)), wait_on)
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.AWAITABLE, never=("window is full",))
        assert not dispatch.full
        text = str(dispatch)
        assert text.startswith(f"dispatch 'wait_on': the handler of key 'ann' has been waiting for 12.4 s at {HERE}:")
        assert text.endswith("(await gate.wait()); it has 4 messages, 4 of 256 are in flight")


class Awaiting:
    """Ways to come to an await that are not an `await` of a coroutine."""

    async def gather(self, message: str) -> None:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(3600))

    async def loop(self, message: str) -> None:
        async for _ in self.generate():
            pass

    async def generate(self) -> AsyncIterator[int]:
        await asyncio.Event().wait()  # generate waits here
        yield 1

    async def wrapped(self, message: str) -> None:
        await Wrapper()

    def task(self, message: str) -> Any:
        return asyncio.get_running_loop().create_task(wait_deep(asyncio.Event()))


class Wrapper:
    def __await__(self) -> Any:
        return wait_deep(asyncio.Event()).__await__()


@pytest.mark.parametrize(
    ("way", "function", "text"),
    [
        ("gather", Awaiting.gather, "await asyncio.gather"),
        ("loop", Awaiting.generate, "generate waits here"),
        ("wrapped", wait_deep, "await gate.wait()"),
    ],
)
def test_the_innermost_line_of_user_code_is_found(way: str, function: Any, text: str) -> None:
    with virtual() as executor:
        subscribed(executor, Flowable.from_iterable(["ann 1"]), getattr(Awaiting(), way))
        executor.controlled.sleep(WAIT_S)
        place = check(only(executor.explain()), Cause.AWAITABLE).keys[0].place
        assert place is not None
        assert (place.file, place.line) == (__file__, line_of(function, text))


def test_a_handler_blocked_in_a_plain_call_and_the_keys_behind_it() -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        def handle(message: str) -> None:
            if message == "ann 0":
                never.wait()

        subscribed(executor, Flowable.from_iterable(messages(ann=3, bob=5)), handle, name="charge")
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.HANDLER)
        ann, bob = dispatch.keys
        assert (ann.key, ann.messages, ann.cause, ann.seconds) == ("ann", 3, Cause.HANDLER, WAIT_S)
        assert ann.place is not None
        assert (ann.place.file, ann.place.line) == (__file__, line_of(handle, "never.wait()"))
        assert (bob.key, bob.messages, bob.cause) == ("bob", 5, Cause.WORKER)
        assert bob.worker is not None
        assert (bob.worker.name, bob.worker.key, bob.worker.place) == ("rxwow-0", "ann", ann.place)
        assert str(dispatch).startswith(
            f"dispatch 'charge': the handler of key 'ann' has been running for 12.4 s at {HERE}:{ann.place.line} "
            "(never.wait()); it has 3 messages, 8 of 256 are in flight"
        )


def test_a_real_thread_that_runs_a_handler() -> None:
    gate = Gate()

    def handle(message: str) -> None:
        gate(message)

    with KeyedExecutor(1) as executor:
        collector = Collector(10)
        operator = keyed_dispatch(key_of, handle, executor=executor)
        Flowable.from_iterable(["ann 1"]).pipe(operator).subscribe(collector)
        gate.wait_for_arrivals(1)
        before = time.monotonic()
        dispatch = only(executor.explain())
        assert time.monotonic() - before < 1
        assert dispatch.causes == (Cause.HANDLER,)
        place = dispatch.keys[0].place
        assert place is not None
        # The gate is the user's code too, and further in.
        assert place.file == inspect.getsourcefile(Gate)
        assert place.function.startswith("Gate.")
        assert 0 <= (dispatch.keys[0].seconds or -1) < PATIENCE
        gate.let_go()
        assert collector.ended.wait(PATIENCE)


def test_a_coroutine_that_blocks_its_worker_runs_and_does_not_wait() -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        async def handle(message: str) -> None:
            await asyncio.sleep(1)
            if key_of(message) == "ann":
                never.wait()

        subscribed(executor, Flowable.from_iterable(messages(ann=2, bob=1)), handle)
        executor.controlled.sleep(WAIT_S)
        dispatch = only(executor.explain())
        assert dispatch.causes[0] is Cause.HANDLER
        ann = dispatch.keys[0]
        assert (ann.key, ann.messages, ann.cause) == ("ann", 2, Cause.HANDLER)
        assert ann.place is not None
        assert ann.place.line == line_of(handle, "never.wait()")


def test_a_future_that_nobody_completes() -> None:
    with virtual() as executor:
        subscribed(executor, Flowable.from_iterable(messages(ann=2)), lambda message: Future(), name="charge")
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.FUTURE)
        assert str(dispatch) == (
            "dispatch 'charge': the handler of key 'ann' has been waiting for 12.4 s for a future that is pending; it "
            "has 2 messages, 2 of 256 are in flight"
        )


def test_a_handler_in_a_pool_of_the_user_s() -> None:
    gate = Gate()
    with ThreadPoolExecutor(1) as pool, KeyedExecutor(1) as executor:
        collector = Collector(10)
        operator = keyed_dispatch(key_of, gate, executor=executor, run_in=pool)
        Flowable.from_iterable(["ann 1", "bob 1"]).pipe(operator).subscribe(collector)
        gate.wait_for_arrivals(1)
        while (dispatch := only(executor.explain())).causes != (Cause.FUTURE,) or dispatch.key_count < 2:
            assert not collector.ended.is_set()
        assert {key.key: key.detail for key in dispatch.keys} == {"ann": "running", "bob": "pending"}
        gate.let_go()
        assert collector.ended.wait(PATIENCE)


def test_an_observable_that_never_completes() -> None:
    with virtual() as executor:
        endless: Any = reactivex.concat(reactivex.of(1, 2), reactivex.never())
        probe = subscribed(executor, Flowable.from_iterable(["ann 1"]), lambda message: endless)
        executor.controlled.sleep(WAIT_S)
        assert probe.items == [1, 2]
        dispatch = check(
            only(executor.explain()), Cause.OBSERVABLE, says=("for 12.4 s for its Observable to complete",)
        )
        assert dispatch.keys[0].key == "ann"


def test_an_observable_whose_items_are_not_taken() -> None:
    with virtual() as executor:
        probe = subscribed(
            executor, Flowable.from_iterable(["ann 1"]), lambda message: Flowable.from_iterable(range(9)), demand=4
        )
        executor.controlled.sleep(WAIT_S)
        assert probe.items == [0, 1, 2, 3]
        dispatch = only(executor.explain())
        assert dispatch.causes == (Cause.NO_DEMAND,)
        assert dispatch.keys[0].cause is Cause.NO_DEMAND
        assert "Observable to complete" not in str(dispatch)


def test_a_retry_that_is_not_due() -> None:
    with virtual() as executor:

        def fail(message: str) -> None:
            raise ValueError(message)

        policy = Backoff(attempts=9, delay=5.0, factor=2.0)
        subscribed(executor, Flowable.from_iterable(messages(ann=3)), fail, on_failure=policy, name="charge")
        executor.controlled.sleep(WAIT_S)
        # Attempts at 0, 5 and 15.
        dispatch = check(only(executor.explain()), Cause.RETRY)
        assert dispatch.keys[0].due == pytest.approx(2.6)
        assert str(dispatch) == (
            "dispatch 'charge': the message of key 'ann' failed at attempt 2; the next attempt is due in 2.6 s; it has "
            "3 messages, 3 of 256 are in flight"
        )


def test_all_threads_for_handlers_that_block_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with virtual() as executor:
        monkeypatch.setattr(executor, "_blocking_pool", ElasticPool("rxwow", executor.platform, most_threads=2))
        never = executor.controlled.event()

        @blocking
        def store(message: str) -> None:
            never.wait()

        subscribed(executor, Flowable.from_iterable(messages(ann=2, bob=1, cyd=1, dee=1)), store, name="store")
        executor.controlled.sleep(WAIT_S)
        dispatch = only(executor.explain())
        assert dispatch.causes == (Cause.POOL_FULL,)
        assert dispatch.pool == (2, 0, 2)
        causes = [key.cause for key in dispatch.keys]
        assert sorted(cause.name for cause in causes) == ["POOL_FULL", "POOL_FULL", "POOL_THREAD", "POOL_THREAD"]
        for key in dispatch.keys:
            assert (key.place is not None) == (key.cause is Cause.POOL_THREAD)
            if key.place is not None:
                assert key.place.line == line_of(inspect.unwrap(store), "never.wait()")
        text = str(dispatch)
        assert text.startswith(
            "dispatch 'store': all 2 threads for handlers that block are taken, and 2 calls queued; the handler of key "
        )
        assert "the subscriber" not in text
        assert "the source" not in text


def test_a_thread_for_handlers_that_block_while_there_are_others() -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        @blocking
        def store(message: str) -> None:
            never.wait()

        subscribed(executor, Flowable.from_iterable(messages(ann=2)), store)
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.POOL_THREAD)
        assert f"on a thread of the pool at {HERE}:" in str(dispatch)


# Downstream and upstream.


def test_no_demand_from_downstream() -> None:
    with virtual() as executor:
        probe = subscribed(executor, SourceProbe(messages(ann=5, bob=2)), str, demand=1, name="charge")
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.NO_DEMAND, never=("handler",))
        assert (dispatch.untaken, dispatch.demand, dispatch.full) == (6, 0, False)
        assert str(dispatch) == (
            "dispatch 'charge': the subscriber has asked for no more: 6 results not taken; 6 of 256 in flight"
        )
        # The way that the subscriber has.
        assert str(probe.subscription.explain()) == str(dispatch)  # type: ignore[attr-defined]


def test_no_demand_from_downstream_until_the_window_is_full() -> None:
    with virtual(max_in_flight=4) as executor:
        subscribed(executor, SourceProbe(messages(ann=9)), str, demand=1)
        executor.controlled.sleep(WAIT_S)
        check(only(executor.explain()), Cause.NO_DEMAND, says=("the window is full (4 of 4)",), never=("key",))


def test_a_subscriber_that_has_asked_for_nothing() -> None:
    with virtual() as executor:
        source = SourceProbe(messages(ann=9))
        subscribed(executor, source, str, demand=0)
        executor.controlled.sleep(WAIT_S)
        assert source.requests == []
        check(only(executor.explain()), Cause.NOTHING_REQUESTED)


def test_a_subscriber_that_has_all_that_it_asked_for() -> None:
    with virtual() as executor:
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, str, demand=1)
        source.emit("ann 1")
        executor.controlled.sleep(WAIT_S)
        check(
            only(executor.explain()),
            Cause.NO_DEMAND,
            Cause.SOURCE_SILENT,
            says=("has got all that it asked for", "also:"),
        )


def test_a_subscriber_that_does_not_return() -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        def take(result: str) -> None:
            never.wait()  # taken

        probe = SubscriberProbe(demand=100, on_item=take)
        Flowable.from_iterable(messages(ann=3, bob=2)).pipe(
            keyed_dispatch(key_of, str, executor=executor, name="charge")
        ).subscribe(probe)
        executor.controlled.sleep(WAIT_S)
        dispatch = only(executor.explain())
        assert dispatch.causes == (Cause.SUBSCRIBER,)
        assert dispatch.subscriber is not None
        assert (dispatch.subscriber.name, dispatch.subscriber.doing) == ("rxwow-0", "the subscriber")
        assert dispatch.subscriber.place is not None
        assert dispatch.subscriber.place.line == line_of(take, "# taken")
        assert str(dispatch).startswith(
            "dispatch 'charge': the subscriber has not returned from a call: rxwow-0 has been in the subscriber for 12."
        )


def test_a_subscriber_that_does_not_return_from_the_end() -> None:
    with virtual() as executor:
        never = executor.controlled.event()
        source: SourceProbe[str] = SourceProbe()
        results: list[str] = []

        def completed() -> None:
            never.wait()  # at the end

        operator = keyed_dispatch(key_of, str, executor=executor)
        source.pipe(operator).subscribe(results.append, on_completed=completed)
        source.emit("ann 1")
        executor.controlled.sleep(1)
        executor.controlled.thread(source.complete, "completes").start()
        executor.controlled.sleep(WAIT_S)
        assert results == ["ann 1"]
        dispatch = check(only(executor.explain()), Cause.SUBSCRIBER, says=("completes has been in", "# at the end"))
        assert dispatch.in_flight == 0


def test_a_source_that_sends_nothing() -> None:
    with virtual() as executor:
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, str, name="charge")
        source.emit("ann 1", "bob 1")
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.SOURCE_SILENT, never=("key", "handler"))
        assert dispatch.window is not None
        requested = dispatch.window.requested
        assert str(dispatch) == f"dispatch 'charge': the source was asked for {requested} and has sent none of them"


class Hanging(Push):
    """Blocks its second request."""

    def __init__(self, executor: DeterministicExecutor) -> None:
        super().__init__()
        self._never = executor.controlled.event()

    def request(self, n: int) -> None:
        if self.subscriber_has_asked:
            self._never.wait()  # in the source
        self.subscriber_has_asked = True
        super().request(n)

    subscriber_has_asked = False


def test_a_source_that_is_asked_on_a_worker_and_blocks_it() -> None:
    with virtual(max_in_flight=3) as executor:
        source = Hanging(executor)
        subscribed(executor, Flowable(source.publish), str, name="charge")
        for message in ("ann 1", "bob 1", "bob 2"):
            source.send(message)
        executor.controlled.sleep(WAIT_S)
        dispatch = only(executor.explain())
        check(dispatch, Cause.SOURCE, never=("handler",))
        assert dispatch.source is not None
        assert (dispatch.source.name, dispatch.source.seconds) == ("rxwow-0", WAIT_S)
        assert dispatch.source.place is not None
        place = dispatch.source.place
        assert (place.file, place.line) == (__file__, line_of(Hanging.request, "# in the source"))
        assert str(dispatch).startswith(
            "dispatch 'charge': the source has not returned from a call: rxwow-0 has been in the source's request for"
        )


@pytest.mark.parametrize("plain", [False, True], ids=["flowable", "plain observable"])
def test_a_source_that_blocks_the_thread_that_subscribes(plain: bool) -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        def generate() -> Iterator[str]:
            yield "ann 1"
            never.wait()  # in the source

        source: Any = reactivex.from_iterable(generate()) if plain else Flowable.from_iterable(generate)

        def subscribe() -> None:
            subscribed(executor, source, str, name="charge")

        executor.controlled.thread(subscribe, "asks").start()
        executor.controlled.sleep(WAIT_S)
        dispatch = check(only(executor.explain()), Cause.SOURCE, never=("handler",), says=("# in the source",))
        assert dispatch.source is not None
        assert (dispatch.source.name, dispatch.source.seconds) == ("asks", WAIT_S)


def test_a_source_that_is_held_up_by_the_window_is_not_to_blame() -> None:
    with virtual(max_in_flight=16) as executor:
        endless: Any = reactivex.from_iterable(f"ann {number}" for number in range(10_000))

        def subscribe() -> None:
            subscribed(executor, endless, wait_on, name="charge")

        executor.controlled.thread(subscribe, "asks").start()
        executor.controlled.sleep(WAIT_S)
        check(only(executor.explain()), Cause.AWAITABLE, says=("the window is full (16 of 16)",))


def test_a_source_that_gives_no_subscription() -> None:
    with virtual() as executor:
        silent: Flowable[str] = Flowable(lambda subscriber, scheduler: NoSubscription())
        subscribed(executor, silent, str)
        executor.controlled.sleep(WAIT_S)
        check(only(executor.explain()), Cause.SOURCE_NOT_SUBSCRIBED)


class NoSubscription(Subscription):
    def request(self, n: int) -> None:
        raise AssertionError("nobody has it")

    def cancel(self) -> None:
        pass


# An executor and its dispatches.


def test_a_drain_that_waits_for_a_handler() -> None:
    with virtual(name="till") as executor:
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, wait_on, name="charge")
        source.emit("ann 1")
        drain = executor.controlled.thread(lambda: executor.drain() and None, "drains")
        drain.start()
        executor.controlled.sleep(WAIT_S)
        explanation = executor.explain()
        assert explanation.state == "draining"
        dispatch = check(only(explanation), Cause.AWAITABLE)
        assert dispatch.source_done
        assert str(explanation).splitlines()[0] == "executor 'till' is draining, and waits for 'charge' to end"


def test_a_source_that_is_a_dispatch_is_named() -> None:
    with virtual() as executor:
        first = Flowable.from_iterable(["ann 1"]).pipe(keyed_dispatch(key_of, wait_on, executor=executor, name="first"))
        subscribed(executor, first, str, name="second")
        executor.controlled.sleep(WAIT_S)
        dispatches = {dispatch.name: dispatch for dispatch in executor.explain().dispatches}
        check(dispatches["first"], Cause.AWAITABLE)
        second = check(dispatches["second"], Cause.SOURCE_SILENT, never=("handler",))
        assert "the source, dispatch 'first', was asked for 256" in str(second)
        # Those that hold messages are told of first.
        assert [dispatch.name for dispatch in executor.explain().dispatches] == ["first", "second"]


def test_nothing_is_wrong() -> None:
    executor = KeyedExecutor(1, name="till")
    assert str(executor.explain()) == "executor 'till' has nothing to do: nothing is subscribed"
    operator = keyed_dispatch(key_of, str, executor=executor)
    assert results_of(Flowable.from_iterable(["ann 1"]).pipe(operator)) == ["ann 1"]
    executor.drain()
    explanation = executor.explain()
    assert (explanation.state, explanation.dispatches) == ("closed", ())
    assert str(explanation) == "executor 'till' is closed"


def test_a_scheduler_without_an_action_has_nothing_to_do() -> None:
    with virtual() as executor:
        ran: list[Any] = []
        KeyedScheduler(executor).schedule(lambda *_: ran.append(1))
        executor.controlled.sleep(WAIT_S)
        assert ran == [1]
        check(only(executor.explain()), Cause.NOTHING)


def test_two_dispatches_of_which_one_is_stuck() -> None:
    with virtual(workers=2) as executor:
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, str, name="quiet")
        subscribed(executor, Flowable.from_iterable(messages(ann=2)), wait_on, name="stuck")
        executor.controlled.sleep(WAIT_S)
        stuck, quiet = executor.explain().dispatches
        assert (stuck.name, quiet.name) == ("stuck", "quiet")
        check(stuck, Cause.AWAITABLE)
        check(quiet, Cause.SOURCE_SILENT, never=("ann",))
        assert only(executor.explain(name="quiet")).name == "quiet"
        missing = executor.explain(name="loud")
        assert missing.dispatches == ()
        assert str(missing) == "executor 'rxwow' has no dispatch named 'loud', or it has ended"


def test_a_dispatch_whose_worker_another_holds() -> None:
    with virtual() as executor:
        never = executor.controlled.event()
        subscribed(executor, Flowable.from_iterable(["ann 1"]), lambda _: never.wait(), name="holds")
        executor.controlled.sleep(1)
        subscribed(executor, Flowable.from_iterable(messages(bob=2)), str, name="waits")
        executor.controlled.sleep(WAIT_S - 1)
        dispatch = check(only(executor.explain(name="waits")), Cause.WORKER)
        assert dispatch.keys[0].worker is not None
        assert (dispatch.keys[0].worker.dispatch, dispatch.keys[0].worker.key) == ("holds", "ann")
        assert f"rxwow-0 has been in the handler of dispatch 'holds', key 'ann' for 12.4 s at {HERE}:" in str(dispatch)


def test_a_dispatch_that_has_ended() -> None:
    with virtual() as executor:
        probe = subscribed(executor, Flowable.from_iterable(messages(ann=2)), wait_on)
        executor.controlled.sleep(1)
        probe.cancel()
        check(probe.subscription.explain(), Cause.ENDED)  # type: ignore[attr-defined]


def test_a_thread_that_outlives_its_executor_is_told_of() -> None:
    gate = Gate()
    executor = KeyedExecutor(1, name="till")
    collector = Collector(10)
    operator = keyed_dispatch(key_of, gate, executor=executor, name="charge")
    Flowable.from_iterable(["ann 1"]).pipe(operator).subscribe(collector)
    gate.wait_for_arrivals(1)
    executor.dispose()
    first, thread = str(executor.explain()).splitlines()
    assert first == "executor 'till' is closed"
    assert thread.startswith("  till-0 has been in the handler of dispatch 'charge', key 'ann' for ")
    gate.let_go()
    assert executor.wait_closed(PATIENCE)
    assert str(executor.explain()) == "executor 'till' is closed"
    assert isinstance(collector.error, ExecutorClosedError)


# On a loop of the user's.


def test_a_handler_that_runs_on_the_users_own_loop() -> None:
    async def main() -> tuple[DispatchExplanation, ExecutorExplanation]:
        async with KeyedExecutor.on_running_loop() as executor:
            subscriber = Collector(10)
            Flowable.from_iterable(messages(ann=2)).pipe(keyed_dispatch(key_of, wait_on, executor=executor)).subscribe(
                subscriber
            )
            await asyncio.sleep(0.01)
            explanation = executor.explain()
            subscriber.subscription.cancel()
            return only(explanation), explanation

    dispatch, explanation = asyncio.run(main())
    check(dispatch, Cause.AWAITABLE)
    # This very coroutine runs there, and asks.
    (worker,) = explanation.workers
    assert worker.place is not None
    assert worker.place.function.endswith("main")


# Several things at once.


def test_a_window_with_room_is_not_called_full() -> None:
    with virtual(max_in_flight=4) as executor:
        # All that the source has is there, and nothing more will be asked of it.
        subscribed(executor, Flowable.from_iterable(messages(ann=4)), wait_on, name="all")
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, wait_on, name="some")
        source.emit("ann 1")
        executor.controlled.sleep(WAIT_S)
        for name in ("all", "some"):
            dispatch = check(only(executor.explain(name)), Cause.AWAITABLE, never=("window is full",))
            assert not dispatch.full


def test_a_handler_that_waits_while_the_source_is_blocked() -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        def generate() -> Iterator[str]:
            yield "ann 1"
            never.wait()  # in the source

        quiet: SourceProbe[str] = SourceProbe()

        def subscribe() -> None:
            subscribed(executor, quiet, str, name="quiet")
            subscribed(executor, Flowable.from_iterable(generate), wait_on, name="charge")

        executor.controlled.thread(subscribe, "asks").start()
        executor.controlled.sleep(WAIT_S)
        dispatch = only(executor.explain("charge"))
        check(dispatch, Cause.AWAITABLE, Cause.SOURCE)
        also = str(dispatch).splitlines()[1]
        assert also.startswith(
            "  also: the source has not returned from a call: asks has been in the source's subscribe"
        )
        assert also.endswith("for 12.4 s at " + place_text(generate, "# in the source"))
        # The same thread has subscribed to its source, and is done with that.
        check(only(executor.explain("quiet")), Cause.SOURCE_SILENT)


def test_results_that_are_done_together_with_a_handler_that_runs_count_for_it() -> None:
    with virtual() as executor:
        never = executor.controlled.event()

        def handle(message: str) -> Any:
            if message == "ann 5":
                never.wait()
            return Future() if key_of(message) == "bob" else message

        source: SourceProbe[str] = SourceProbe()
        probe = subscribed(executor, source, handle)
        # Short turns make long batches.
        for batch in (["warm 1"], ["warm 2"], ["warm 3"], messages(bob=2), messages(ann=6)):
            source.emit(*batch)
            executor.controlled.sleep(1)
        assert probe.items == ["warm 1", "warm 2", "warm 3"]
        check(
            only(executor.explain()), Cause.HANDLER, Cause.FUTURE, says=("the handler of key 'ann' has been running",)
        )


def test_what_is_over_and_waits_for_its_turn_does_not_wait_for_what_is_over() -> None:
    with virtual() as executor:
        never = executor.controlled.event()
        future: Future[str] = Future()

        def handle(message: str) -> Any:
            return future if message == "bob 0" else never.wait()

        subscribed(executor, Flowable.from_iterable(messages(bob=1, ann=2)), handle)
        executor.controlled.sleep(1)
        dispatch = check(only(executor.explain()), Cause.HANDLER, Cause.FUTURE)
        assert "\n  also: the handler of key 'bob' has been waiting for 1.0 s for a future that is pending" in str(
            dispatch
        )
        future.set_result("paid")
        executor.controlled.sleep(1)
        dispatch = check(only(executor.explain()), Cause.HANDLER)
        assert {key.key: key.cause for key in dispatch.keys} == {"ann": Cause.HANDLER, "bob": Cause.WORKER}


@pytest.mark.parametrize("inner", [False, True], ids=["before an Observable", "item of an Observable"])
def test_a_subscriber_that_holds_up_a_turn(inner: bool) -> None:
    with virtual() as executor:
        never = executor.controlled.event()
        asked_last = "inner" if inner else "ann 4"

        def take(result: str) -> None:
            if result == asked_last:
                never.wait()

        def handle(message: str) -> Any:
            return Flowable.from_iterable(["inner"] * 3) if message == "ann 5" else message

        probe = SubscriberProbe(demand=100, on_item=take)
        Flowable.from_iterable(messages(ann=7)).pipe(keyed_dispatch(key_of, handle, executor=executor)).subscribe(probe)
        executor.controlled.sleep(WAIT_S)
        assert probe.items[-1] == asked_last
        (worker,) = executor._workers
        assert worker.turn_of is not None
        check(only(executor.explain()), Cause.SUBSCRIBER)


def test_the_subscriber_of_another_dispatch_is_not_to_blame() -> None:
    with virtual() as executor:
        never = executor.controlled.event()
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, str, name="quiet")
        source.emit("ann 1")
        executor.controlled.sleep(1)
        probe: SubscriberProbe[str] = SubscriberProbe(demand=100, on_item=lambda _: never.wait())
        operator = keyed_dispatch(key_of, str, executor=executor, name="stuck")
        Flowable.from_iterable(["bob 1"]).pipe(operator).subscribe(probe)
        executor.controlled.sleep(1)
        check(only(executor.explain("stuck")), Cause.SUBSCRIBER)
        check(only(executor.explain("quiet")), Cause.SOURCE_SILENT)


# Places.


def test_a_place_is_told_as_it_is_written_from_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = Place(str(tmp_path / "shop" / "billing.py"), 88, "charge", "await session.post(url)")
    assert str(place) == f"{tmp_path}/shop/billing.py:88 (await session.post(url))"
    monkeypatch.chdir(tmp_path)
    assert str(place) == "shop/billing.py:88 (await session.post(url))"
    assert str(Place(place.file, 88, "charge", "")) == "shop/billing.py:88 (charge)"
    assert str(Place(place.file, 88, "charge", "x" * 100)) == f"shop/billing.py:88 ({'x' * 77}...)"


def installed(path: str, name: str, source: str) -> Any:
    """A function as if it came from a file among the installed packages."""
    namespace: dict[str, Any] = {"sleep": asyncio.sleep}
    exec(compile(source, str(Path(sysconfig.get_path("purelib")) / path), "exec"), namespace)
    return namespace[name]


def test_the_line_is_the_users_and_not_that_of_a_library() -> None:
    post = installed("client/session.py", "post", "async def post():\n    await sleep(3600)\n")
    charge = installed("shop/billing.py", "charge", "\nasync def charge(call):\n\n    await call()\n")

    async def own() -> None:
        await post()  # own line

    async def waits_at(coroutine: Any) -> Place | None:
        task = asyncio.ensure_future(coroutine)
        await asyncio.sleep(0)
        place = place_of_coroutine(task.get_coro())
        task.cancel()
        return place

    place = asyncio.run(waits_at(own()))
    assert place is not None
    assert (place.file, place.line) == (__file__, line_of(own, "# own line"))
    # A program that is installed itself: its package is that of the outermost line.
    place = asyncio.run(waits_at(charge(post)))
    assert place is not None
    assert (Path(place.file).name, place.line, place.function) == ("billing.py", 4, "charge")
    # And of what nobody wrote, the library's line is better than none.
    place = asyncio.run(waits_at(post()))
    assert place is not None
    assert Path(place.file).name == "session.py"
    assert asyncio.run(waits_at(asyncio.sleep(3600))) is None


# Its limits.


def test_ten_keys_are_told_of_and_the_longest_wait_is_among_them() -> None:
    with virtual() as executor:
        source: SourceProbe[str] = SourceProbe()
        subscribed(executor, source, functools.partial(_wait_for, asyncio.Event))
        source.emit("first 1")
        executor.controlled.sleep(5)
        source.emit(*messages(**{f"key{number}": 2 for number in range(30)}))
        executor.controlled.sleep(1)
        dispatch = only(executor.explain())
        assert (len(dispatch.keys), dispatch.key_count, dispatch.likewise) == (10, 31, 30)
        assert dispatch.keys[-1].key == "first"
        assert dispatch.keys[-1].seconds == 6
        assert {key.messages for key in dispatch.keys[:-1]} == {2}
        assert "and 21 more keys" in str(dispatch)
        assert "30 more keys likewise" in str(dispatch)


async def _wait_for(event: Callable[[], asyncio.Event], message: str) -> None:
    await event().wait()


def test_a_lock_that_hangs_in_a_comparison_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "LOCK_PATIENCE", 0.05)
    inside, go_on = threading.Event(), threading.Event()

    class Key:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            inside.set()
            return go_on.wait(PATIENCE)  # compared

    with KeyedExecutor(1) as executor:
        push = Push()
        collector = Collector(10)
        Flowable(push.publish).pipe(
            keyed_dispatch(lambda message: Key(), lambda message: Future(), executor=executor, name="charge")
        ).subscribe(collector)
        push.send(1)
        sends = threading.Thread(target=push.send, args=(2,), name="sends")
        sends.start()
        assert inside.wait(PATIENCE)
        dispatch = check(only(executor.explain()), Cause.LOCK)
        assert dispatch.lock_holder is not None
        assert dispatch.lock_holder.name == "sends"
        assert f"sends has been in a comparison of keys at {HERE}:" in str(dispatch)
        assert "# compared" in str(dispatch)
        go_on.set()
        sends.join(PATIENCE)
        collector.subscription.cancel()


def test_a_key_that_can_not_be_shown() -> None:
    class Key:
        def __repr__(self) -> str:
            raise ValueError("no")

    with virtual() as executor:
        subscribed(executor, Flowable.from_iterable([1]), lambda message: Future(), key=lambda message: Key())
        executor.controlled.sleep(1)
        assert "the handler of key <Key instance at" in str(executor.explain())


def test_an_explanation_is_frozen() -> None:
    explanation: Any = KeyedExecutor(1).explain()
    with pytest.raises(FrozenInstanceError):
        explanation.name = "another"
