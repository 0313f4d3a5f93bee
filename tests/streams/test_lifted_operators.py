"""Each operator of RxPY, lifted: what it emits, and how much it takes, however it is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators

from rxwow.streams.flowable import Flowable
from rxwow.streams.operator_table import OPERATORS
from rxwow.streams.operator_traits import Takes
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.operator_cases import CASES, PLAIN, TIMED, Case
from tests.streams.operator_world import World
from tests.streams.probe import BatchProbe, Probe
from tests.streams.rxpy import End, by_rxpy, end_of
from tests.streams.sources import SOURCES, Source, SourceError, probe_for

# RxPY's types can't infer those of a lambda.
ops: Any = operators

# There are so many operators.
few = settings(max_examples=settings().max_examples // 4)

every_plain_case = pytest.mark.parametrize("case", PLAIN, ids=repr)
every_timed_case = pytest.mark.parametrize("case", TIMED, ids=repr)
every_case = pytest.mark.parametrize("case", CASES, ids=repr)
both_ways = pytest.mark.parametrize("probe_type", [Probe, BatchProbe], ids=["singly", "in batches"])

lengths = st.integers(0, 12)
errors = st.sampled_from([None, SourceError("of the source")])


def _values(items: Sequence[Any]) -> list[str]:
    """What can be compared: errors, notifications and the lists of windows have no equality."""
    return [str(item) for item in items]


def _end(probe: Probe) -> End | None:
    return end_of(probe.errors[0] if probe.errors else None) if probe.ended else None


# What depends on the items alone.

demands = st.one_of(st.just([UNBOUNDED]), st.just([1] * 60), st.lists(st.integers(1, 5), min_size=1, max_size=6))


@every_plain_case
@given(
    demand=demands,
    batches=st.booleans(),
    source=st.sampled_from(SOURCES[:2]),
    length=lengths,
    error=errors,
)
@few
def test_same_output_as_rxpy(
    case: Case, demand: list[int], batches: bool, source: Source, length: int, error: Exception | None
) -> None:
    world = World()
    items = [case.item(world, number) for number in range(length)]
    with probe_for(source, batches=batches) as probe:
        source.of(items, error).pipe(*case.operators(world)).subscribe(probe)
        for n in [*demand, UNBOUNDED]:
            if probe.ended:
                break
            probe.request(n)
            probe.wait_for_items(probe.requested)
        probe.wait_for_end()
    expected, end = by_rxpy(case.operators(world), items, error)
    assert (_values(probe.items), _end(probe)) == (_values(expected), end)


# What depends on the time too.

Timed = list[tuple[float, Any]]

LATEST_REQUEST = 1502
THE_END = 4000.0

arrivals = st.lists(st.integers(0, 5), max_size=12).map(
    lambda gaps: [5.0 + 10 * sum(gaps[: index + 1]) for index in range(len(gaps))]
)
AT_ONCE: list[tuple[float, int]] = [(0, UNBOUNDED)]
timed_demands = st.one_of(
    st.just(AT_ONCE),
    st.integers(1, 4).map(lambda gap: [(0, 1), *((10 * gap * step + 2, 1) for step in range(60))]),
    st.lists(st.tuples(st.integers(0, 60).map(lambda step: 10 * step + 2), st.integers(1, 4))),
    st.integers(1, 90).map(lambda step: [(10 * step + 2, UNBOUNDED)]),
)
"""When is asked for how many; in the end for everything, at `LATEST_REQUEST`."""


@dataclass
class Run:
    """What came out of an operator, and what it was given, and when, counted from when it subscribed to its source."""

    items: list[str] = field(default_factory=list)
    end: End | None = None
    taken: Timed = field(default_factory=list)
    taken_all_at: float | None = None


def _request(probe: Probe, n: int, *_: Any) -> None:
    probe.request(n)


def _end_of_source(times: Sequence[float]) -> float:
    return times[-1] + 10 if times else 15.0


def _lifted(
    case: Case, times: Sequence[float], error: Exception | None, requests: Sequence[tuple[float, int]], *, batches: bool
) -> Run:
    world = World()
    now = world.scheduler
    run = Run()

    def note_end(_: Any = None) -> None:
        run.taken_all_at = now.clock

    end = _end_of_source(times)
    cold = world.cold(*((time, number) for number, time in enumerate(times)), end=end, error=error)
    noted = ops.do_action(lambda number: run.taken.append((now.clock, number)), note_end, note_end)
    item = ops.map(lambda number: case.item(world, number))
    probe = (BatchProbe if batches else Probe)()
    Flowable.from_observable(cold).pipe(noted, item, *case.operators(world)).subscribe(probe, scheduler=now)
    for time, n in [*requests, (LATEST_REQUEST, UNBOUNDED)]:
        if time == 0:
            probe.request(n)
        else:
            now.schedule_absolute(time, partial(_request, probe, n))
    now.advance_to(THE_END)
    probe.check()
    run.items, run.end = _values(probe.items), _end(probe)
    subscribed: float = cold.subscriptions[0].subscribe
    run.taken = [(time - subscribed, number) for time, number in run.taken]
    if run.taken_all_at is not None:
        run.taken_all_at -= subscribed
    return run


def _by_rxpy(case: Case, taken: Timed, end: float | None, error: Exception | None) -> tuple[list[str], End | None]:
    world = World()
    cold = world.cold(*((time, case.item(world, number)) for time, number in taken), end=end, error=error)
    values: list[Any] = []
    ends: list[End] = []
    cold.pipe(*case.operators(world)).subscribe(
        values.append,
        lambda raised: ends.append(end_of(raised)),
        lambda: ends.append(end_of(None)),
        scheduler=world.scheduler,
    )
    world.scheduler.advance_to(THE_END)
    return _values(values), ends[0] if ends else None


@every_timed_case
@given(demand=timed_demands, batches=st.booleans(), times=arrivals, error=errors)
@few
def test_does_what_rxpy_does_with_the_same_items_at_the_same_times(
    case: Case, demand: list[tuple[float, int]], batches: bool, times: list[float], error: Exception | None
) -> None:
    run = _lifted(case, times, error, demand, batches=batches)
    numbers = [number for _, number in run.taken]
    assert numbers == list(range(len(numbers)))
    if not OPERATORS[case.name].ends_early:
        assert len(numbers) == len(times)
    assert (run.items, run.end) == _by_rxpy(case, run.taken, run.taken_all_at, error)
    # An error isn't held up by RxPY's operators as the items before it are, so there it does matter when they came.
    if demand == AT_ONCE or (case.same and error is None):
        source: Timed = [(time, number) for number, time in enumerate(times)]
        assert (run.items, run.end) == _by_rxpy(case, source, _end_of_source(times), error)


# How much is taken.

LENGTH = 14


class Counted:
    """A source that counts how many of its items were taken."""

    def __init__(self, case: Case, world: World) -> None:
        self.case = case
        self.world = world
        self.taken = 0
        self.open = 0
        self.flowable = Flowable.from_iterable(self._iterate)

    def _iterate(self) -> Iterator[Any]:
        self.open += 1
        try:
            for number in range(LENGTH):
                self.taken += 1
                yield self.case.item(self.world, number)
        finally:
            self.open -= 1


def _needed(case: Case, demand: int) -> int:
    """The least number of items of which RxPY's operator makes `demand`, or with which it ends."""
    for length in range(LENGTH):
        world = World(at_once=True)
        # Not all at one time, but no clock of an operator is as fast as this.
        cold = world.cold(*((0.001 * (number + 1), case.item(world, number)) for number in range(length)))
        values: list[Any] = []
        ends: list[Any] = []
        cold.pipe(*case.operators(world)).subscribe(values.append, ends.append, lambda ends=ends: ends.append(None))
        world.scheduler.advance_to(1)
        if ends:
            return length
        world.scheduler.advance_to(THE_END)
        if len(values) >= demand:
            return length
    return LENGTH


@both_ways
@every_case
def test_takes_nothing_before_the_first_request(case: Case, probe_type: type[Probe]) -> None:
    world = World(at_once=True)
    source = Counted(case, world)
    probe = probe_type()
    source.flowable.pipe(*case.operators(world)).subscribe(probe)
    world.scheduler.advance_to(THE_END)
    assert (source.taken, probe.items) == (0, [])
    probe.cancel()
    world.scheduler.advance_to(2 * THE_END)
    assert (source.taken, source.open) == (0, 0)
    probe.check()


@both_ways
@every_case
def test_takes_no_more_than_it_needs(case: Case, probe_type: type[Probe]) -> None:
    entry = OPERATORS[case.name]
    for demand in range(1, 7):
        world = World(at_once=True)
        source = Counted(case, world)
        probe = probe_type()
        source.flowable.pipe(*case.operators(world)).subscribe(probe)
        probe.request(demand)
        world.scheduler.advance_to(THE_END)
        if entry.traits.takes is Takes.ALL:
            assert source.taken == LENGTH or entry.ends_early
        else:
            assert source.taken == _needed(case, demand), demand
        if probe.ended:
            assert source.open == 0
            assert entry.ends_early or source.taken == LENGTH
        probe.cancel()
        world.scheduler.advance_to(2 * THE_END)
        # As in RxPY, a window or a group that is subscribed to keeps the source.
        assert source.open == 0 or case.gives_out_windows
        probe.check()


@both_ways
@pytest.mark.parametrize("case", [case for case in CASES if OPERATORS[case.name].ends_early], ids=repr)
def test_what_ends_early_cancels_its_source_at_once(case: Case, probe_type: type[Probe]) -> None:
    """Also if more is asked for than it will ever emit."""
    world = World(at_once=True)
    source = Counted(case, world)
    open_at_end: list[int] = []

    class Ending(probe_type):  # type: ignore[valid-type, misc]
        def on_completed(self) -> None:
            open_at_end.append(source.open)
            super().on_completed()

    probe = Ending()
    source.flowable.pipe(*case.operators(world)).subscribe(probe)
    probe.request(UNBOUNDED)
    world.scheduler.advance_to(THE_END)
    assert source.taken <= _needed(case, UNBOUNDED)
    assert source.open == 0
    assert open_at_end in ([], [0])
