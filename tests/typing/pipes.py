"""What type checkers make of a pipe; this file is checked, not run."""

from collections.abc import Callable
from typing import assert_type

from reactivex import Observable
from reactivex import operators as ops

from rxwow import Flowable, keyed_dispatch


def parse(line: str) -> int:
    return int(line)


def render(number: int) -> str:
    return str(number)


def add(total: int, number: int) -> int:
    return total + number


def is_rising(pair: tuple[int, int]) -> bool:
    return pair[0] < pair[1]


def show(pair: tuple[int, int]) -> None:
    assert pair[0] < pair[1]


def is_valid(number: int) -> bool:
    return number > 0


def tenant_of(numbers: list[int]) -> int:
    return numbers[0]


def store(numbers: list[int]) -> str:
    return str(numbers)


lines: Flowable[str] = Flowable.from_iterable(["1", "2"])

assert_type(lines.pipe(), Flowable[str])
assert_type(lines.pipe(ops.map(parse)), Flowable[int])
assert_type(lines.pipe(ops.map(parse), ops.filter(is_valid)), Flowable[int])
assert_type(
    lines.pipe(ops.map(parse), ops.filter(is_valid), ops.buffer_with_count(100), keyed_dispatch(tenant_of, store)),
    Flowable[str],
)
# Twelve in one pipe. Of the items of `last`, `first` and `distinct`, RxPY tells mypy nothing.
assert_type(
    lines.pipe(
        ops.map(parse),
        ops.filter(is_valid),
        ops.take(9),
        ops.skip(1),
        ops.map(render),
        ops.skip_last(1),
        ops.map(parse),
        ops.scan(add),
        ops.pairwise(),
        ops.take_while(is_rising),
        ops.do_action(show),
        ops.to_list(),
    ),
    Flowable[list[tuple[int, int]]],
)


def first_of_all(source: Observable[int]) -> int:
    return 1


own: Callable[[Observable[int]], Observable[str]] = ops.map(str)
assert_type(lines.pipe(ops.map(parse), own), Flowable[str])
assert_type(lines.pipe(ops.map(parse), first_of_all), int)
