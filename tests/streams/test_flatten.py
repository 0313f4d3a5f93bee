import asyncio
import concurrent.futures
import itertools
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from rxwow.errors import InvalidArgumentError, MissingBackpressureError
from rxwow.streams.async_iterables import from_async_iterable
from rxwow.streams.flat_mapping import flat_map
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.streams.counted import Counted, Published
from tests.streams.probe import PATIENCE_S, BatchProbe, Probe
from tests.streams.sources import SOURCES, Source, SourceError, every_source
from tests.streams.test_schedules import Controlled, each, join

sizes = st.lists(st.integers(0, 9), max_size=8)
demands = st.lists(st.integers(1, 12), max_size=20)
ways = st.sampled_from([Probe, BatchProbe])


def of_rxpy(inners: list[list[Any]]) -> list[Any]:
    """What RxPY's own operator emits."""
    got: list[Any] = []
    reactivex.from_iterable(inners).pipe(ops.flat_map(reactivex.from_iterable)).subscribe(got.append)
    return got


def labelled(lengths: list[int]) -> list[list[tuple[int, int]]]:
    return [[(inner, number) for number in range(length)] for inner, length in enumerate(lengths)]


def itself(stream: Flowable[Any]) -> Flowable[Any]:
    return stream


def flowable_of(counted: Counted) -> Flowable[Any]:
    # Not `Counted.flowable`, which passes over what a subclass makes of it.
    return counted.flowable()


def assert_order_within_inners(items: list[tuple[int, int]]) -> None:
    seen: Counter[int] = Counter()
    for inner, number in items:
        assert number == seen[inner]
        seen[inner] += 1


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "Flowable": Flowable.from_iterable,
    "Flowable of unknown length": lambda items: Flowable.from_iterable(lambda: iter(items)),
    "Observable": reactivex.from_iterable,
    "list": lambda items: items,
    "generator": lambda items: (item for item in items),
}

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@given(
    lengths=sizes,
    asked=demands,
    way=ways,
    max_concurrency=st.integers(1, 4),
    prefetch=st.sampled_from([1, 2, 3, 5, 32]),
)
def test_same_items_as_rxpy_within_the_demand(
    kind: str, lengths: list[int], asked: list[int], way: type[Probe], max_concurrency: int, prefetch: int
) -> None:
    inners = labelled(lengths)
    expected = of_rxpy(inners)
    mapper = KINDS[kind]
    probe = way()
    operator = flat_map(mapper, max_concurrency=max_concurrency, prefetch=prefetch)
    Flowable.from_iterable(inners).pipe(operator).subscribe(probe)
    assert probe.items == []
    for n in asked:
        probe.request(n)
        assert len(probe.items) == min(probe.requested, len(expected))
        assert_order_within_inners(probe.items)
    probe.request(UNBOUNDED)
    assert Counter(probe.items) == Counter(expected)
    assert_order_within_inners(probe.items)
    assert (probe.completions, probe.errors) == (1, [])
    probe.check()


@given(lengths=sizes, asked=st.integers(0, 30), max_concurrency=st.integers(1, 4), prefetch=st.integers(1, 6))
def test_bound_of_what_is_asked_for(lengths: list[int], asked: int, max_concurrency: int, prefetch: int) -> None:
    inners = [Counted(items) for items in labelled(lengths)]
    outer = Counted(inners)
    taken: Counter[int] = Counter()

    def look(item: tuple[int, int] | None = None) -> None:
        if item is not None:
            taken[item[0]] += 1
        for number, inner in enumerate(inners):
            # An item counts as taken when its on_next has returned, so one may be in between.
            assert inner.requested - taken[number] <= prefetch
            assert inner.given - taken[number] <= prefetch
        assert sum(inner.active for inner in inners) <= max_concurrency
        left = sum(inner.ends > 0 and inner.given == taken[number] for number, inner in enumerate(inners))
        assert outer.requested <= max_concurrency + left

    probe = Probe(on_item=look)
    operator = flat_map(Counted.flowable, max_concurrency=max_concurrency, prefetch=prefetch)
    outer.flowable().pipe(operator).subscribe(probe)
    for _ in range(asked):
        probe.request(1)
        look()
    probe.cancel()
    assert not any(source.active for source in [outer, *inners])
    probe.check()


def test_nothing_is_asked_of_anything_before_the_first_request() -> None:
    inner = Counted(range(5))
    outer = Counted([inner])
    probe = Probe()
    outer.flowable().pipe(flat_map(Counted.flowable)).subscribe(probe)
    assert (outer.subscribed, outer.requests, inner.subscribed) == (1, [], 0)
    probe.request(1)
    assert (outer.requests[0], inner.requests, probe.items) == (256, [32], [0])


@pytest.mark.parametrize("at_once", [True, False], ids=["all at once", "one by one"])
def test_inner_is_asked_again_after_three_quarters(at_once: bool) -> None:
    inner = Counted(range(100))
    probe = Probe()
    Flowable.from_iterable([inner]).pipe(flat_map(Counted.flowable, prefetch=8)).subscribe(probe)
    if at_once:
        probe.request(100)
    else:
        for _ in range(5):
            probe.request(1)
        assert inner.requests == [8]
        for _ in range(95):
            probe.request(1)
    assert probe.items == list(range(100))
    if at_once:
        # What is taken at once may be more.
        assert all(6 <= n <= 8 for n in inner.requests)
    else:
        assert inner.requests[:4] == [8, 6, 6, 6]


def test_inner_is_asked_again_while_others_keep_the_drain_busy() -> None:
    """Else an inner stream that needs time would stand still until everything else was taken."""
    asked_after: list[int] = []
    inners = [Counted([number] * 100) for number in range(20)]

    def look(_: Any) -> None:
        if len(inners[0].requests) == 2 and not asked_after:
            asked_after.append(len(probe.items))

    probe = Probe(on_item=look)
    Flowable.from_iterable(inners).pipe(flat_map(Counted.flowable, prefetch=8)).subscribe(probe)
    probe.request(1)
    assert [inner.given for inner in inners] == [8] * 20
    probe.request(UNBOUNDED)
    assert asked_after
    assert asked_after[0] <= 3 * 8


def test_outer_is_asked_for_one_more_as_an_inner_has_completed_and_was_taken() -> None:
    inners = [Counted([number]) for number in range(4)]
    outer = Counted(inners)
    probe = Probe()
    outer.flowable().pipe(flat_map(Counted.flowable, max_concurrency=2)).subscribe(probe)
    probe.request(1)
    assert [inner.subscribed for inner in inners] == [1, 1, 1, 0]
    assert outer.requests == [2, 1]
    probe.request(1)
    assert [inner.subscribed for inner in inners] == [1, 1, 1, 1]
    assert outer.requests == [2, 1, 1]


def test_inner_streams_that_have_items_take_turns() -> None:
    inners = [Counted([name] * 50) for name in "abc"]
    probe = Probe()
    Flowable.from_iterable(inners).pipe(flat_map(Counted.flowable, prefetch=4)).subscribe(probe)
    for _ in range(30):
        probe.request(1)
    # The first was alone when it answered the first request.
    assert all(set(probe.items[at : at + 3]) == set("abc") for at in range(1, 28))


def test_endless_inner_streams_share_a_demand_that_comes_in_pieces() -> None:
    """Though each has items again whenever it is asked."""
    names = [Flowable.from_iterable(itertools.repeat(name)) for name in "abc"]
    probe = Probe()
    Flowable.from_iterable(names).pipe(flat_map(itself)).subscribe(probe)
    for _ in range(100):
        probe.request(16)
    assert min(Counter(probe.items).values()) > 500


if getattr(sys, "_is_gil_enabled", lambda: True)():
    # Without it the endless stream may have emitted all that was asked of it by the time that the other's thread asks
    # it for more. It then emits on that thread, which has nothing else to do any more; see `merge`.
    def test_endless_inner_stream_lets_those_of_other_threads_be_asked_again() -> None:
        """Its emission never returns, and it was asked on that thread."""
        endless = Flowable.from_iterable(itertools.repeat("endless"))
        other = Flowable.from_iterable(["other"] * 99 + ["last"], blocking=True)
        asked_again = threading.Event()

        def take(item: str) -> None:
            if item == "last":
                probe.cancel()
                asked_again.set()

        probe = Probe(UNBOUNDED, on_item=take)
        Flowable.from_iterable([other, endless]).pipe(flat_map(itself)).subscribe(probe)
        assert asked_again.wait(PATIENCE_S)


@every_source
@pytest.mark.parametrize("way", [Probe, BatchProbe])
def test_inner_streams_of_every_kind(source: Source, way: type[Probe]) -> None:
    """Emitting inside `request`, on threads of their own and on event loops."""
    inners = labelled([0, 1, 3, 40, 100])
    probe = way()
    Flowable.from_iterable(inners).pipe(flat_map(source.of, prefetch=8)).subscribe(probe)
    for n in (1, 2, 30, 50):
        probe.request(n)
        probe.wait_for_items(probe.requested)
        assert len(probe.items) == probe.requested
    probe.request(1000)
    probe.wait_for_end()
    assert sorted(probe.items) == sorted(of_rxpy(inners))
    assert_order_within_inners(probe.items)
    probe.check()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_outer_streams_of_every_kind(source: Source) -> None:
    inners = labelled([2] * 300)
    probe = Probe()
    source.of(inners).pipe(flat_map(Flowable.from_iterable, max_concurrency=7)).subscribe(probe)
    probe.request(100)
    probe.wait_for_items(100)
    probe.request(1000)
    probe.wait_for_end()
    assert sorted(probe.items) == sorted(of_rxpy(inners))
    probe.check()


async def later(item: int) -> int:
    await asyncio.sleep(0)
    return item + 1


async def doubled(item: int) -> AsyncIterator[int]:
    yield item
    yield item


def test_async_mappers() -> None:
    numbers = Flowable.from_iterable([1, 2, 3])

    async def collect(flowable: Flowable[int]) -> list[int]:
        return sorted([item async for item in flowable])

    assert asyncio.run(collect(numbers.pipe(flat_map(later)))) == [2, 3, 4]
    assert asyncio.run(collect(numbers.pipe(flat_map(doubled)))) == [1, 1, 2, 2, 3, 3]

    def task(item: int) -> asyncio.Task[int]:
        return asyncio.get_running_loop().create_task(later(item))

    async def with_futures() -> list[int]:
        return await collect(numbers.pipe(flat_map(task)))

    assert asyncio.run(with_futures()) == [2, 3, 4]


def test_futures_of_threads() -> None:
    def submit(item: int) -> concurrent.futures.Future[int]:
        return pool.submit(abs, -item)

    probe = Probe(10)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        Flowable.from_iterable([1, 2]).pipe(flat_map(submit)).subscribe(probe)
        probe.wait_for_end()
    assert sorted(probe.items) == [1, 2]
    probe.check()


def test_inner_stream_in_place_of_a_mapper() -> None:
    """As RxPY has it."""
    probe = Probe(10)
    Flowable.from_iterable([1, 2]).pipe(flat_map(reactivex.of("a", "b"))).subscribe(probe)
    assert sorted(probe.items) == ["a", "a", "b", "b"]


def test_inner_streams_are_offered_the_loop_of_the_subscriber() -> None:
    offered: list[Any] = []

    class Asking(Counted):
        def flowable(self) -> Flowable[Any]:
            inner = super().flowable()

            def publish(subscriber: Any, scheduler: Any) -> Any:
                offered.append(subscriber.event_loop())
                return inner._publish(subscriber, scheduler)

            return Flowable(publish)

    loop = asyncio.new_event_loop()
    try:
        probe = Probe(1)
        probe.offered_loop = loop
        Asking([Asking([1])]).flowable().pipe(flat_map(Asking.flowable)).subscribe(probe)
        assert offered == [loop, loop]
    finally:
        loop.close()


def test_subscribe_time_scheduler_reaches_all_streams() -> None:
    inner = Counted([1])
    outer = Counted([inner])
    scheduler = NewThreadScheduler()
    outer.flowable().pipe(flat_map(Counted.flowable)).subscribe(Probe(1), scheduler=scheduler)
    assert (outer.schedulers, inner.schedulers) == ([scheduler], [scheduler])


# Errors.


def test_error_of_an_inner_stream_comes_at_once_and_drops_what_waits() -> None:
    error = SourceError()
    subject: Subject[int] = Subject()
    waiting, outer = Counted(range(10)), Counted([0, 1, 2])
    streams = [waiting.flowable(), subject, Flowable.never()]
    probe = Probe()
    outer.flowable().pipe(flat_map(streams.__getitem__, max_concurrency=3)).subscribe(probe)
    probe.request(2)
    subject.on_error(error)
    assert (probe.items, probe.errors) == ([0, 1], [error])
    assert not waiting.active
    assert not outer.active
    probe.request(5)
    assert probe.items == [0, 1]
    probe.check()


@given(lengths=sizes, fails_at=st.integers(0, 7))
def test_items_before_an_error_as_rxpy(lengths: list[int], fails_at: int) -> None:
    """With demand for all, nothing waits, so nothing is dropped."""
    error = SourceError()
    inners = labelled(lengths)

    def of(number: int) -> Iterator[Any]:
        yield from inners[number]
        if number == fails_at:
            raise error

    probe = Probe(UNBOUNDED)
    Flowable.from_iterable(range(len(inners))).pipe(flat_map(of)).subscribe(probe)
    assert probe.items == [item for items in inners[: fails_at + 1] for item in items]
    assert probe.errors == [error] * (fails_at < len(inners))


def test_error_of_the_source_comes_at_once() -> None:
    error = SourceError()
    subject: Subject[int] = Subject()
    inner = Counted(range(10))
    probe = Probe(1)
    subject.pipe(flat_map(lambda _: inner.flowable())).subscribe(probe)
    subject.on_next(1)
    subject.on_error(error)
    assert (probe.items, probe.errors) == ([0], [error])
    assert not inner.active


def test_mapper_that_raises() -> None:
    error = SourceError()
    inner = Counted([1], endless=True)
    outer = Counted([inner, "bad", inner])

    def mapper(item: Any) -> Flowable[Any]:
        if item == "bad":
            raise error
        return inner.flowable()

    probe = Probe(5)
    outer.flowable().pipe(flat_map(mapper)).subscribe(probe)
    assert (probe.items, probe.errors) == ([1], [error])
    assert (inner.subscribed, inner.active, outer.active) == (1, False, False)


def test_mapper_that_gives_no_stream() -> None:
    probe = Probe(5)
    Flowable.from_iterable([1]).pipe(flat_map(lambda _: 5)).subscribe(probe)  # type: ignore[arg-type, return-value]
    assert isinstance(probe.errors[0], InvalidArgumentError)


def test_exit_in_the_mapper_goes_on_up_and_cancels() -> None:
    outer = Counted([1, 2])

    def mapper(_: int) -> Flowable[int]:
        raise KeyboardInterrupt

    probe = Probe()
    outer.flowable().pipe(flat_map(mapper)).subscribe(probe)
    with pytest.raises(KeyboardInterrupt):
        probe.request(1)
    assert not outer.active
    assert not probe.ended


def test_exit_in_the_mapper_cancels_also_where_the_source_was_not_asked() -> None:
    subject: Subject[int] = Subject()
    inner = Counted([1], endless=True)

    def mapper(number: int) -> Flowable[Any]:
        if number == 2:
            raise KeyboardInterrupt
        return inner.flowable()

    probe = Probe(5)
    subject.pipe(flat_map(mapper)).subscribe(probe)
    subject.on_next(1)
    assert inner.active
    with pytest.raises(KeyboardInterrupt):
        subject.on_next(2)
    assert not inner.active
    assert not subject.observers
    assert not probe.ended


def test_source_whose_subscribe_raises() -> None:
    error = SourceError()

    def publish(_: Any, __: Any) -> Any:
        raise error

    probe = Probe(5)
    Flowable.from_iterable([1]).pipe(flat_map(lambda _: Flowable(publish))).subscribe(probe)
    assert probe.errors == [error]


@pytest.mark.parametrize("argument", ["max_concurrency", "prefetch"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, None])
def test_counts_that_are_none(argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=argument):
        flat_map(Flowable.from_iterable, **{argument: value})


def test_mapper_that_is_none() -> None:
    with pytest.raises(InvalidArgumentError, match="mapper"):
        flat_map(5)  # type: ignore[call-overload]


def test_invalid_request_asks_nothing_and_cancels() -> None:
    outer = Counted([1])
    probe = Probe()
    outer.flowable().pipe(flat_map(Flowable.from_iterable)).subscribe(probe)
    probe.subscription.request(0)
    assert (outer.requests, outer.active, len(probe.errors)) == ([], False, 1)


# Cancel.


@given(lengths=sizes, cancel_at=st.integers(1, 20), prefetch=st.integers(1, 6))
def test_cancel_from_inside_on_next_stops_all(lengths: list[int], cancel_at: int, prefetch: int) -> None:
    inners = [Counted(items) for items in labelled(lengths)]
    outer = Counted(inners)
    probe = Probe(UNBOUNDED, on_item=lambda _: probe.cancel() if len(probe.items) == cancel_at else None)
    outer.flowable().pipe(flat_map(Counted.flowable, prefetch=prefetch)).subscribe(probe)
    assert len(probe.items) == min(cancel_at, sum(lengths))
    assert not any(source.active for source in [outer, *inners])
    probe.check()


def test_inner_stream_that_is_subscribed_to_while_the_cancel_comes() -> None:
    class Cancelling(Counted):
        def flowable(self) -> Flowable[Any]:
            inner = super().flowable()

            def publish(subscriber: Any, scheduler: Any) -> Any:
                probe.cancel()
                return inner._publish(subscriber, scheduler)

            return Flowable(publish)

    first, second = Cancelling([1]), Counted([2])
    probe = Probe()
    outer = Counted([first, second])
    outer.flowable().pipe(flat_map(flowable_of)).subscribe(probe)
    probe.request(5)
    assert (first.subscribed, first.requests, first.active) == (1, [], False)
    assert (second.subscribed, outer.active, probe.items) == (0, False, [])


def test_mapper_is_not_called_any_more_after_a_cancel() -> None:
    """Also for what came together with the item before."""
    called: list[int] = []

    def mapper(number: int) -> Flowable[Any]:
        called.append(number)
        if number == 2:
            probe.cancel()
        return Flowable.empty()

    probe = Probe()
    source = Published()
    source.flowable().pipe(flat_map(mapper)).subscribe(probe)
    probe.request(1)
    source.subscriber.on_next_batch([1, 2, 3])
    assert called == [1, 2]


def test_cancel_inside_on_subscribe_subscribes_to_nothing() -> None:
    class Cancelling(Probe):
        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    outer = Counted([1])
    outer.flowable().pipe(flat_map(Flowable.from_iterable)).subscribe(Cancelling())
    assert outer.subscribed == 0


def test_items_and_sources_are_let_go_after_the_end() -> None:
    waiting = Counted([object()] * 5)
    probe = Probe(1)
    outer = Counted([waiting], endless=True)
    outer.flowable().pipe(flat_map(Counted.flowable)).subscribe(probe)
    flattening: Any = probe.subscription
    assert flattening._upstreams
    assert flattening._ready
    probe.cancel()
    assert not flattening._upstreams
    assert not flattening._ready
    assert not flattening._due


def test_rxpy_observer_that_takes_some() -> None:
    outer = Counted([Counted(range(5)), Counted(range(5))])
    got: list[int] = []
    outer.flowable().pipe(flat_map(Counted.flowable), ops.take(3)).subscribe(got.append)
    assert got == [0, 1, 2]
    assert not outer.active


# Where the thread that emits is the one that is held up.


@pytest.mark.parametrize("length", [1, 600])
def test_plain_observables_on_one_thread(length: int) -> None:
    """An inner stream that waited for the end of the outer one, which waits for room, would hang."""
    got: list[int] = []
    operator = flat_map(lambda _: reactivex.range(length), max_concurrency=2)
    reactivex.range(600 // length * 2).pipe(operator).subscribe(got.append)
    assert got == list(range(length)) * (600 // length * 2)
    assert reactivex.range(600 // length * 2).pipe(operator).run() == length - 1


def test_plain_observable_inside_an_inner_stream() -> None:
    """It is held up by the demand of the inner stream, which has to come while it is."""
    operator = flat_map(lambda _: reactivex.range(1000))
    probe = Probe(UNBOUNDED)
    one = Flowable.from_iterable([1])
    one.pipe(flat_map(lambda _: one.pipe(operator))).subscribe(probe)
    assert probe.items == list(range(1000))


def test_plain_observable_that_cannot_be_held_up_says_so() -> None:
    probe = Probe()

    async def subscribe() -> None:
        Flowable.from_iterable([1]).pipe(flat_map(lambda _: reactivex.range(1000))).subscribe(probe)
        probe.request(1)

    asyncio.run(subscribe())
    probe.request(1000)
    assert probe.items == list(range(len(probe.items)))
    assert isinstance(probe.errors[0], MissingBackpressureError)


def test_timers_of_inner_streams_run_on_their_own() -> None:
    """An own trampoline for inner streams must not become a scheduler that sleeps."""
    threads: list[int] = []
    ended = threading.Event()
    source = reactivex.of(1, 2).pipe(flat_map(lambda _: reactivex.timer(0.01)))
    source.subscribe(lambda _: threads.append(threading.get_ident()), on_completed=ended.set)
    assert ended.wait(PATIENCE_S)
    assert threading.get_ident() not in threads


def depth() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


@pytest.mark.parametrize("way", ["all at once", "one by one inside on_next"])
@every_kind
def test_stack_depth_is_constant(kind: str, way: str) -> None:
    def deepest(count: int) -> int:
        depths: list[int] = []

        def look(_: Any) -> None:
            depths.append(depth())
            if way != "all at once":
                probe.request(1)

        probe = Probe(UNBOUNDED if way == "all at once" else 1, on_item=look)
        outer = Flowable.from_iterable(range(count))
        outer.pipe(flat_map(lambda item: KINDS[kind]([item] * 3), max_concurrency=20, prefetch=2)).subscribe(probe)
        assert (len(probe.items), probe.completions) == (3 * count, 1)
        return max(depths)

    assert deepest(1000) == deepest(100)


def test_requests_do_not_nest_from_inner_stream_to_inner_stream() -> None:
    """Each of many that have items waiting is due at the same time, and emits where it is asked."""
    inners = [Counted(range(100)) for _ in range(200)]
    depths: list[int] = []
    probe = Probe(on_item=lambda _: depths.append(depth()))
    Flowable.from_iterable(inners).pipe(flat_map(Counted.flowable, prefetch=4)).subscribe(probe)
    probe.request(1)
    probe.request(500)
    probe.request(UNBOUNDED)
    assert len(probe.items) == 200 * 100
    assert max(depths) < min(depths) + 150


# Threads that meet.


@pytest.mark.seeds(60, soak=5000)
def test_inner_streams_on_threads_that_meet_demand(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        inners = labelled([platform.random.randrange(4) for _ in range(4)])
        total = sum(map(len, inners))
        subscriber = Controlled(platform)

        def inner(items: list[Any]) -> Flowable[Any]:
            return from_iterable(lambda: iter(items), blocking=platform.random.random() < 0.8)

        operator = flat_map(
            inner,
            max_concurrency=platform.random.choice([1, 2, 256]),
            prefetch=platform.random.choice([1, 2, 32]),
        )
        outer = from_iterable(lambda: iter(inners), blocking=platform.random.random() < 0.5)
        outer.pipe(operator).subscribe(subscriber)
        ask = each(subscriber.subscription.request, [1] * total)
        subscriber.requested = 2 * total + 1
        join(platform, ask, ask, lambda: subscriber.subscription.request(1))
        subscriber.ended.wait()
        assert sorted(subscriber.items) == sorted(item for items in inners for item in items)
        assert_order_within_inners(subscriber.items)
        assert subscriber.ends == ["completed"]

    run(scenario, seed)


@pytest.mark.seeds(60, soak=5000)
def test_inner_streams_on_threads_never_more_than_the_demand(seed: int) -> None:
    """With a demand that is not enough, exactly so many come."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        came = platform.event()
        demand = platform.random.randrange(1, 9)
        inner = from_iterable(lambda: iter(range(5)), blocking=True)
        from_iterable(range(3), blocking=True).pipe(flat_map(lambda _: inner, prefetch=2)).subscribe(subscriber)
        take = subscriber.on_next

        def on_next(value: Any) -> None:
            take(value)
            if len(subscriber.items) == demand:
                came.set()

        subscriber.subscription._on_next = on_next
        join(platform, each(subscriber.request, [1] * demand))
        came.wait()
        for _ in range(20):
            platform.pause()
        assert len(subscriber.items) == demand
        subscriber.subscription.cancel()

    run(scenario, seed)


class Opened:
    """Sources on controlled threads, each of which must be closed if it was opened."""

    def __init__(self, platform: ControlledPlatform) -> None:
        self._platform = platform
        self.closings: list[Any] = []

    def iterable(self, items: list[Any], error: Exception | None = None) -> Flowable[Any]:
        def iterate() -> Iterator[Any]:
            closed = self._platform.event()
            self.closings.append(closed)
            try:
                for item in items:
                    self._platform.point("in a source")
                    yield item
                if error is not None:
                    raise error
            finally:
                closed.set()

        return from_iterable(iterate, blocking=True)

    def async_iterable(self, items: list[Any]) -> Flowable[Any]:
        async def iterate() -> AsyncIterator[Any]:
            closed = self._platform.event()
            self.closings.append(closed)
            try:
                for item in items:
                    await asyncio.sleep(0)
                    yield item
            finally:
                closed.set()

        return from_async_iterable(iterate)

    def wait(self, subscriber: Controlled) -> None:
        """Wait until all is let go and closed; what never is would be a deadlock of the run, or go on for ever."""
        while subscriber.subscription._upstreams:
            self._platform.pause()
        for closed in self.closings:
            closed.wait()


@pytest.mark.seeds(60, soak=5000)
def test_cancel_meets_items_ends_and_subscriptions(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        subscriber = Controlled(platform)
        error = SourceError() if platform.random.random() < 0.3 else None

        def inner(items: list[Any]) -> Flowable[Any]:
            if platform.random.random() < 0.3:
                return opened.async_iterable(items)
            return opened.iterable(items, error if platform.random.random() < 0.3 else None)

        outer = opened.iterable([[1, 2], [], [3], [4, 5, 6]])
        outer.pipe(flat_map(inner, max_concurrency=platform.random.choice([1, 2, 9]), prefetch=2)).subscribe(subscriber)
        join(platform, each(subscriber.request, [1] * 4), subscriber.subscription.cancel)
        opened.wait(subscriber)
        for _ in range(50):
            platform.pause()
        opened.wait(subscriber)
        assert len(subscriber.ends) <= 1

    run(scenario, seed)


@pytest.mark.seeds(60, soak=5000)
def test_errors_that_meet(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        subscriber = Controlled(platform)
        errors = [SourceError(number) for number in range(2)]
        streams = [opened.iterable([1, 2], errors[0]), opened.iterable([3], errors[1]), opened.iterable([4, 5, 6])]
        opened.iterable(streams).pipe(flat_map(itself, prefetch=2)).subscribe(subscriber)
        join(platform, each(subscriber.request, [1] * 4))
        subscriber.request(10)
        subscriber.ended.wait()
        opened.wait(subscriber)
        assert subscriber.ends in ([errors[0]], [errors[1]])

    run(scenario, seed)


@settings(max_examples=20)
@given(lengths=sizes, asked=demands, cancels=st.booleans())
def test_inner_streams_on_real_threads(lengths: list[int], asked: list[int], cancels: bool) -> None:
    inners = labelled(lengths)
    probe = Probe()

    def inner(items: list[Any]) -> Flowable[Any]:
        return Flowable.from_iterable(items, blocking=True)

    operator = flat_map(inner, max_concurrency=3, prefetch=2)
    Flowable.from_iterable(inners).pipe(operator).subscribe(probe)
    for n in asked:
        probe.request(n)
    probe.wait_for_items(min(probe.requested, sum(lengths)))
    if cancels:
        probe.cancel()
    else:
        probe.request(UNBOUNDED)
        probe.wait_for_end()
        assert Counter(probe.items) == Counter(item for items in inners for item in items)
    assert_order_within_inners(probe.items)
    probe.check()
