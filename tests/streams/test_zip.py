from collections.abc import AsyncIterator
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
from rxwow.streams.protocols import UNBOUNDED
from rxwow.streams.zipping import zip as zip_
from rxwow.testing import ControlledPlatform, run
from tests.streams.counted import Counted
from tests.streams.probe import Probe
from tests.streams.sources import Source, SourceError, every_source
from tests.streams.test_flatten import Opened, demands, depth, ways
from tests.streams.test_schedules import Controlled, each, join

lengths_of_some = st.lists(st.integers(0, 12), min_size=1, max_size=4)
KINDS: dict[str, Any] = {
    "Flowable": Flowable.from_iterable,
    "Flowable of unknown length": lambda items: Flowable.from_iterable(lambda: iter(items)),
    "Observable": reactivex.from_iterable,
}


def of_rxpy(streams: list[Any]) -> list[Any]:
    got: list[Any] = []
    first, *others = map(reactivex.from_iterable, streams)
    first.pipe(ops.zip(*others)).subscribe(got.append, lambda _: got.append("error"), lambda: got.append("completed"))
    return got


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=lengths_of_some, asked=demands, way=ways, prefetch=st.sampled_from([1, 2, 3, 32]))
def test_emits_what_rxpys_does_within_the_demand(
    kind: str, lengths: list[int], asked: list[int], way: type[Probe], prefetch: int
) -> None:
    streams = [range(100 * number, 100 * number + length) for number, length in enumerate(lengths)]
    *expected, end = of_rxpy(streams)
    assert end == "completed"
    first, *others = map(KINDS[kind], streams)
    probe = way()
    first.pipe(zip_(*others, prefetch=prefetch)).subscribe(probe)
    for n in asked:
        probe.request(n)
        assert probe.items == expected[: probe.requested]
    probe.request(UNBOUNDED)
    assert (probe.items, probe.completions, probe.errors) == (expected, 1, [])
    probe.check()


@given(lengths=lengths_of_some, prefetch=st.integers(1, 5), asked=st.integers(0, 12))
def test_bound_of_what_is_asked_for(lengths: list[int], prefetch: int, asked: int) -> None:
    sources = [Counted(range(length)) for length in lengths]

    def look(_: Any = None) -> None:
        for source in sources:
            assert source.requested - len(probe.items) <= prefetch

    probe = Probe(on_item=look)
    first, *others = [source.flowable() for source in sources]
    first.pipe(zip_(*others, prefetch=prefetch)).subscribe(probe)
    assert all(source.requests == [] for source in sources)
    for _ in range(asked):
        probe.request(1)
        look()
    assert (
        all(source.requested >= min(len(probe.items) + 1, prefetch) for source in sources) or asked == 0 or probe.ended
    )
    probe.cancel()
    assert not any(source.active for source in sources)
    probe.check()


def test_streams_are_asked_again_after_three_quarters() -> None:
    sources = [Counted(range(100)), Counted(range(100))]
    probe = Probe()
    sources[0].flowable().pipe(zip_(sources[1].flowable(), prefetch=8)).subscribe(probe)
    for _ in range(5):
        probe.request(1)
    assert [source.requests for source in sources] == [[8], [8]]
    for _ in range(95):
        probe.request(1)
    assert [source.requests[:3] for source in sources] == [[8, 6, 6], [8, 6, 6]]
    assert probe.items == [(number, number) for number in range(100)]


@pytest.mark.parametrize("shorter", [0, 1])
def test_completes_and_cancels_as_soon_as_one_has_nothing_left(shorter: int) -> None:
    endless = Counted(range(1000))
    short: Subject[int] = Subject()
    streams: list[Any] = [endless.flowable(), endless.flowable()]
    streams[shorter] = short
    probe = Probe(10)
    streams[0].pipe(zip_(streams[1])).subscribe(probe)
    short.on_next(7)
    assert (len(probe.items), endless.active) == (1, True)
    short.on_completed()
    assert (len(probe.items), probe.completions, endless.active) == (1, 1, False)


def test_completes_with_the_last_tuple_of_one_that_has_completed() -> None:
    endless = Counted(range(1000))
    probe = Probe()
    endless.flowable().pipe(zip_(Flowable.from_iterable([1, 2]))).subscribe(probe)
    probe.request(1)
    assert (probe.items, probe.completions) == ([(0, 1)], 0)
    probe.request(1)
    assert (probe.items, probe.completions, endless.active) == ([(0, 1), (1, 2)], 1, False)


def test_empty_stream_completes_before_the_others_are_subscribed_to() -> None:
    other = Counted([1])
    probe = Probe()
    Flowable.empty().pipe(zip_(other.flowable())).subscribe(probe)
    assert (probe.completions, other.subscribed) == (1, 0)


@every_source
def test_streams_of_every_kind(source: Source) -> None:
    probe = Probe()
    source.of(range(100)).pipe(zip_(source.of(range(150)), source.of(range(200)), prefetch=4)).subscribe(probe)
    for n in (1, 2, 30, 50):
        probe.request(n)
        probe.wait_for_items(probe.requested)
        assert len(probe.items) == probe.requested
    probe.request(1000)
    probe.wait_for_end()
    assert probe.items == [(number,) * 3 for number in range(100)]
    assert probe.completions == 1
    probe.check()


def test_iterables() -> None:
    """As RxPY's zip_with_iterable."""
    expected: list[Any] = []
    reactivex.of(1, 2, 3).pipe(ops.zip_with_iterable("ab")).subscribe(expected.append)
    zipped = Flowable.from_iterable([1, 2, 3]).pipe(zip_("ab"))
    for _ in range(2):
        probe = Probe(5)
        zipped.subscribe(probe)
        assert (probe.items, probe.completions) == (expected, 1)


def test_async_iterables() -> None:
    async def letters() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    probe = Probe(5)
    Flowable.from_iterable([1, 2, 3]).pipe(zip_(letters())).subscribe(probe)
    probe.wait_for_end()
    assert probe.items == [(1, "a"), (2, "b")]


def test_subscribe_time_scheduler_reaches_all_streams() -> None:
    sources = [Counted([1]), Counted([2])]
    scheduler = NewThreadScheduler()
    sources[0].flowable().pipe(zip_(sources[1].flowable())).subscribe(Probe(1), scheduler=scheduler)
    assert [source.schedulers for source in sources] == [[scheduler], [scheduler]]


@pytest.mark.parametrize("fails", [0, 1])
def test_error_of_one_comes_at_once_and_cancels_the_others(fails: int) -> None:
    error = SourceError()
    good = Counted(range(9))
    subject: Subject[int] = Subject()
    streams: list[Any] = [good.flowable(), good.flowable()]
    streams[fails] = subject
    probe = Probe(1)
    streams[0].pipe(zip_(streams[1])).subscribe(probe)
    subject.on_next(0)
    subject.on_next(1)
    subject.on_error(error)
    assert (probe.items, probe.errors, good.active) == ([(0, 0)], [error], False)
    probe.check()


@given(cancel_at=st.integers(1, 50))
def test_cancel_from_inside_on_next_stops_all(cancel_at: int) -> None:
    sources = [Counted(range(40)), Counted(range(60))]
    probe = Probe(UNBOUNDED, on_item=lambda _: probe.cancel() if len(probe.items) == cancel_at else None)
    sources[0].flowable().pipe(zip_(sources[1].flowable())).subscribe(probe)
    assert len(probe.items) == min(cancel_at, 40)
    assert not any(source.active for source in sources)
    assert not getattr(probe.subscription, "_lanes", None)
    probe.check()


def test_arguments_that_cannot_work() -> None:
    with pytest.raises(InvalidArgumentError, match="sources"):
        zip_(5)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="prefetch"):
        zip_("ab", prefetch=0)


# Where the thread that emits is the one that is held up.


@pytest.mark.parametrize("where", ["source", "other", "both"])
def test_plain_observables_on_one_thread(where: str) -> None:
    """One that was held up until the others have items would wait for ever, since they come after it."""
    first: Any = reactivex.range(1000) if where != "other" else Flowable.from_iterable(range(1000))
    second: Any = reactivex.range(2000) if where != "source" else Flowable.from_iterable(range(2000))
    expected = [(number, number) for number in range(1000)]
    got: list[Any] = []
    first.pipe(zip_(second)).subscribe(got.append)
    assert got == expected
    probe = Probe(UNBOUNDED)
    first.pipe(zip_(second)).subscribe(probe)
    assert probe.items == expected
    probe = Probe(10)
    first.pipe(zip_(second)).subscribe(probe)
    probe.request(1000)
    assert probe.items == expected
    probe.check()


def test_plain_observable_on_a_thread_of_its_own_is_held_up() -> None:
    source = reactivex.range(3000, scheduler=NewThreadScheduler())
    probe = Probe(1)
    source.pipe(zip_(Flowable.from_iterable(range(5000)))).subscribe(probe)
    probe.wait_for_items(1)
    zipping: Any = probe.subscription
    assert len(zipping._lanes[0].items) <= 32
    probe.request(5000)
    probe.wait_for_end()
    assert probe.items == [(number, number) for number in range(3000)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["all at once", "one by one inside on_next"])
def test_stack_depth_is_constant(kind: str, way: str) -> None:
    def deepest(count: int) -> int:
        depths: list[int] = []

        def look(_: Any) -> None:
            depths.append(depth())
            if way != "all at once":
                probe.request(1)

        probe = Probe(UNBOUNDED if way == "all at once" else 1, on_item=look)
        first, *others = (KINDS[kind](range(count)) for _ in range(3))
        first.pipe(zip_(*others, prefetch=4)).subscribe(probe)
        assert (len(probe.items), probe.completions) == (count, 1)
        return max(depths)

    assert deepest(2000) == deepest(200)


# Threads that meet.


@pytest.mark.seeds(80, soak=5000)
def test_streams_on_threads_meet_demand_ends_and_cancel(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        lengths = [platform.random.randrange(5) for _ in range(3)]
        expected = [(number,) * 3 for number in range(min(lengths))]
        cancels = platform.random.random() < 0.3
        subscriber = Controlled(platform)
        first, *others = [
            (opened.async_iterable if platform.random.random() < 0.3 else opened.iterable)(list(range(length)))
            for length in lengths
        ]
        first.pipe(zip_(*others, prefetch=platform.random.choice([1, 2, 32]))).subscribe(subscriber)
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


@pytest.mark.seeds(40, soak=5000)
def test_errors_that_meet(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        opened = Opened(platform)
        subscriber = Controlled(platform)
        errors = [SourceError(number) for number in range(2)]
        first, second = (opened.iterable([1, 2], error) for error in errors)
        first.pipe(zip_(second, opened.iterable(list(range(9))))).subscribe(subscriber)
        join(platform, each(subscriber.request, [1] * 4))
        subscriber.ended.wait()
        opened.wait(subscriber)
        assert subscriber.ends in ([errors[0]], [errors[1]])

    run(scenario, seed)
