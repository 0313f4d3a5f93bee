"""What type checkers make of the fluent methods; this file is checked, not run."""

from typing import assert_type

from reactivex import Observable

from rxwow import Flowable, keyed_dispatch
from rxwow.streams.grouping import GroupedFlowable

lines: Flowable[str] = Flowable.from_iterable(["1", "2"])
numbers = lines.map(int)


def is_even(number: int) -> bool:
    return number % 2 == 0


async def double(number: int) -> float:
    return number * 2.0


async def check() -> None:
    assert_type(numbers, Flowable[int])
    assert_type(numbers.filter(is_even).take(3).pairwise(), Flowable[tuple[int, int]])
    assert_type(numbers.flat_map(lambda number: Flowable.from_iterable([str(number)])), Flowable[str])
    assert_type(numbers.flat_map(lambda number: [str(number)], max_concurrency=3), Flowable[str])
    assert_type(numbers.concat_map(lambda number: Flowable.from_iterable([str(number)])), Flowable[str])
    assert_type(numbers.zip(lines), Flowable[tuple[int, str]])
    assert_type(numbers.map_async(double), Flowable[float])
    assert_type(numbers.group_by(is_even), Flowable[GroupedFlowable[bool, int]])
    assert_type(numbers.merge(numbers).share().retry(3, delay=1.0).timeout(1.0), Flowable[int])
    assert_type(numbers + numbers, Flowable[int])
    assert_type(numbers.buffer_with_count(3), Flowable[list[int]])
    assert_type(numbers.to_list().run(), list[int])
    assert_type(numbers.pipe(keyed_dispatch(is_even, double)), Flowable[float])
    async for number in numbers.scan(max).limit_rate(3):
        assert_type(number, int)
    partitioned: list[Observable[int]] = numbers.partition(is_even)
    assert partitioned
