from collections import Counter
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from rxwow.errors import InvalidArgumentError
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.merging import merge
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.streams.counted import Counted
from tests.streams.probe import Probe
from tests.streams.sources import Source, SourceError, every_source
from tests.streams.test_flatten import Opened, assert_order_within_inners, demands, labelled, ways
from tests.streams.test_schedules import Controlled, each, join

lengths_of_some = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def of_rxpy(streams: list[list[Any]]) -> list[Any]:
    got: list[Any] = []
    first, *others = map(reactivex.from_iterable, streams)
    first.pipe(ops.merge(*others)).subscribe(got.append)
    return got


@given(
    lengths=lengths_of_some,
    asked=demands,
    way=ways,
    max_concurrency=st.sampled_from([None, 1, 2, 5]),
    prefetch=st.sampled_from([1, 2, 5, 32]),
    plain=st.booleans(),
)
def test_same_items_as_rxpy_within_the_demand(
    lengths: list[int], asked: list[int], way: type[Probe], max_concurrency: int | None, prefetch: int, plain: bool
) -> None:
    streams = labelled(lengths)
    expected = of_rxpy(streams)
    first, *others = map(reactivex.from_iterable if plain else Flowable.from_iterable, streams)
    probe = way()
    first.pipe(merge(*others, Flowable.empty(), max_concurrency=max_concurrency, prefetch=prefetch)).subscribe(probe)
    for n in asked:
        probe.request(n)
        assert len(probe.items) == min(probe.requested, len(expected))
        assert_order_within_inners(probe.items)
    probe.request(UNBOUNDED)
    assert Counter(probe.items) == Counter(expected)
    assert_order_within_inners(probe.items)
    assert (probe.completions, probe.errors) == (1, [])
    probe.check()


@given(lengths=lengths_of_some, asked=demands, max_concurrency=st.sampled_from([None, 1, 2]))
def test_stream_of_streams_as_rxpys_merge_all(
    lengths: list[int], asked: list[int], max_concurrency: int | None
) -> None:
    streams = labelled(lengths)
    expected: list[Any] = []
    reactivex.from_iterable(map(reactivex.from_iterable, streams)).pipe(ops.merge_all()).subscribe(expected.append)
    probe = Probe()
    source = Flowable.from_iterable([Flowable.from_iterable(items) for items in streams])
    source.pipe(merge(max_concurrency=max_concurrency)).subscribe(probe)
    for n in [*asked, UNBOUNDED]:
        probe.request(n)
        assert len(probe.items) == min(probe.requested, len(expected))
    assert Counter(probe.items) == Counter(expected)
    assert_order_within_inners(probe.items)
    assert probe.completions == 1
    probe.check()


@every_source
def test_streams_of_every_kind(source: Source) -> None:
    streams = labelled([0, 50, 3])
    first, *others = map(source.of, streams)
    probe = Probe()
    first.pipe(merge(*others, prefetch=4)).subscribe(probe)
    for n in (1, 9, 10):
        probe.request(n)
        probe.wait_for_items(probe.requested)
        assert len(probe.items) == probe.requested
    probe.request(1000)
    probe.wait_for_end()
    assert sorted(probe.items) == sorted(of_rxpy(streams))
    assert_order_within_inners(probe.items)
    probe.check()


def test_streams_are_subscribed_to_together_and_asked_together() -> None:
    """A hot stream is heard from the start."""
    sources = [Counted(range(9)), Counted(range(9))]
    subject: Subject[str] = Subject()
    scheduler = NewThreadScheduler()
    probe = Probe()
    sources[0].flowable().pipe(merge(sources[1].flowable(), subject, prefetch=4)).subscribe(probe, scheduler=scheduler)
    assert [source.schedulers for source in sources] == [[scheduler], [scheduler]]
    assert [source.requests for source in sources] == [[], []]
    subject.on_next("early")
    assert probe.items == []
    probe.request(1)
    assert [source.requests for source in sources] == [[4], [4]]
    probe.request(9)
    assert "early" in probe.items
    probe.cancel()
    assert not any(source.active for source in sources)


def test_only_so_many_are_subscribed_to() -> None:
    sources = [Counted([number]) for number in range(5)]
    first, *others = [source.flowable() for source in sources]
    probe = Probe()
    first.pipe(merge(*others, max_concurrency=2)).subscribe(probe)
    assert [source.subscribed for source in sources] == [1, 1, 0, 0, 0]
    for number in range(5):
        probe.request(1)
        assert sum(source.subscribed for source in sources) == min(5, number + 3)
    # Both of the first two have answered the first request.
    assert (sorted(probe.items), probe.completions) == (list(range(5)), 1)


def test_stream_of_streams_is_asked_without_bound_or_for_so_many() -> None:
    for max_concurrency, asked in ((None, UNBOUNDED), (7, 7)):
        source = Counted([])
        source.flowable().pipe(merge(max_concurrency=max_concurrency)).subscribe(Probe(1))
        assert source.requests == [asked]


@pytest.mark.parametrize("fails", ["source", "other"])
def test_error_of_one_cancels_the_others(fails: str) -> None:
    error = SourceError()
    good = Counted(range(9))
    subject: Subject[int] = Subject()
    first, second = (subject, good.flowable()) if fails == "source" else (good.flowable(), subject)
    probe = Probe(2)
    first.pipe(merge(second)).subscribe(probe)
    subject.on_error(error)
    assert (probe.items, probe.errors, good.active) == ([0, 1], [error], False)
    probe.check()


def test_take_of_an_endless_plain_stream() -> None:
    got: list[int] = []
    endless = reactivex.repeat_value(1)
    endless.pipe(merge(reactivex.of(2)), ops.take(5)).subscribe(got.append)
    assert len(got) == 5


@pytest.mark.parametrize("streams", [5, "abc", [Flowable.empty()]])
def test_streams_that_are_none(streams: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="sources"):
        merge(Flowable.empty(), streams)


@pytest.mark.parametrize("argument", ["max_concurrency", "prefetch"])
@pytest.mark.parametrize("value", [0, True, 1.5])
def test_counts_that_are_none(argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=argument):
        merge(Flowable.empty(), **{argument: value})


def test_operator_serves_many_subscriptions() -> None:
    merged = Flowable.from_iterable([1]).pipe(merge(Flowable.from_iterable([2])))
    for _ in range(2):
        probe = Probe(5)
        merged.subscribe(probe)
        assert (probe.items, probe.completions) == ([1, 2], 1)


@pytest.mark.seeds(60, soak=5000)
def test_streams_on_threads_meet_demand_and_cancel(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        streams = labelled([platform.random.randrange(4) for _ in range(3)])
        total = sum(map(len, streams))
        cancels = platform.random.random() < 0.5
        subscriber = Controlled(platform)
        first, *others = map(opened.iterable, streams)
        first.pipe(merge(*others, prefetch=2, max_concurrency=platform.random.choice([None, 2]))).subscribe(subscriber)
        actions: list[Any] = [each(subscriber.request, [1] * (total + 1))]
        if cancels:
            actions.append(subscriber.subscription.cancel)
        join(platform, *actions)
        if not cancels:
            subscriber.ended.wait()
            assert sorted(subscriber.items) == sorted(item for items in streams for item in items)
        assert_order_within_inners(subscriber.items)
        opened.wait(subscriber)

    run(scenario, seed)


@pytest.mark.seeds(40, soak=5000)
def test_last_items_of_several_threads_and_the_end(seed: int) -> None:
    """The end comes after the last item and is not lost, whoever is last."""

    def scenario(platform: ControlledPlatform) -> None:
        subscriber = Controlled(platform)
        streams = [from_iterable(lambda: iter([1]), blocking=True) for _ in range(3)]
        streams[0].pipe(merge(*streams[1:])).subscribe(subscriber)
        subscriber.request(3)
        subscriber.ended.wait()
        assert (subscriber.items, subscriber.ends) == ([1, 1, 1], ["completed"])

    run(scenario, seed)
