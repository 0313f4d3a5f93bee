"""The table of operators: complete, and true of the RxPY that is installed."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import reactivex
from reactivex import ConnectableObservable, Observable, operators
from reactivex.subject import ReplaySubject, Subject

import dev
import rxwow.operators
from rxwow.streams.flowable import Flowable
from rxwow.streams.operator_table import OPERATORS, Kind
from rxwow.streams.operator_traits import EMITTED, JOINED, TRAITS, UNKNOWN
from rxwow.streams.recognition import composed, operator_name
from tests.streams.operator_cases import CASES, NO_FLOWABLE, Case
from tests.streams.operator_world import World
from tests.streams.probe import BatchProbe, Probe

# RxPY's types can't infer those of a lambda.
ops: Any = operators

both_ways = pytest.mark.parametrize("probe_type", [Probe, BatchProbe], ids=["singly", "in batches"])


def test_each_operator_of_rxpy_is_there_and_no_other() -> None:
    assert set(OPERATORS) == set(operators.__all__)


def test_each_operator_has_a_test() -> None:
    tested = [case.name for case in CASES] + list(NO_FLOWABLE)
    assert sorted(tested) == sorted(OPERATORS)


def test_all_that_is_known_of_operators_is_in_the_table() -> None:
    assert {name for entry in OPERATORS.values() for name in entry.made_of} == set(TRAITS)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_each_operator_is_recognized(case: Case) -> None:
    """A release of RxPY that makes its operators in another way shows here, and not in how much they take."""
    assert OPERATORS[case.name].made_of == tuple(map(operator_name, composed(case.make(World()))))


@pytest.mark.parametrize("name", NO_FLOWABLE)
def test_the_others_are_left_to_themselves(name: str) -> None:
    entry = OPERATORS[name]
    assert (entry.kind, entry.made_of) == (Kind.NO_FLOWABLE, ())
    source: Any = Flowable.from_iterable(range(3))
    if name == "ref_count":
        source = source.pipe(ops.publish())
    if name != "to_future":  # that needs a loop
        made = source.pipe(NO_FLOWABLE[name]())
        assert not isinstance(made, Flowable)
        if entry.note.startswith("returns a ConnectableObservable"):
            assert isinstance(made, ConnectableObservable)


def test_each_operator_that_rxwow_has_too_is_known_as_such() -> None:
    both = {name for name, entry in OPERATORS.items() if entry.kind in (Kind.REPLACED, Kind.OWN)}
    assert both == set(OPERATORS) & set(rxwow.operators.__all__)


def test_what_is_derived() -> None:
    held = {name: entry.holds for name, entry in OPERATORS.items() if entry.made_of}
    assert (held["map"], held["switch_map"], held["debounce"], held["take_last"]) == (0, JOINED, EMITTED, None)
    assert (held["count"], held["skip_last"]) == (1, 0)
    assert OPERATORS["first_or_default"].ends_early
    assert not OPERATORS["concat_map"].ends_early
    assert TRAITS["find_value"] is not UNKNOWN


class Counted:
    """A source of numbers that counts how many were taken and how often it was opened."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.taken = 0
        self.opened = 0
        self.flowable = Flowable.from_iterable(self._iterate)

    def _iterate(self) -> Iterator[int]:
        self.opened += 1
        for number in range(self.length):
            self.taken += 1
            yield number


def _through(items: Observable[Any]) -> Observable[Any]:
    return reactivex.merge(items, items)


@both_ways
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (lambda: ops.publish(_through), [0, 0, 1, 1, 2]),
        (lambda: ops.publish_value(9, _through), [9, 9, 0, 0, 1]),
        (lambda: ops.replay(mapper=_through), [0, 0, 1, 1, 2]),
        (lambda: ops.multicast(subject_factory=lambda _: Subject(), mapper=_through), [0, 0, 1, 1, 2]),
    ],
    ids=["publish", "publish_value", "replay", "multicast"],
)
def test_with_a_mapper_those_that_share_take_one_item_at_a_time(
    probe_type: type[Probe], operator: Callable[[], Any], expected: list[int]
) -> None:
    source = Counted(9)
    probe = probe_type()
    source.flowable.pipe(operator()).subscribe(probe)
    assert source.taken == 0
    probe.request(5)
    assert (probe.items, source.taken) == (expected, expected[-1] + 1)
    probe.check()


def test_a_replay_is_the_same_as_rxpys() -> None:
    made: Any = Flowable.from_iterable(range(5)).pipe(ops.replay(2))
    made.connect()
    seen: list[int] = []
    made.subscribe(seen.append)
    assert seen == [3, 4]
    subject: ReplaySubject[int] = ReplaySubject()
    made = Flowable.from_iterable(range(3)).pipe(ops.multicast(subject))
    made.connect()
    seen.clear()
    subject.subscribe(seen.append)
    assert seen == [0, 1, 2]


@both_ways
def test_a_part_takes_everything(probe_type: type[Probe]) -> None:
    source = Counted(9)
    even, _ = source.flowable.pipe(ops.partition(lambda number: number % 2 == 0))
    probe = probe_type(2)
    Flowable.from_observable(even).subscribe(probe)
    assert (probe.items, source.taken) == ([0, 2], 9)


@both_ways
def test_subscribers_of_a_share_share_one_source(probe_type: type[Probe]) -> None:
    source = Counted(9)
    shared = source.flowable.pipe(ops.share())
    first, second = probe_type(), probe_type()
    shared.subscribe(first)
    shared.subscribe(second)
    first.request(3)
    second.request(3)
    assert (first.items, second.items, source.opened) == ([0, 1, 2], [0, 1, 2], 1)


@both_ways
@pytest.mark.parametrize("name", ["window_with_count", "group_by"])
def test_a_window_is_handed_over_before_its_items(probe_type: type[Probe], name: str) -> None:
    """A subscriber that takes batches subscribes to a window in time."""
    collected: list[list[int]] = []

    def subscribe(window: Any) -> None:
        items: list[int] = []
        collected.append(items)
        window.subscribe(items.append)

    case = next(case for case in CASES if case.name == name)
    probe = probe_type(100, subscribe)
    Flowable.from_iterable(range(4)).pipe(case.make(World())).subscribe(probe)
    assert collected == ([[0, 1, 2], [2, 3], []] if name == "window_with_count" else [[0, 3], [1], [2]])


@both_ways
def test_the_first_window_is_fed_without_a_further_request(probe_type: type[Probe]) -> None:
    """It is there before anything is asked for; whoever waits for its end would never ask for the next."""
    collected: list[int] = []
    probe = probe_type(1, lambda window: window.subscribe(collected.append))
    source = Counted(4)
    source.flowable.pipe(ops.window(Subject())).subscribe(probe)
    assert (len(probe.items), source.taken, collected) == (1, 4, [0, 1, 2, 3])


def test_the_page_of_the_documentation_shows_all_of_it() -> None:
    conf = runpy.run_path(str(Path(dev.__file__).parent / "docs" / "conf.py"))
    lines = conf["myst_substitutions"]["operators"].splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == sorted(set(operators.__all__))
    columns = lines[0].count("|")
    assert all(line.count("|") == columns for line in lines)
    for name in ("map", "take_last", "merge", "partition", "switch_map"):
        (line,) = (line for line in lines if line.startswith(f"| `{name}`"))
        assert OPERATORS[name].note in line
        assert str(OPERATORS[name].kind) in line
