"""map_async, on the virtual loops of controlled threads, and now and then on a real one."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

from rxwow.errors import HandlerExit, InvalidArgumentError, RxwowError, UsageError
from rxwow.streams.flowable import Flowable
from rxwow.streams.map_async import map_async
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import BatchProbe, Log, Probe, eventually, is_gone, wait_until_ended
from tests.streams.sources import SourceError, loop_on_a_thread
from tests.streams.test_schedules import Controlled, join

T = TypeVar("T")

both_ways = pytest.mark.parametrize("probe_class", [Probe, BatchProbe], ids=["singly", "in batches"])
in_both_orders = pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "as they finish"])


class Work:
    """A function for map_async that takes a given time for each item, and counts what runs."""

    def __init__(self, seconds: Callable[[int], float], failing: frozenset[int] = frozenset()) -> None:
        self._seconds = seconds
        self._failing = failing
        self.running: set[int] = set()
        self.most = 0
        self.begun: list[int] = []
        self.finished: list[int] = []
        self.cancelled: list[int] = []
        self.failed: list[int] = []

    async def __call__(self, item: int) -> int:
        self.begun.append(item)
        self.running.add(item)
        self.most = max(self.most, len(self.running))
        try:
            await asyncio.sleep(self._seconds(item))
            if item in self._failing:
                self.failed.append(item)
                raise SourceError(item)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.cancelled.append(item)
            raise
        finally:
            self.running.discard(item)
        self.finished.append(item)
        return -item


def on_virtual_loop(main: Callable[[ControlledPlatform], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    def scenario(platform: ControlledPlatform) -> T:
        loop = platform.event_loop()
        try:
            return loop.run_until_complete(main(platform))
        finally:
            loop.close()

    return run(scenario, seed)


@both_ways
@in_both_orders
@given(
    durations=st.lists(st.integers(0, 5), max_size=12),
    concurrency=st.integers(1, 5),
    requests=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=6),
    awaited=st.booleans(),
)
def test_results_and_bounds_however_they_are_asked_for(
    probe_class: type[Probe],
    ordered: bool,
    durations: list[int],
    concurrency: int,
    requests: list[tuple[int, int]],
    awaited: bool,
) -> None:
    async def main(_: ControlledPlatform) -> None:
        work = Work(lambda item: durations[item])
        pulled: list[int] = []

        def items() -> Iterator[int]:
            for item in range(len(durations)):
                pulled.append(item)
                # As many are inside as the operator may hold, and those that have left are delivered.
                assert len(pulled) - len(probe.items) <= concurrency
                yield item

        async def awaited_items() -> AsyncIterator[int]:
            for item in items():
                await asyncio.sleep(0.5)
                yield item

        probe = probe_class()
        source = Flowable.from_async_iterable(awaited_items) if awaited else Flowable.from_iterable(items)
        map_async(work, max_concurrency=concurrency, ordered=ordered)(source).subscribe(probe)
        await asyncio.sleep(100)
        assert (pulled, probe.ended) == ([], False)
        for pause, n in requests:
            probe.request(n)
            await asyncio.sleep(pause)
        await asyncio.sleep(100)
        assert len(probe.items) == min(probe.requested, len(durations))
        # It works ahead for the next request.
        if requests and probe.requested < len(durations):
            assert len(work.begun) >= min(len(probe.items) + concurrency, len(durations))
        probe.request(UNBOUNDED)
        await asyncio.sleep(100)
        assert (probe.completions, probe.errors) == (1, [])
        expected = range(len(durations)) if ordered else work.finished
        assert probe.items == [-item for item in expected]
        assert sorted(work.finished) == list(range(len(durations)))
        assert work.most <= concurrency
        assert work.cancelled == []
        probe.check()
        assert len(asyncio.all_tasks()) == 1

    on_virtual_loop(main)


@in_both_orders
def test_as_many_run_side_by_side_as_may(ordered: bool) -> None:
    async def main(platform: ControlledPlatform) -> None:
        work = Work(lambda _: 1.0)
        results = [result async for result in map_async(work, max_concurrency=4, ordered=ordered)(source)]
        assert len(results) == 16
        assert work.most == 4
        assert platform.monotonic() == 4.0

    source = Flowable.from_iterable(range(16))
    on_virtual_loop(main)


def test_slow_call_holds_up_what_is_ordered_and_nothing_else() -> None:
    async def main(platform: ControlledPlatform) -> None:
        for ordered, expected in ((True, [0, -1, -2, -3, -4]), (False, [-1, -2, -3, -4, 0])):
            work = Work(lambda item: 10.0 if item == 0 else 1.0)
            source = Flowable.from_iterable(range(5))
            assert [result async for result in map_async(work, max_concurrency=2, ordered=ordered)(source)] == expected

    on_virtual_loop(main)


@in_both_orders
@given(
    durations=st.lists(st.integers(0, 5), min_size=1, max_size=10),
    concurrency=st.integers(1, 5),
    data=st.data(),
)
def test_failing_call_comes_after_the_results_before_it(
    ordered: bool, durations: list[int], concurrency: int, data: st.DataObject
) -> None:
    failing = data.draw(st.frozensets(st.integers(0, len(durations) - 1), min_size=1, max_size=3), label="failing")

    async def main(_: ControlledPlatform) -> None:
        cancelled: list[str] = []
        work = Work(lambda item: [*durations, 1][item], failing)
        probe = Probe(UNBOUNDED)

        def items() -> Iterator[int]:
            try:
                yield from range(len(durations))
                while True:
                    yield len(durations)
            finally:
                cancelled.append("cancelled")

        def check_ended(error: Exception) -> None:
            assert not work.running
            take(error)

        take = probe.on_error
        probe.on_error = check_ended  # type: ignore[method-assign]
        map_async(work, max_concurrency=concurrency, ordered=ordered)(Flowable.from_iterable(items)).subscribe(probe)
        await asyncio.sleep(1000)
        assert [type(error) for error in probe.errors] == [SourceError]
        assert cancelled == ["cancelled"]
        first = probe.errors[0].args[0]
        if ordered:
            assert first == min(failing)
            assert probe.items == [-item for item in range(first)]
        else:
            # A call that had finished before it was told to stop has its result dropped.
            assert probe.items == [-item for item in work.finished[: len(probe.items)]]
        assert sorted([*work.finished, *work.cancelled, *work.failed]) == sorted(work.begun)
        assert len(asyncio.all_tasks()) == 1
        probe.check()

    on_virtual_loop(main)


@in_both_orders
def test_failing_call_stops_what_would_come_after_it_at_once(ordered: bool) -> None:
    """And not when its error is emitted: in order that is after a slow call, else after a request, if ever."""

    async def main(_: ControlledPlatform) -> None:
        subject: Subject[int] = Subject()
        work = Work(lambda item: [50.0, 1.0, 100.0, 0.0][item], frozenset([1]))
        probe = Probe(2 if ordered else 1)
        map_async(work, ordered=ordered)(subject).subscribe(probe)
        await asyncio.sleep(0)
        for item in range(3) if ordered else (3, 1, 2):
            subject.on_next(item)
        await asyncio.sleep(2)
        assert subject.observers == []
        assert (work.failed, work.cancelled) == ([1], [2])
        assert work.running == ({0} if ordered else set())
        assert probe.items == ([] if ordered else [-3])
        probe.request(1)
        await asyncio.sleep(60)
        assert (probe.items, len(probe.errors)) == ([0] if ordered else [-3], 1)

    on_virtual_loop(main)


@in_both_orders
def test_error_of_the_source_comes_after_the_results_of_its_items(ordered: bool) -> None:
    async def main(_: ControlledPlatform) -> None:
        def items() -> Iterator[int]:
            yield 1
            yield 2
            raise SourceError

        probe = Probe(UNBOUNDED)
        map_async(Work(lambda _: 1.0), ordered=ordered)(Flowable.from_iterable(items)).subscribe(probe)
        await asyncio.sleep(10)
        assert (probe.items, [type(error) for error in probe.errors]) == ([-1, -2], [SourceError])

    on_virtual_loop(main)


@in_both_orders
@pytest.mark.seeds(100, soak=10_000)
def test_cancel_at_any_moment_ends_all_calls_and_the_source(ordered: bool, seed: int) -> None:
    """On a loop and thread of its own, which end too, or the run would report a deadlock."""

    def scenario(platform: ControlledPlatform) -> None:
        random = platform.random
        happened: list[str] = []
        durations = [random.choice([0, 1, 2]) for _ in range(8)]
        work = Work(lambda item: durations[item])

        def items() -> Iterator[int]:
            happened.append("opened")
            try:
                for item in range(8):
                    platform.point("in the source")
                    yield item
            finally:
                happened.append("closed")

        subscriber = Controlled(platform)
        source = Flowable.from_iterable(items, blocking=random.random() < 0.5)
        map_async(work, max_concurrency=random.choice([1, 3]), ordered=ordered)(source).subscribe(subscriber)
        thread = subscriber.subscription._thread
        cancels = random.random() < 0.8
        pause = random.choice([0, 0.5, 1, 1.5, 3])

        def ask() -> None:
            for _ in range(3):
                subscriber.request(3)
                platform.sleep(random.choice([0, 1]))

        def cancel() -> None:
            if cancels:
                platform.sleep(pause)
                subscriber.subscription.cancel()

        join(platform, ask, cancel)
        thread.join()
        platform.sleep(1)
        assert not work.running
        assert happened in ([], ["opened", "closed"])
        assert sorted(work.finished + work.cancelled) == sorted(work.begun)
        assert subscriber.ends == ["completed"] or cancels
        if subscriber.ends:
            assert sorted(subscriber.items) == sorted(-item for item in range(8))
        if ordered:
            assert subscriber.items == [-item for item in range(len(subscriber.items))]

    run(scenario, seed)


def test_cancel_does_not_wait_for_a_call_that_is_slow_to_stop() -> None:
    async def main(platform: ControlledPlatform) -> None:
        stopped: list[int] = []

        async def stubborn(item: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(50)
                stopped.append(item)

        probe = Probe(1)
        map_async(stubborn)(Flowable.from_iterable([1, 2])).subscribe(probe)
        await asyncio.sleep(1)
        began = platform.monotonic()
        probe.cancel()
        assert platform.monotonic() == began
        await asyncio.sleep(60)
        assert sorted(stopped) == [1, 2]
        assert len(asyncio.all_tasks()) == 1

    on_virtual_loop(main)


@pytest.mark.parametrize("end", ["cancel", "invalid request"])
def test_end_before_the_first_request_cancels_the_source(end: str) -> None:
    subject: Subject[int] = Subject()
    probe = Probe()
    map_async(Work(lambda _: 0.0))(subject).subscribe(probe)
    assert len(subject.observers) == 1
    if end == "cancel":
        probe.cancel()
    else:
        probe.subscription.request(0)
    wait_until_ended(prefix="rxwow-source")
    assert subject.observers == []


def test_source_that_does_not_wait_for_demand_loses_nothing() -> None:
    async def main() -> None:
        subject: Subject[int] = Subject()
        got: list[int] = []
        map_async(Work(lambda _: 0.0))(subject).subscribe(got.append)
        for item in (1, 2, 3):
            subject.on_next(item)
        await eventually(lambda: got == [-1, -2, -3])

    asyncio.run(main())


def test_subscriber_that_cancels_in_on_subscribe_leaves_the_source_alone() -> None:
    class Leaving(Probe):
        def on_subscribe(self, subscription: Any) -> None:
            subscription.cancel()

    pulled: list[int] = []
    map_async(Work(lambda _: 0.0))(Flowable.from_iterable(lambda: pulled)).subscribe(Leaving())
    wait_until_ended(prefix="rxwow-source")


def test_each_call_has_a_copy_of_the_context_of_the_subscription() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def call(item: int) -> tuple[int, int]:
        found = variable.get()
        variable.set(item)
        await asyncio.sleep(0)
        return found, variable.get()

    async def main() -> None:
        variable.set(7)
        mapped = map_async(call)(Flowable.from_iterable([1, 2, 3]))
        got: list[Any] = []
        mapped.subscribe(got.append)
        variable.set(8)
        await eventually(lambda: len(got) == 3)
        assert got == [(7, 1), (7, 2), (7, 3)]

    asyncio.run(main())


def test_loop_is_that_of_the_subscribing_thread_or_of_the_subscriber() -> None:
    async def where(_: int) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def main() -> None:
        mapped = map_async(where)(Flowable.from_iterable([1]))
        assert [loop async for loop in mapped] == [asyncio.get_running_loop()]

    asyncio.run(main())
    with loop_on_a_thread() as loop:
        probe = Probe(UNBOUNDED)
        probe.offered_loop = loop
        map_async(where)(Flowable.from_iterable([1])).subscribe(probe)
        probe.wait_for_end()
        assert probe.items == [loop]
    before = threading.active_count()
    assert isinstance(map_async(where)(Flowable.from_iterable([1])).run(), asyncio.AbstractEventLoop)
    wait_until_ended(prefix="rxwow-source")
    assert threading.active_count() <= before


def test_awaited_source_runs_on_the_loop_that_the_subscriber_offers() -> None:
    found: list[asyncio.AbstractEventLoop] = []

    async def items() -> AsyncIterator[int]:
        found.append(asyncio.get_running_loop())
        yield 1

    with loop_on_a_thread() as loop:
        probe = Probe(UNBOUNDED)
        probe.offered_loop = loop
        map_async(Work(lambda _: 0.0))(Flowable.from_async_iterable(items)).subscribe(probe)
        probe.wait_for_end()
    assert found == [loop]


@pytest.mark.parametrize("sends", [True, False], ids=["that sends", "that is silent"])
@in_both_orders
def test_loop_that_is_closed_ends_the_stream_and_cancels_the_source(ordered: bool, sends: bool, log: Log) -> None:
    subject: Subject[int] = Subject()
    probe = Probe(UNBOUNDED)
    work = Work(lambda _: 1000.0)
    loop = asyncio.new_event_loop()
    # It complains of the call that it has taken with it.
    loop.set_exception_handler(lambda *_: None)

    async def main() -> None:
        map_async(work, ordered=ordered)(subject).subscribe(probe)
        await asyncio.sleep(0.01)
        subject.on_next(1)
        await asyncio.sleep(0.01)

    loop.run_until_complete(main())
    loop.close()
    assert work.running == {1}
    if sends:
        subject.on_next(2)
        assert subject.observers == []
    probe.request(1)
    assert subject.observers == []
    assert [type(error) for error in probe.errors] == [RxwowError]
    assert "map_async" in str(probe.errors[0])
    assert log.levels == ["WARNING"]
    gc.collect()


def failing_with(error: BaseException) -> Callable[[int], Coroutine[Any, Any, int]]:
    async def call(item: int) -> int:
        raise error

    return call


def raising(item: int) -> Any:
    raise SourceError(item)


@in_both_orders
@pytest.mark.parametrize(
    ("func", "error", "message"),
    [
        (raising, SourceError, "1"),
        (str, UsageError, "which can't be awaited"),
        (failing_with(asyncio.CancelledError()), HandlerExit, "function of map_async"),
        (failing_with(StopAsyncIteration()), RxwowError, "failed with StopAsyncIteration"),
        (failing_with(StopIteration()), RuntimeError, "StopIteration"),
    ],
    ids=["raises before it is awaited", "is not async", "cancels itself", "StopAsyncIteration", "StopIteration"],
)
def test_function_that_fails_in_an_odd_way(
    ordered: bool, func: Callable[[int], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        map_async(func, ordered=ordered)(Flowable.from_iterable([1])).run()


def test_any_awaitable_will_do() -> None:
    class Doubling:
        def __init__(self, item: int) -> None:
            self._item = item

        def __await__(self) -> Generator[Any, Any, int]:
            yield from asyncio.sleep(0).__await__()
            return 2 * self._item

    assert map_async(Doubling)(reactivex.of(1, 2)).run() == 4


def test_call_that_fails_when_it_is_cancelled_is_logged(log: Log) -> None:
    async def main() -> None:
        began = asyncio.Event()

        async def call(item: int) -> None:
            began.set()
            try:
                await asyncio.sleep(1000)
            finally:
                raise SourceError

        probe = Probe(1)
        map_async(call)(Flowable.from_iterable([1])).subscribe(probe)
        await began.wait()
        probe.cancel()
        await eventually(lambda: log.records)
        assert log.levels == ["ERROR"]
        assert "after it was cancelled" in log.messages[0]

    asyncio.run(main())


def test_source_that_raises_in_subscribe_is_an_error() -> None:
    def publish(*_: Any) -> Any:
        raise SourceError

    with pytest.raises(SourceError):
        map_async(Work(lambda _: 0.0))(Flowable(publish)).run()


@in_both_orders
def test_nothing_is_held_after_a_cancel(ordered: bool) -> None:
    class Item:
        pass

    async def main() -> None:
        async def call(item: Item) -> Item:
            await asyncio.sleep(1000)
            return item

        subject: Subject[Item] = Subject()
        probe = Probe(1)
        map_async(call, ordered=ordered)(subject).subscribe(probe)
        await asyncio.sleep(0)
        item = Item()
        held = weakref.ref(item)
        subject.on_next(item)
        del item
        await asyncio.sleep(0.01)
        assert held() is not None
        probe.cancel()
        await eventually(lambda: held() is None, collecting=True)
        assert subject.observers == []

    asyncio.run(main())


@pytest.mark.parametrize("cancels", [False, True], ids=["ends", "is cancelled"])
def test_subscriber_is_forgotten_though_the_subscription_is_held(cancels: bool) -> None:
    gone = threading.Event()
    probe = Probe(1 if cancels else UNBOUNDED)
    weakref.finalize(probe, gone.set)
    handle = map_async(Work(lambda _: 0.0))(Flowable.from_iterable([1, 2, 3])).subscribe(probe)
    subscription = probe.subscription
    if cancels:
        probe.wait_for_items(1)
        handle.dispose()
    else:
        probe.wait_for_end()
    del probe
    assert is_gone(gone)
    subscription.request(1)


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "1", True, None], ids=repr)
def test_concurrency_must_be_a_count(concurrency: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="max_concurrency must be a whole number of at least 1"):
        map_async(raising, max_concurrency=concurrency)


def test_function_must_be_callable() -> None:
    with pytest.raises(InvalidArgumentError, match="func must be a function"):
        map_async(1)  # type: ignore[arg-type]
