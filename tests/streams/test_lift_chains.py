"""Chains of RxPY's operators, lifted: the same output as RxPY's, whatever the source and however it is asked for."""

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import reactivex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reactivex import operators

from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.probe import Probe
from tests.streams.rxpy import Operator, by_rxpy, end_of
from tests.streams.sources import SOURCES, Source, SourceError, every_source, probe_for

# RxPY's types can't infer those of a lambda.
ops: Any = operators


def _number(value: Any) -> int:
    """A number for anything that an operator may emit, so that any two can stand next to each other."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sum(map(_number, value)) + len(value)
    return len(str(value))


def _raise_for(value: Any) -> Any:
    if _number(value) % 7 == 5:
        raise ValueError(str(value))
    return value


@dataclasses.dataclass(frozen=True)
class Step:
    """An operator of a chain, made anew for each."""

    name: str
    make: Callable[[], Operator]

    def __repr__(self) -> str:
        return self.name


def _is_odd(value: Any) -> bool:
    return _number(value) % 2 == 1


STEPS = [
    Step("map", lambda: ops.map(lambda value: _number(value) + 1)),
    Step("map that raises", lambda: ops.map(_raise_for)),
    Step("filter", lambda: ops.filter(_is_odd)),
    Step("filter none", lambda: ops.filter(lambda _: False)),
    Step("scan", lambda: ops.scan(lambda total, value: _number(total) + _number(value), 0)),
    Step("pairwise", ops.pairwise),
    Step("distinct", lambda: ops.distinct(lambda value: _number(value) % 5)),
    Step("distinct until changed", lambda: ops.distinct_until_changed(lambda value: _number(value) // 3)),
    Step("do", lambda: ops.do_action(lambda _: None)),
    Step(
        "materialize", lambda: reactivex.compose(ops.materialize(), ops.map(lambda each: each.kind + str(each.value)))
    ),
    Step("buffer 3", lambda: ops.buffer_with_count(3)),
    Step("buffer 3, skip 1", lambda: ops.buffer_with_count(3, 1)),
    Step("buffer 2, skip 5", lambda: ops.buffer_with_count(2, 5)),
    Step("skip", lambda: ops.skip(2)),
    Step("skip last", lambda: ops.skip_last(2)),
    Step("skip while", lambda: ops.skip_while(_is_odd)),
    Step("take", lambda: ops.take(4)),
    Step("take none", lambda: ops.take(0)),
    Step("take while", lambda: ops.take_while(lambda value: _number(value) % 6 != 4)),
    Step("take last", lambda: ops.take_last(3)),
    Step("slice", lambda: ops.slice(1, 8, 2)),
    Step("first or default", lambda: ops.first_or_default(_is_odd, -1)),
    Step("first", ops.first),
    Step("last", ops.last),
    Step("single", ops.single),
    Step("element at", lambda: ops.element_at(2)),
    Step("find", lambda: ops.find(lambda value, index, _: _number(value) > index + 3)),
    Step("some", lambda: ops.some(_is_odd)),
    Step("all", lambda: ops.all(_is_odd)),
    Step("contains", lambda: ops.contains(3)),
    Step("is empty", ops.is_empty),
    Step("default if empty", lambda: ops.default_if_empty(42)),
    Step("count", ops.count),
    Step("reduce", lambda: ops.reduce(lambda total, value: _number(total) + _number(value), 0)),
    Step("to list", ops.to_list),
    Step("start with", lambda: ops.start_with(8, 9)),
    Step("concat", lambda: ops.concat(reactivex.of(10, 11, 12))),
    Step("repeat", lambda: ops.repeat(2)),
    Step("retry", lambda: ops.retry(2)),
    Step("catch", lambda: ops.catch(reactivex.of(20, 21))),
    Step("resume next", lambda: ops.on_error_resume_next(reactivex.of(30))),
    Step("flat map", lambda: ops.flat_map(lambda value: reactivex.of(_number(value), 1, 2))),
    Step("flat map to nothing", lambda: ops.flat_map(lambda _: reactivex.empty())),
    Step("flat map to a list", lambda: ops.flat_map(lambda value: [value] * (_number(value) % 4))),
    Step("concat map", lambda: ops.concat_map(lambda value: reactivex.of(value, 3))),
    Step("zip", lambda: ops.zip(reactivex.of(1, 2, 3, 4, 5))),
    Step("zip with iterable", lambda: ops.zip_with_iterable("abcdef")),
    Step("starmap", lambda: reactivex.compose(ops.map(lambda value: (_number(value), 2)), ops.starmap(operator.mul))),
    Step("share", ops.share),
    Step("group and flatten", lambda: reactivex.compose(ops.group_by(_is_odd), ops.flat_map(lambda group: group))),
    Step("the user's own", lambda: lambda source: reactivex.concat(source, reactivex.of(50))),
    Step("the user's own pipe", lambda: lambda source: source.pipe(ops.map(_number), ops.filter(_is_odd))),
]

chains = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)
lengths = st.integers(0, 12)
errors = st.sampled_from([None, SourceError("of the source")])
patterns = st.one_of(st.just([UNBOUNDED]), st.just([1] * 400), st.lists(st.integers(1, 5), min_size=1, max_size=6))


def request_all(probe: Probe, pattern: Sequence[int]) -> None:
    """Ask for what `pattern` says, each time that what was asked for has come; at the end for everything."""
    for n in pattern:
        if probe.ended:
            return
        probe.request(n)
        probe.wait_for_items(probe.requested)
    if probe.requested < UNBOUNDED:
        probe.request(UNBOUNDED)
    probe.wait_for_end()


@every_source
@pytest.mark.parametrize("batches", [False, True], ids=["singly", "in batches"])
@given(chain=chains, length=lengths, error=errors, pattern=patterns)
@settings(max_examples=60)
@example(chain=STEPS[:1], length=3, error=None, pattern=[1])
def test_same_output_as_rxpy(
    source: Source, batches: bool, chain: list[Step], length: int, error: Exception | None, pattern: list[int]
) -> None:
    taken: list[int] = []

    def iterate() -> Iterator[int]:
        for number in range(length):
            taken.append(number)
            yield number
        if error is not None:
            raise error

    with probe_for(source, batches=batches) as probe:
        source.make(iterate).pipe(*(step.make() for step in chain)).subscribe(probe)
        if source.pulled:
            assert taken == [], "taken before the first request"
        request_all(probe, pattern)
        expected, end = by_rxpy([step.make() for step in chain], range(length), error)
        values = list(map(str, probe.items))
        assert values == list(map(str, expected))
        assert end_of(probe.errors[0] if probe.errors else None) == end


@pytest.mark.parametrize("source", SOURCES[:1], ids=lambda source: source.name)
@pytest.mark.parametrize("batches", [False, True], ids=["singly", "in batches"])
@given(chain=chains, length=lengths, error=errors, cut=st.integers(0, 4))
def test_pipes_one_after_the_other_are_as_one(
    source: Source, batches: bool, chain: list[Step], length: int, error: Exception | None, cut: int
) -> None:
    outputs: list[list[str]] = []
    for parts in ([chain], [chain[:cut], chain[cut:]], [[step] for step in chain]):
        with probe_for(source, batches=batches) as probe:
            flowable: Flowable[Any] = source.of(range(length), error)
            for part in parts:
                flowable = flowable.pipe(*(step.make() for step in part))
            flowable.subscribe(probe)
            request_all(probe, [2, 3])
            outputs.append([*map(str, probe.items), *map(repr, probe.errors)])
    assert outputs[1:] == outputs[:1] * 2


@every_source
@given(chain=chains, length=lengths, error=errors)
@settings(max_examples=20)
def test_a_plain_observer_gets_the_same(
    source: Source, chain: list[Step], length: int, error: Exception | None
) -> None:
    if source.on_calling_thread:
        values: list[Any] = []
        ends: list[Any] = []
        source.of(range(length), error).pipe(*(step.make() for step in chain)).subscribe(
            values.append, lambda raised: ends.append(end_of(raised)), lambda: ends.append(end_of(None))
        )
        expected: list[Any] = []
        expected_ends: list[Any] = []

        def iterate() -> Iterator[int]:
            yield from range(length)
            if error is not None:
                raise error

        reactivex.defer(lambda _: reactivex.from_iterable(iterate())).pipe(*(step.make() for step in chain)).subscribe(
            expected.append,
            lambda raised: expected_ends.append(end_of(raised)),
            lambda: expected_ends.append(end_of(None)),
        )
        assert list(map(str, values)) == list(map(str, expected))
        assert ends == expected_ends
