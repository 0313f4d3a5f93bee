"""When a handler is finished: whatever it returns is waited for, no worker is held meanwhile, and credit comes back."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, Subject
from reactivex.disposable import Disposable

from rxwow import FAIL, SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ForeignLoopError, HandlerExit, MissingBackpressureError
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.testing import ControlledPlatform, run

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


# A waiting handler holds no worker.


def test_a_thousand_keys_wait_on_two_workers_for_futures() -> None:
    arrivals = Arrivals(1000)
    futures: list[Future[int]] = [Future() for _ in range(1000)]

    def wait(message: int) -> Future[int]:
        arrivals.arrive()
        return futures[message]

    with KeyedExecutor(2, max_in_flight=1000) as executor:
        collector = Collector(1000)
        dispatched(range(1000), wait, executor).subscribe(collector)
        assert arrivals.all_there.wait(PATIENCE)
        # Both workers are free: another dispatch of the same executor has its way through.
        assert sorted(results_of(dispatched(range(100), str, executor))) == sorted(map(str, range(100)))
        (statistics,) = executor.statistics().dispatches
        assert statistics.mailboxes == 1000
        assert (statistics.waiting, statistics.mailboxed, statistics.running) == (1000, 0, 0)
        for message, future in enumerate(futures):
            future.set_result(message)
        assert collector.ended.wait(PATIENCE)
        assert sorted(collector.taken) == list(range(1000))


def test_a_thousand_keys_wait_on_two_workers_for_coroutines() -> None:
    arrivals = Arrivals(1000)
    waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    async def wait(message: int) -> int:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        waiting.append((loop, future))
        arrivals.arrive()
        await future
        return message

    with KeyedExecutor(2, max_in_flight=1000) as executor:
        collector = Collector(1000)
        dispatched(range(1000), wait, executor).subscribe(collector)
        assert arrivals.all_there.wait(PATIENCE)
        assert sorted(results_of(dispatched(range(100), str, executor))) == sorted(map(str, range(100)))
        for loop, future in waiting:
            loop.call_soon_threadsafe(future.set_result, None)
        assert collector.ended.wait(PATIENCE)
        assert sorted(collector.taken) == list(range(1000))


@pytest.mark.seeds(3, soak=200)
def test_a_thousand_keys_that_sleep_a_second_take_a_second(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> float:
        with KeyedExecutor(2, max_in_flight=1000) as executor:
            began = platform.monotonic()

            async def wait(message: int) -> int:
                await asyncio.sleep(1.0)
                return message

            assert sorted(results_of(dispatched(range(1000), wait, executor))) == list(range(1000))
            return platform.monotonic() - began

    assert run(scenario, seed, step_limit=1_000_000) == pytest.approx(1.0)


# What a handler may return.


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
    "observable": lambda value: reactivex.of(value),
    "flowable": lambda value: Flowable.from_iterable([value]),
}


@pytest.mark.parametrize("kind", RETURNED)
def test_what_a_handler_returns_is_waited_for(kind: str) -> None:
    with KeyedExecutor(2) as executor:
        assert sorted(results_of(dispatched(range(40), RETURNED[kind], executor))) == list(range(40))


def test_none_is_a_result_however_it_comes() -> None:
    for kind, returned in RETURNED.items():
        with KeyedExecutor(1) as executor:
            results = results_of(dispatched(range(3), lambda _, returned=returned: returned(None), executor))
            assert results == [None, None, None], kind


@pytest.mark.seeds(150, soak=5000)
def test_kinds_mixed_on_one_key_come_one_at_a_time_and_in_order(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> list[int]:
        kinds = [platform.random.choice(list(RETURNED.values())) for _ in range(12)]
        with KeyedExecutor(2, throughput=platform.random.choice([1, 16])) as executor:
            operator = keyed_dispatch(lambda _: None, lambda message: kinds[message](message), executor=executor)
            return results_of(Flowable.from_iterable(range(12)).pipe(operator))

    assert run(scenario, seed) == list(range(12))


def test_an_ordinary_generator_is_a_plain_result() -> None:
    with KeyedExecutor(1) as executor:
        (result,) = results_of(dispatched([3], lambda message: (number for number in range(message)), executor))
        assert list(result) == [0, 1, 2]


def test_more_types_than_are_remembered() -> None:
    # What is known of types is forgotten after a thousand of them, and found out again.
    def handle(message: int) -> Any:
        made = type(f"Made{message}", (OldAwaitable,) if message % 2 else (), {})
        return made(message) if message % 2 else made()

    with KeyedExecutor(1) as executor:
        results = results_of(dispatched(range(2100), handle, executor))
        assert sorted(result for result in results if isinstance(result, int)) == list(range(1, 2100, 2))


class Elusive:
    """As a lazy proxy that has nothing behind it: asking for its class raises."""

    @property
    def __class__(self) -> type[Any]:
        raise LookupError("nothing behind this proxy")


def test_a_result_that_refuses_to_be_asked_for_its_class_is_a_result() -> None:
    with KeyedExecutor(1) as executor:
        results = results_of(dispatched(range(2), lambda _: Elusive(), executor))
        assert [type(result) for result in results] == [Elusive, Elusive]


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
        with pytest.raises(HandlerExit):
            dispatched([1], lambda _: Observable(exits), executor).run()
        assert results_of(dispatched([1], str, executor)) == ["1"]


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
        # A request of nothing that is there yet starts the source; the rest is asked for when all has been emitted.
        subject_emits = threading.Event()
        collector.subscription.request(1)
        dispatched([1], lambda _: subject_emits.set(), executor).run()
        collector.subscription.request(1000)
        assert collector.ended.wait(PATIENCE)
        if fits:
            assert collector.error is None
            assert collector.taken == list(range(emitted))
        else:
            assert isinstance(collector.error, MissingBackpressureError)
            assert collector.taken == list(range(len(collector.taken)))


# Another loop's awaitables.


def test_an_awaitable_of_another_loop_fails_with_the_remedy() -> None:
    foreign = asyncio.new_event_loop()
    try:
        future = foreign.create_future()
        lock = asyncio.Lock()

        async def waits_for_it(_: int) -> Any:
            return await future

        async def locks(_: int) -> None:
            async with lock:
                pass

        async def hold() -> None:
            await lock.acquire()
            waiter = asyncio.ensure_future(lock.acquire())
            await asyncio.sleep(0)
            waiter.cancel()

        # A lock is bound to the loop where somebody first had to wait for it.
        foreign.run_until_complete(hold())
        with KeyedExecutor(1) as executor:
            for handler in (lambda _: future, waits_for_it, locks):
                with pytest.raises(ForeignLoopError, match=r"KeyedExecutor\.on_running_loop\(\)"):
                    dispatched([1], handler, executor).run()
            assert results_of(dispatched([1], lambda _: future, executor, on_failure=SKIP)) == []
    finally:
        foreign.close()


def test_on_running_loop_waits_for_what_belongs_to_the_callers_loop() -> None:
    async def main() -> list[Any]:
        gate = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, gate.set_result, "open")

        async def wait(message: int) -> tuple[int, str]:
            return message, await gate

        async with KeyedExecutor.on_running_loop() as executor:
            return [result async for result in dispatched(range(3), wait, executor)]

    assert sorted(asyncio.run(main())) == [(0, "open"), (1, "open"), (2, "open")]


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
            lambda _: 0, fail_third, executor=executor, max_in_flight=window, on_failure=FAIL,
            on_discard=discarded.append,
        )  # fmt: skip
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


# F47: the executor owns what waits.


def test_what_waits_is_not_collected_though_nobody_else_refers_to_it() -> None:
    # F47.
    arrivals = Arrivals(30)
    asyncio_futures: list[tuple[asyncio.AbstractEventLoop, weakref.ref[asyncio.Future[None]]]] = []
    futures: list[weakref.ref[Future[None]]] = []
    subjects: list[weakref.ref[Subject[None]]] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        asyncio_futures.append((loop, weakref.ref(future)))
        arrivals.arrive()
        await future

    def handle(message: int) -> Any:
        if message % 3 == 0:
            return wait()
        if message % 3 == 1:
            future: Future[None] = Future()
            futures.append(weakref.ref(future))
            arrivals.arrive()
            return future
        subject: Subject[None] = Subject()
        subjects.append(weakref.ref(subject))
        arrivals.arrive()
        return subject

    with KeyedExecutor(2) as executor:
        collector = Collector(1000)
        dispatched(range(30), handle, executor).subscribe(collector)
        assert arrivals.all_there.wait(PATIENCE)
        results_of(dispatched(range(10), str, executor))
        for _ in range(5):
            gc.collect()
        for loop, asyncio_future in asyncio_futures:
            loop.call_soon_threadsafe(_alive(asyncio_future).set_result, None)
        for future in futures:
            _alive(future).set_result(None)
        for subject in subjects:
            _alive(subject).on_completed()
        assert collector.ended.wait(PATIENCE)
        assert len(collector.taken) == 20


def _alive(reference: weakref.ref[Any]) -> Any:
    referent = reference()
    assert referent is not None, "what a handler waits for was collected"
    return referent


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
