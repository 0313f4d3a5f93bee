import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from rxwow.errors import InvalidArgumentError
from rxwow.streams.concat_mapping import concat_map
from rxwow.streams.concatenation import concat
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import from_iterable
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.streams.counted import Counted, Published
from tests.streams.probe import Probe
from tests.streams.sources import Source, SourceError, every_source
from tests.streams.test_flatten import KINDS, Opened, demands, depth, every_kind, labelled, later, sizes, ways
from tests.streams.test_schedules import Controlled, each, join


def of_rxpy(inners: list[list[Any]]) -> list[Any]:
    got: list[Any] = []
    reactivex.from_iterable(inners).pipe(ops.concat_map(reactivex.from_iterable)).subscribe(got.append)
    return got


@every_kind
@given(lengths=sizes, asked=demands, way=ways, prefetch=st.sampled_from([1, 2, 3, 32]))
def test_concat_map_emits_what_rxpys_does_within_the_demand(
    kind: str, lengths: list[int], asked: list[int], way: type[Probe], prefetch: int
) -> None:
    inners = labelled(lengths)
    expected = of_rxpy(inners)
    probe = way()
    Flowable.from_iterable(inners).pipe(concat_map(KINDS[kind], prefetch=prefetch)).subscribe(probe)
    for n in asked:
        probe.request(n)
        assert probe.items == expected[: probe.requested]
    probe.request(UNBOUNDED)
    assert (probe.items, probe.completions, probe.errors) == (expected, 1, [])
    probe.check()


@given(lengths=sizes, asked=demands, way=ways, plain=st.booleans())
def test_concat_emits_what_rxpys_does_within_the_demand(
    lengths: list[int], asked: list[int], way: type[Probe], plain: bool
) -> None:
    streams = labelled([*lengths, 2])
    expected: list[Any] = []
    make: Callable[[Any], reactivex.Observable[Any]] = reactivex.from_iterable
    first, *others = map(make, streams)
    first.pipe(ops.concat(*others)).subscribe(expected.append)
    first, *others = map(make if plain else Flowable.from_iterable, streams)
    probe = way()
    first.pipe(concat(*others)).subscribe(probe)
    for n in asked:
        probe.request(n)
        assert probe.items == expected[: probe.requested]
    probe.request(UNBOUNDED)
    assert (probe.items, probe.completions, probe.errors) == (expected, 1, [])
    probe.check()


@given(lengths=sizes, asked=demands)
def test_inner_streams_are_asked_for_what_the_subscriber_has_asked_for(lengths: list[int], asked: list[int]) -> None:
    inners = [Counted(items) for items in labelled(lengths)]
    probe = Probe()
    Flowable.from_iterable(inners).pipe(concat_map(Counted.flowable)).subscribe(probe)
    for n in asked:
        probe.request(n)
        owed = probe.requested
        for inner in inners:
            # What was asked for and those before have not given, and no item has waited anywhere.
            assert inner.requested == owed or not inner.active
            owed -= inner.given
        assert sum(inner.given for inner in inners) == len(probe.items)
        assert sum(inner.active for inner in inners) <= 1


@pytest.mark.parametrize("prefetch", [1, 4, 8])
def test_source_is_asked_for_so_many_ahead(prefetch: int) -> None:
    inners = [Counted([number], endless=number == 5) for number in range(40)]
    outer = Counted(inners)
    probe = Probe()
    outer.flowable().pipe(concat_map(Counted.flowable, prefetch=prefetch)).subscribe(probe)
    assert outer.requests == []
    begun = 0
    for _ in range(8):
        probe.request(1)
        begun = sum(inner.subscribed for inner in inners)
        assert begun + prefetch - max(1, prefetch * 3 // 4) < outer.requested <= begun + prefetch
    assert (probe.items, begun) == (list(range(6)), 6)
    assert outer.requests[:2] == [prefetch, max(1, prefetch * 3 // 4)]
    probe.cancel()
    assert not outer.active
    assert not inners[5].active


def test_mapper_is_called_when_it_is_the_turn() -> None:
    called: list[int] = []

    def mapper(number: int) -> list[int]:
        called.append(number)
        return [number, number]

    probe = Probe()
    Flowable.from_iterable(range(5)).pipe(concat_map(mapper, prefetch=3)).subscribe(probe)
    assert called == []
    probe.request(1)
    assert called == [0]
    probe.request(2)
    assert (called, probe.items) == ([0, 1], [0, 0, 1])


@every_source
@pytest.mark.parametrize("where", ["inner", "outer"])
def test_streams_of_every_kind(source: Source, where: str) -> None:
    inners = labelled([0, 1, 3, 40, 0, 100])
    probe = Probe()
    if where == "inner":
        Flowable.from_iterable(inners).pipe(concat_map(source.of)).subscribe(probe)
    else:
        source.of(inners).pipe(concat_map(Flowable.from_iterable, prefetch=2)).subscribe(probe)
    for n in (1, 2, 30, 50):
        probe.request(n)
        probe.wait_for_items(probe.requested)
        assert len(probe.items) == probe.requested
    probe.request(1000)
    probe.wait_for_end()
    assert probe.items == of_rxpy(inners)
    probe.check()


def test_coroutines_one_after_the_other() -> None:
    running: list[int] = []

    async def alone(number: int) -> int:
        assert not running
        running.append(number)
        await later(number)
        running.remove(number)
        return number

    probe = Probe()
    Flowable.from_iterable(range(5)).pipe(concat_map(alone)).subscribe(probe)
    probe.request(3)
    probe.wait_for_items(3)
    probe.request(9)
    probe.wait_for_end()
    assert (probe.items, probe.errors) == (list(range(5)), [])


def test_first_stream_is_subscribed_to_at_once_and_asked_later() -> None:
    """A hot stream is heard from the start."""
    sources = [Counted([1, 2]), Counted([3])]
    scheduler = NewThreadScheduler()
    probe = Probe()
    sources[0].flowable().pipe(concat(sources[1].flowable())).subscribe(probe, scheduler=scheduler)
    assert [source.schedulers for source in sources] == [[scheduler], []]
    assert [source.requests for source in sources] == [[], []]
    probe.request(1)
    assert [source.requests for source in sources] == [[1], []]
    probe.request(2)
    assert [source.requests for source in sources] == [[1, 2], [1]]
    assert sources[1].schedulers == [scheduler]
    assert probe.items == [1, 2, 3]


# Errors.


@given(lengths=sizes, fails_at=st.integers(0, 7), asked=demands)
def test_items_before_an_error_as_rxpy(lengths: list[int], fails_at: int, asked: list[int]) -> None:
    error = SourceError()
    inners = labelled(lengths)

    def of(number: int) -> Iterator[Any]:
        yield from inners[number]
        if number == fails_at:
            raise error

    def with_operator(flowing: bool) -> Probe:
        probe = Probe()
        make: Callable[[Any], Any] = Flowable.from_iterable if flowing else reactivex.from_iterable
        operator: Any = concat_map if flowing else ops.concat_map
        numbers = make(range(len(inners)))
        stream = numbers.pipe(operator(lambda number: make(of(number))))
        if not flowing:
            stream.subscribe(probe.items.append, probe.errors.append)
        else:
            stream.subscribe(probe)
            for n in [*asked, UNBOUNDED]:
                probe.request(n)
        return probe

    ours, theirs = with_operator(True), with_operator(False)
    assert (ours.items, ours.errors) == (theirs.items, theirs.errors)
    ours.check()


def test_error_of_the_source_comes_at_once() -> None:
    error = SourceError()
    subject: Subject[int] = Subject()
    inner = Counted(range(10))
    probe = Probe(1)
    subject.pipe(concat_map(lambda _: inner.flowable())).subscribe(probe)
    subject.on_next(1)
    subject.on_error(error)
    assert (probe.items, probe.errors, inner.active) == ([0], [error], False)


def test_mapper_that_raises() -> None:
    error = SourceError()

    def mapper(item: int) -> Flowable[int]:
        if item == 2:
            raise error
        return Flowable.from_iterable([item])

    outer = Counted([1, 2, 3])
    probe = Probe(5)
    outer.flowable().pipe(concat_map(mapper)).subscribe(probe)
    assert (probe.items, probe.errors, outer.active) == ([1], [error], False)


def test_exit_in_the_mapper_goes_on_up_and_cancels() -> None:
    outer = Counted([1, 2])

    def mapper(_: int) -> Flowable[int]:
        raise KeyboardInterrupt

    probe = Probe()
    outer.flowable().pipe(concat_map(mapper)).subscribe(probe)
    with pytest.raises(KeyboardInterrupt):
        probe.request(1)
    assert not outer.active
    assert not probe.ended


def test_error_comes_after_items_that_another_thread_is_to_hand_on() -> None:
    """They were asked for, so it doesn't have to wait for anything, and nothing is lost."""
    error = SourceError()
    source = Published()

    def meanwhile(item: int) -> None:
        # As by the source's thread, while another one has taken over the item before and hands it on.
        if item == 1:
            source.subscriber.on_next_batch([2, 3])
            source.subscriber.on_error(error)

    probe = Probe(3, on_item=meanwhile)
    source.flowable().pipe(concat(Flowable.from_iterable([4]))).subscribe(probe)
    source.subscriber.on_next_batch([1])
    assert (probe.items, probe.errors) == ([1, 2, 3], [error])
    probe.check()


def test_mapper_is_not_called_any_more_after_an_error() -> None:
    """Also if the error has to wait for another thread, which is handing on what came before."""
    error = SourceError()
    outer, inner = Published(), Published()
    called: list[int] = []

    def mapper(number: int) -> Flowable[Any]:
        called.append(number)
        return inner.flowable()

    def meanwhile(_: Any) -> None:
        outer.subscriber.on_error(error)
        inner.subscriber.on_completed()

    probe = Probe(3, on_item=meanwhile)
    outer.flowable().pipe(concat_map(mapper)).subscribe(probe)
    outer.subscriber.on_next_batch([1, 2])
    inner.subscriber.on_next_batch(["item"])
    assert (called, probe.items, probe.errors) == ([1], ["item"], [error])
    probe.check()


def test_arguments_that_cannot_work() -> None:
    with pytest.raises(InvalidArgumentError, match="sources"):
        concat([1])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="prefetch"):
        concat_map(Flowable.from_iterable, prefetch=0)
    with pytest.raises(InvalidArgumentError, match="mapper"):
        concat_map(5)  # type: ignore[call-overload]
    probe = Probe(1)
    Flowable.from_iterable([1]).pipe(concat_map(lambda _: 5)).subscribe(probe)  # type: ignore[arg-type, return-value]
    assert isinstance(probe.errors[0], InvalidArgumentError)


# Cancel.


@given(lengths=sizes, cancel_at=st.integers(1, 20))
def test_cancel_from_inside_on_next_stops_all(lengths: list[int], cancel_at: int) -> None:
    inners = [Counted(items) for items in labelled(lengths)]
    outer = Counted(inners)
    probe = Probe(UNBOUNDED, on_item=lambda _: probe.cancel() if len(probe.items) == cancel_at else None)
    outer.flowable().pipe(concat_map(Counted.flowable)).subscribe(probe)
    assert probe.items == of_rxpy(labelled(lengths))[:cancel_at]
    assert not any(source.active for source in [outer, *inners])
    probe.check()


def test_cancel_between_two_inner_streams() -> None:
    """The next is not subscribed to, and the mapper is not called."""
    subject: Subject[int] = Subject()
    outer = Counted([1, 2])
    called: list[int] = []

    def mapper(item: int) -> Subject[int]:
        called.append(item)
        return subject

    probe = Probe(5)
    outer.flowable().pipe(concat_map(mapper)).subscribe(probe)
    probe.cancel()
    subject.on_completed()
    assert (called, outer.active) == ([1], False)
    assert not probe.ended


# Where the thread that emits is the one that is held up.


def test_plain_observables_on_one_thread() -> None:
    got: list[int] = []
    source = reactivex.range(600).pipe(concat_map(lambda item: reactivex.of(item, item)))
    source.subscribe(got.append)
    assert got == [item for item in range(600) for _ in range(2)]
    assert source.run() == 599


def test_plain_observable_inside_an_inner_stream() -> None:
    one = Flowable.from_iterable([1])
    probe = Probe(1, on_item=lambda _: probe.request(1))
    one.pipe(concat_map(lambda _: one.pipe(concat_map(lambda _: reactivex.range(1000))))).subscribe(probe)
    assert probe.items == list(range(1000))


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
        outer.pipe(concat_map(lambda item: KINDS[kind]([item] * 3))).subscribe(probe)
        assert (len(probe.items), probe.completions) == (3 * count, 1)
        return max(depths)

    assert deepest(1000) == deepest(100)


@pytest.mark.parametrize("prefetch", [1, 5000])
def test_empty_inner_streams_do_not_nest(prefetch: int) -> None:
    count = 3 * sys.getrecursionlimit()
    probe = Probe(1)
    Flowable.from_iterable(range(count)).pipe(concat_map(lambda _: Flowable.empty(), prefetch=prefetch)).subscribe(
        probe
    )
    assert (probe.completions, probe.errors) == (1, [])


# Threads that meet.


@pytest.mark.seeds(80, soak=5000)
def test_inner_streams_on_threads_meet_demand_and_cancel(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        inners = labelled([platform.random.randrange(3) for _ in range(4)])
        expected = [item for items in inners for item in items]
        cancels = platform.random.random() < 0.4
        subscriber = Controlled(platform)

        def inner(items: list[Any]) -> Flowable[Any]:
            kinds: list[Callable[[list[Any]], Flowable[Any]]] = [opened.iterable, opened.async_iterable, from_iterable]
            return platform.random.choice(kinds)(items)

        outer = opened.iterable(inners) if platform.random.random() < 0.7 else from_iterable(inners)
        outer.pipe(concat_map(inner, prefetch=platform.random.choice([1, 2, 9]))).subscribe(subscriber)
        actions: list[Any] = [
            each(subscriber.subscription.request, [1] * len(expected)),
            lambda: subscriber.subscription.request(1),
        ]
        subscriber.requested = len(expected) + 1
        if cancels:
            actions.append(subscriber.subscription.cancel)
        join(platform, *actions)
        if not cancels:
            subscriber.ended.wait()
            assert subscriber.ends == ["completed"]
            assert subscriber.items == expected
        assert subscriber.items == expected[: len(subscriber.items)]
        opened.wait(subscriber)

    run(scenario, seed)


@pytest.mark.seeds(60, soak=5000)
def test_error_after_the_items_that_were_asked_for(seed: int) -> None:
    """An item of one thread that another hands on is not lost to the error that follows it."""

    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        error = SourceError()
        subscriber = Controlled(platform)
        streams = [opened.iterable([1, 2]), opened.iterable([3], error)]
        streams[0].pipe(concat(streams[1])).subscribe(subscriber)
        join(platform, each(subscriber.request, [1, 1]), each(subscriber.request, [1, 1]))
        subscriber.ended.wait()
        opened.wait(subscriber)
        assert (subscriber.items, subscriber.ends) == ([1, 2, 3], [error])

    run(scenario, seed)
