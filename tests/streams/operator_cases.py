"""One case for each operator of RxPY: how to make it, what to feed it, and what lifting it promises."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import reactivex
from reactivex import GroupedObservable, Observable, operators
from reactivex.notification import OnCompleted, OnError, OnNext
from reactivex.subject import Subject

from tests.streams.operator_world import World
from tests.streams.rxpy import Operator

# RxPY's types can't infer those of a lambda.
ops: Any = operators


Make = Callable[[World], Operator]


@dataclass(frozen=True)
class Case:
    """How to test one operator.

    Args:
        name: in `reactivex.operators`.
        make: the operator, with what it needs to do something.
        item: makes an item of the source out of a number.
        timed: what it emits depends on when its source and other sources send.
        same: what it emits doesn't depend on when its source is asked; otherwise it does what RxPY's own does when it
            is given the same items at the same times.
        gives_out_windows: its items are Observables, or tuples with some.
    """

    name: str
    make: Make
    item: Callable[[World, int], Any] = lambda _, number: number
    timed: bool = False
    same: bool = True
    gives_out_windows: bool = False

    def __repr__(self) -> str:
        return self.name

    def operators(self, world: World) -> list[Operator]:
        """The operator, and after it what makes its items comparable."""
        return [self.make(world), *([ops.map(collected)] if self.gives_out_windows else [])]


def collected(value: Any) -> Any:
    """The list of what a window or a group emits, from when it was given out on; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(collected, value))
    if not isinstance(value, Observable):
        return value
    items: list[Any] = [f"key {value.key}"] if isinstance(value, GroupedObservable) else []
    value.subscribe(items.append, lambda error: items.append(repr(error)), lambda: items.append("completed"))
    return items


def _is_odd(value: Any) -> bool:
    return bool(value % 2)


def _add(total: Any, value: Any) -> Any:
    return total + value


def _plain(name: str, make: Callable[[], Operator], item: Callable[[int], Any] | None = None) -> Case:
    return Case(name, lambda _: make(), Case.item if item is None else lambda _, number: item(number))


def _timed(name: str, make: Make, item: Callable[[World, int], Any] = Case.item) -> Case:
    return Case(name, make, item, timed=True, same=False)


def _windows(name: str, make: Make, *, timed: bool = True) -> Case:
    return Case(name, make, timed=timed, same=not timed, gives_out_windows=True)


def _timely(name: str, make: Make, item: Callable[[World, int], Any] = Case.item) -> Case:
    return Case(name, make, item, timed=True)


def _notification(number: int) -> Any:
    return OnError(ValueError("notified")) if number == 9 else OnCompleted() if number == 7 else OnNext(number)


def _inner(number: int) -> Observable[int]:
    return reactivex.of(number, 100 + number)


def _twice(world: World, number: int) -> Observable[Any]:
    return world.twice(number)


class _Pair:
    def __init__(self, number: int) -> None:
        self.number = number


def _times(limit: int) -> Callable[[Any], bool]:
    """A condition that holds a few times, for each subscription anew."""
    left = limit

    def go_on(_: Any) -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    return go_on


# What they emit depends on their items alone.
PLAIN = [
    _plain("all", lambda: ops.all(lambda value: value < 8)),
    _plain("as_observable", ops.as_observable),
    _plain("average", ops.average),
    _plain("buffer_with_count", lambda: ops.buffer_with_count(3, 2)),
    _plain("catch", lambda: ops.catch(reactivex.of(20, 21))),
    _plain("concat", lambda: ops.concat(reactivex.of(30, 31))),
    _plain("concat_all", ops.concat_all, _inner),
    _plain("concat_map", lambda: ops.concat_map(_inner)),
    _plain("contains", lambda: ops.contains(5)),
    _plain("count", lambda: ops.count(_is_odd)),
    _plain("default_if_empty", lambda: ops.default_if_empty(42)),
    _plain("dematerialize", ops.dematerialize, _notification),
    _plain("distinct", lambda: ops.distinct(lambda value: value % 4)),
    _plain("distinct_until_changed", lambda: ops.distinct_until_changed(lambda value: value // 3)),
    _plain("do", lambda: ops.do(Subject())),
    _plain("do_action", lambda: ops.do_action(lambda _: None)),
    _plain("do_while", lambda: ops.do_while(_times(2))),
    _plain("element_at", lambda: ops.element_at(3)),
    _plain("element_at_or_default", lambda: ops.element_at_or_default(3, -1)),
    _plain("exclusive", ops.exclusive, _inner),
    _plain("expand", lambda: ops.expand(lambda value: reactivex.of(value + 20) if value < 40 else reactivex.empty())),
    _plain("filter", lambda: ops.filter(_is_odd)),
    _plain("filter_indexed", lambda: ops.filter_indexed(lambda value, index: (value + index) % 3 == 0)),
    _plain("finally_action", lambda: ops.finally_action(lambda: None)),
    _plain("find", lambda: ops.find(lambda value, index, _: value > index + 3)),
    _plain("find_index", lambda: ops.find_index(lambda value, index, _: value > index + 3)),
    _plain("first", lambda: ops.first(lambda value: value > 4)),
    _plain("first_or_default", lambda: ops.first_or_default(lambda value: value > 4, -1)),
    _plain("flat_map", lambda: ops.flat_map(_inner)),
    _plain("flat_map_indexed", lambda: ops.flat_map_indexed(lambda value, index: [value] * (index % 3))),
    _windows("group_by", lambda _: ops.group_by(lambda value: value % 3), timed=False),
    _plain("ignore_elements", ops.ignore_elements),
    _plain("is_empty", ops.is_empty),
    _plain("last", lambda: ops.last(_is_odd)),
    _plain("last_or_default", lambda: ops.last_or_default(-1, _is_odd)),
    _plain("map", lambda: ops.map(lambda value: value + 1)),
    _plain("map_indexed", lambda: ops.map_indexed(_add)),
    _plain("materialize", ops.materialize),
    _plain("max", ops.max),
    _plain("max_by", lambda: ops.max_by(lambda value: value % 5)),
    _plain("min", ops.min),
    _plain("min_by", lambda: ops.min_by(lambda value: value % 5)),
    _plain("on_error_resume_next", lambda: ops.on_error_resume_next(reactivex.of(30))),
    _plain("pairwise", ops.pairwise),
    _plain("pluck", lambda: ops.pluck("number"), lambda number: {"number": number}),
    _plain("pluck_attr", lambda: ops.pluck_attr("number"), _Pair),
    _plain("reduce", lambda: ops.reduce(_add, 0)),
    _plain("repeat", lambda: ops.repeat(2)),
    _plain("retry", lambda: ops.retry(2)),
    _plain("scan", lambda: ops.scan(_add, 0)),
    _plain("share", ops.share),
    _plain("single", lambda: ops.single(lambda value: value > 8)),
    _plain("single_or_default", lambda: ops.single_or_default(lambda value: value > 8, -1)),
    _plain("single_or_default_async", lambda: ops.single_or_default_async(has_default=True, default_value=-1)),
    _plain("skip", lambda: ops.skip(2)),
    _plain("skip_last", lambda: ops.skip_last(2)),
    _plain("skip_while", lambda: ops.skip_while(lambda value: value < 4)),
    _plain("skip_while_indexed", lambda: ops.skip_while_indexed(lambda value, index: value + index < 6)),
    _plain("slice", lambda: ops.slice(1, 8, 2)),
    _plain("some", lambda: ops.some(lambda value: value > 6)),
    _plain("starmap", lambda: ops.starmap(operator.mul), lambda number: (number, 2)),
    _plain(
        "starmap_indexed",
        lambda: ops.starmap_indexed(lambda first, second, index: first * second + index),
        lambda number: (number, 2, number % 3),
    ),
    _plain("start_with", lambda: ops.start_with(8, 9)),
    _plain("sum", ops.sum),
    _plain("take", lambda: ops.take(4)),
    _plain("take_last", lambda: ops.take_last(3)),
    _plain("take_last_buffer", lambda: ops.take_last_buffer(3)),
    _plain("take_while", lambda: ops.take_while(lambda value: value < 6, inclusive=True)),
    _plain("take_while_indexed", lambda: ops.take_while_indexed(lambda value, index: value + index < 9)),
    _plain("tap", lambda: ops.tap(lambda _: None)),
    _plain("to_dict", lambda: ops.to_dict(lambda value: value % 4)),
    _plain("to_iterable", ops.to_iterable),
    _plain("to_list", ops.to_list),
    _plain("to_set", ops.to_set),
    _plain("while_do", lambda: ops.while_do(_times(2))),
    _windows("window_with_count", lambda _: ops.window_with_count(3, 2), timed=False),
    _plain("zip_with_iterable", lambda: ops.zip_with_iterable("abcdef")),
    _plain("zip_with_list", lambda: ops.zip_with_list("abcdef")),
]

# What they emit depends on the time, or on what another source has sent by then.
TIMED = [
    _timed("amb", lambda world: ops.amb(world.letters())),
    _timed("buffer", lambda world: ops.buffer(world.letters())),
    _timed("buffer_toggle", lambda world: ops.buffer_toggle(world.letters(), lambda _: world.after(30))),
    _timed("buffer_when", lambda world: ops.buffer_when(lambda: world.after(30))),
    _timed("buffer_with_time", lambda world: ops.buffer_with_time(30, 20, world.scheduler)),
    _timed("buffer_with_time_or_count", lambda world: ops.buffer_with_time_or_count(30, 2, world.scheduler)),
    _timed("combine_latest", lambda world: ops.combine_latest(world.letters())),
    _timed("debounce", lambda world: ops.debounce(10, world.scheduler)),
    _timely("delay", lambda world: ops.delay(30, world.scheduler)),
    _timely("delay_subscription", lambda world: ops.delay_subscription(30, world.scheduler)),
    _timed(
        "delay_with_mapper",
        lambda world: ops.delay_with_mapper(lambda value: world.after(40 if value % 3 else 1)),
    ),
    _timed("flat_map_latest", lambda world: ops.flat_map_latest(world.twice)),
    _timely("fork_join", lambda world: ops.fork_join(world.letters())),
    _windows(
        "group_by_until",
        lambda world: ops.group_by_until(lambda value: value % 3, None, lambda _: world.after(30)),
    ),
    _windows(
        "group_join",
        lambda world: ops.group_join(world.letters(), lambda _: world.after(40), lambda _: world.after(30)),
    ),
    _timed("join", lambda world: ops.join(world.letters(), lambda _: world.after(40), lambda _: world.after(30))),
    _timed("merge", lambda world: ops.merge(world.letters())),
    _timed("merge_all", lambda _: ops.merge_all(), _twice),
    _timely("observe_on", lambda world: ops.observe_on(world.scheduler)),
    _timed("sample", lambda world: ops.sample(30, world.scheduler)),
    _timely("sequence_equal", lambda world: ops.sequence_equal(world.other((17, 0), (37, 1), (67, 2), end=77))),
    _timed("skip_last_with_time", lambda world: ops.skip_last_with_time(30, world.scheduler)),
    _timed("skip_until", lambda world: ops.skip_until(world.after(37))),
    _timed("skip_until_with_time", lambda world: ops.skip_until_with_time(30, world.scheduler)),
    _timed("skip_with_time", lambda world: ops.skip_with_time(30, world.scheduler)),
    _timely("subscribe_on", lambda world: ops.subscribe_on(world.scheduler)),
    _timed("switch_latest", lambda _: ops.switch_latest(), _twice),
    _timed("switch_map", lambda world: ops.switch_map(world.twice)),
    _timed("switch_map_indexed", lambda world: ops.switch_map_indexed(lambda value, _: world.twice(value))),
    _timed("take_last_with_time", lambda world: ops.take_last_with_time(40, world.scheduler)),
    _timed("take_until", lambda world: ops.take_until(world.after(67))),
    _timed("take_until_with_time", lambda world: ops.take_until_with_time(60, world.scheduler)),
    _timed("take_with_time", lambda world: ops.take_with_time(60, world.scheduler)),
    _timed("throttle_first", lambda world: ops.throttle_first(20, world.scheduler)),
    _timed("throttle_with_mapper", lambda world: ops.throttle_with_mapper(lambda _: world.after(20))),
    _timed("throttle_with_timeout", lambda world: ops.throttle_with_timeout(20, world.scheduler)),
    _timed("time_interval", lambda world: ops.time_interval(world.scheduler)),
    _timed("timeout", lambda world: ops.timeout(60, world.instead(), world.scheduler)),
    _timed(
        "timeout_with_mapper",
        lambda world: ops.timeout_with_mapper(world.after(90), lambda _: world.after(30), world.instead()),
    ),
    _timed("timestamp", lambda world: ops.timestamp(world.scheduler)),
    _timed("to_marbles", lambda world: ops.to_marbles(10, world.scheduler)),
    _windows("window", lambda world: ops.window(world.letters())),
    _windows("window_toggle", lambda world: ops.window_toggle(world.letters(), lambda _: world.after(30))),
    _windows("window_when", lambda world: ops.window_when(lambda: world.after(30))),
    _windows("window_with_time", lambda world: ops.window_with_time(30, 20, world.scheduler)),
    _windows(
        "window_with_time_or_count",
        lambda world: ops.window_with_time_or_count(30, 2, world.scheduler),
    ),
    _timed("with_latest_from", lambda world: ops.with_latest_from(world.letters())),
    _timely("zip", lambda world: ops.zip(world.letters())),
    _timed("zip_latest", lambda world: ops.zip_latest(world.letters())),
]

CASES = [*PLAIN, *TIMED]

NO_FLOWABLE: dict[str, Callable[[], Operator]] = {
    "multicast": lambda: ops.multicast(Subject()),
    "partition": lambda: ops.partition(_is_odd),
    "partition_indexed": lambda: ops.partition_indexed(lambda value, index: (value + index) % 3 == 0),
    "publish": ops.publish,
    "publish_value": lambda: ops.publish_value(-1),
    "ref_count": ops.ref_count,
    "replay": ops.replay,
    "to_future": ops.to_future,
}
"""Operators that return something else than an Observable, or don't take a Flowable."""
