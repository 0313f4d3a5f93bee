"""lift: where the demand goes around an operator of RxPY, and what happens at the edges."""

import asyncio
import gc
import operator
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from reactivex import ConnectableObservable, Observable, operators
from reactivex.disposable import SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler, EventLoopScheduler
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from rxwow import KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError, MissingBackpressureError
from rxwow.streams.chain import Chain, ChainTraits
from rxwow.streams.flowable import Flowable
from rxwow.streams.lift import lift
from rxwow.streams.operator_traits import JOINED
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.probe import PATIENCE_S, BatchProbe, Probe

# RxPY's types can't infer those of a lambda.
ops: Any = operators


class Counted:
    """A source of numbers that counts how many were taken of it and how often it was opened."""

    def __init__(self, length: int = 1000) -> None:
        self.length = length
        self.taken = 0
        self.opened = 0
        self.closed = 0
        self.flowable = Flowable.from_iterable(self._iterate)

    def _iterate(self) -> Iterator[int]:
        self.opened += 1
        try:
            for number in range(self.length):
                self.taken += 1
                yield number
        finally:
            self.closed += 1


both_ways = pytest.mark.parametrize("probe_type", [Probe, BatchProbe], ids=["singly", "in batches"])


def _twice(value: Any) -> Observable[Any]:
    return reactivex.of(value, value)


@both_ways
@pytest.mark.parametrize(
    ("operators", "demand", "taken"),
    [
        ([ops.map(str)], 3, 3),
        ([ops.filter(lambda number: number % 10 == 9)], 3, 30),
        ([ops.buffer_with_count(100)], 2, 200),
        ([ops.pairwise()], 3, 4),
        ([ops.skip(7)], 3, 10),
        ([ops.skip_last(7)], 3, 10),
        ([ops.take(3)], 50, 3),
        ([ops.first()], 1, 1),
        ([ops.take_while(lambda number: number < 3)], 50, 4),
        ([ops.element_at(5)], 1, 6),
        ([ops.start_with(1, 2)], 3, 1),
        ([ops.zip(reactivex.range(100))], 3, 3),
        ([ops.flat_map(_twice)], 5, 3),
        ([ops.concat_map(_twice)], 5, 3),
        ([ops.flat_map(_twice), ops.filter(lambda number: number > 2)], 1, 4),
        ([ops.map(str), ops.take(3), ops.to_list()], 1, 3),
        ([ops.to_list()], 1, 1000),
        ([ops.take(3), ops.repeat(2)], 5, 5),
        ([lambda source: source], 3, 3),
        ([reactivex.merge], 3, 3),
    ],
)
def test_takes_what_is_needed_and_nothing_before_the_first_request(
    probe_type: type[Probe], operators: list[Any], demand: int, taken: int
) -> None:
    source = Counted()
    probe = probe_type()
    source.flowable.pipe(*operators).subscribe(probe)
    assert source.taken == 0
    probe.request(demand)
    assert source.taken == taken
    probe.cancel()
    assert source.closed == source.opened
    probe.check()


@both_ways
def test_an_operator_that_ends_early_cancels_at_once(probe_type: type[Probe]) -> None:
    source = Counted()
    closed_at_end: list[int] = []
    probe = probe_type(100, lambda _: closed_at_end.append(source.closed))
    source.flowable.pipe(ops.take(2)).subscribe(probe)
    assert (probe.completions, source.taken, source.closed) == (1, 2, 1)


@both_ways
def test_each_repetition_has_a_fresh_subscription_with_a_demand_of_its_own(probe_type: type[Probe]) -> None:
    source = Counted(3)
    probe = probe_type(4)
    source.flowable.pipe(ops.repeat(3)).subscribe(probe)
    assert (probe.items, source.opened) == ([0, 1, 2, 0], 2)
    probe.request(UNBOUNDED)
    assert (probe.items, source.opened, probe.completions) == ([0, 1, 2] * 3, 3, 1)


@both_ways
def test_a_million_repetitions_of_nothing_stay_flat(probe_type: type[Probe]) -> None:
    repetitions = 0

    def none() -> Iterator[int]:
        nonlocal repetitions
        repetitions += 1
        return iter(())

    probe = probe_type(1)
    Flowable.from_iterable(none).pipe(ops.repeat(20_000)).subscribe(probe)
    assert (repetitions, probe.completions) == (20_000, 1)


@both_ways
def test_inner_sources_get_through_a_busy_trampoline(probe_type: type[Probe]) -> None:
    """RxPY's inner subscriptions emit as actions of the trampoline, which waits for the action that asks."""
    source = Counted()
    probe = probe_type(5)

    def subscribe(*_: Any) -> None:
        source.flowable.pipe(ops.flat_map(_twice)).subscribe(probe)

    CurrentThreadScheduler.singleton().schedule(subscribe)
    assert (probe.items, source.taken) == ([0, 0, 1, 1, 2], 3)


@both_ways
def test_goes_on_after_an_action_that_cleared_the_trampoline(probe_type: type[Probe]) -> None:
    """RxPY forgets what waits in a trampoline when an action raises: no note of having asked may survive that."""
    source = Counted()
    probe = probe_type(1)

    def subscribe(*_: Any) -> None:
        source.flowable.pipe(ops.flat_map(lambda _: reactivex.empty())).subscribe(probe)
        raise ValueError("in the trampoline")

    with pytest.raises(ValueError, match="in the trampoline"):
        CurrentThreadScheduler.singleton().schedule(subscribe)
    before = source.taken
    probe.request(1)
    assert before < source.taken == source.length
    assert probe.completions == 1


def test_the_subscribe_time_scheduler_passes_through() -> None:
    seen: list[Any] = []

    def remember(observer: Any, scheduler: Any) -> Any:
        seen.append(scheduler)
        return reactivex.of(1).subscribe(observer)

    def op(source: Observable[int]) -> Observable[int]:
        def subscribe(observer: Any, scheduler: Any) -> Any:
            seen.append(scheduler)
            return source.subscribe(observer, scheduler=scheduler)

        return Observable(subscribe)

    scheduler = TestScheduler()
    probe = Probe(UNBOUNDED)
    Flowable.from_observable(Observable(remember)).pipe(op, ops.map(str)).subscribe(probe, scheduler=scheduler)
    assert seen == [scheduler, scheduler]
    assert probe.items == ["1"]


@both_ways
def test_keyed_dispatch_inside_an_operator_of_the_users_keeps_its_demand(probe_type: type[Probe]) -> None:
    source = Counted(100)
    probe = probe_type(1)
    with KeyedExecutor(1) as executor:

        def composed(numbers: Observable[int]) -> Observable[int]:
            dispatch = keyed_dispatch(lambda number: number, lambda number: number, executor=executor, max_in_flight=4)
            return numbers.pipe(ops.map(lambda number: number + 1), dispatch)

        def hidden(numbers: Observable[int]) -> Observable[int]:
            return Observable(lambda observer, scheduler: composed(numbers).subscribe(observer, scheduler=scheduler))

        source.flowable.pipe(ops.map(lambda number: number + 1), composed).subscribe(probe)
        probe.wait_for_items(1)
        assert source.taken <= 5
        probe.cancel()
        last = source.flowable.pipe(ops.map(lambda number: number + 1), hidden, ops.to_list()).run()
    assert sorted(last) == list(range(2, 102))


def taken_at_once(observable: Observable[Any]) -> list[Any]:
    """Not by `run`, which has RxPY's partition emit on another thread, perhaps before both parts are subscribed."""
    items: list[Any] = []
    observable.subscribe(items.append)
    return items


def test_what_is_no_observable_stays_as_it_is() -> None:
    numbers = Flowable.from_iterable(range(4))
    even, odd = numbers.pipe(ops.map(lambda number: number + 1), ops.partition(lambda number: number % 2 == 0))
    assert taken_at_once(reactivex.merge(even, odd.pipe(ops.map(str)))) == ["1", 2, "3", 4]
    published: Any = numbers.pipe(ops.map(str), ops.publish())
    assert isinstance(published, ConnectableObservable)
    seen: list[str] = []
    published.subscribe(seen.append)
    published.connect()
    assert seen == ["0", "1", "2", "3"]

    async def last() -> Any:
        return await numbers.pipe(ops.map(str), ops.to_future())

    assert asyncio.run(last()) == "3"
    assert numbers.pipe(ops.map(str), lambda source: source.run()) == "3"


def test_nothing_piped_is_the_flowable_itself() -> None:
    numbers = Flowable.from_iterable(range(4))
    assert numbers.pipe() is numbers


def _add_in_place(flow: Flowable[Any]) -> Any:
    flow += reactivex.of(8)
    return flow


METHODS: list[tuple[str, Callable[[Flowable[Any]], Any], Any]] = [
    ("map", lambda flow: flow.map(lambda value: value + 1), [1, 2, 3]),
    ("filter", lambda flow: flow.filter(bool), [1, 2]),
    ("+", lambda flow: flow + reactivex.of(8), [0, 1, 2, 8]),
    ("+=", _add_in_place, [0, 1, 2, 8]),
    ("[]", lambda flow: flow[1:], [1, 2]),
    ("pluck", lambda flow: flow.map(lambda value: {"key": value}).pluck("key"), [0, 1, 2]),
    ("switch_latest", lambda flow: flow.map(_twice).switch_latest(), [0, 0, 1, 1, 2, 2]),
    ("exclusive", lambda flow: flow.map(_twice).exclusive(), [0, 0, 1, 1, 2, 2]),
    ("dematerialize", lambda flow: flow.materialize().dematerialize(), [0, 1, 2]),
    ("sum", lambda flow: flow.sum(), [3]),
    ("to_list", lambda flow: flow.to_list(), [[0, 1, 2]]),
]


@both_ways
@pytest.mark.parametrize(("name", "method", "expected"), METHODS, ids=[name for name, _, _ in METHODS])
def test_a_fluent_method_keeps_the_demand(
    probe_type: type[Probe], name: str, method: Callable[[Flowable[Any]], Any], expected: list[Any]
) -> None:
    source = Counted(3)
    flowable = method(source.flowable)
    assert isinstance(flowable, Flowable), name
    probe = probe_type()
    flowable.subscribe(probe)
    assert source.taken == 0
    for count in range(1, len(expected) + 1):
        probe.request(1)
        assert probe.items == expected[:count]
    probe.request(1)
    assert probe.completions == 1


def test_partition_indexed_keeps_working() -> None:
    first, rest = Flowable.from_iterable("abc").partition_indexed(lambda _, index: index == 0)
    assert taken_at_once(reactivex.merge(first, rest.pipe(ops.map(str.upper)))) == ["a", "B", "C"]


@both_ways
def test_what_is_emitted_beyond_the_demand_waits(probe_type: type[Probe]) -> None:
    source = Counted(10)
    probe = probe_type(1)
    source.flowable.pipe(ops.flat_map(lambda number: [number] * 100)).subscribe(probe)
    probe.request(98)
    assert (len(probe.items), source.taken) == (99, 1)
    probe.request(2)
    assert (probe.items[-1], source.taken) == (1, 2)


@both_ways
def test_too_much_is_an_error_that_names_the_operator(probe_type: type[Probe]) -> None:
    probe = probe_type(2)
    flood = ops.flat_map(lambda _: reactivex.range(JOINED + 3))
    Counted(3).flowable.pipe(ops.map(str), flood).subscribe(probe)
    assert probe.items == [0, 1]
    probe.request(UNBOUNDED)
    assert probe.items == list(range(JOINED + 2))
    assert isinstance(probe.errors[0], MissingBackpressureError)
    assert "the operators flat_map sent more than the 16384 items" in str(probe.errors[0])
    probe.check()


@both_ways
@pytest.mark.parametrize(
    ("strategy", "kept"), [("drop_latest", [0, 1, 2, 3]), ("drop_oldest", [97, 98, 99]), ("block", [0, 1, 2, 3])]
)
def test_what_happens_at_the_bound_can_be_chosen(probe_type: type[Probe], strategy: Any, kept: list[int]) -> None:
    probe = probe_type(1)
    hundred = lift(ops.flat_map(lambda _: reactivex.range(100)), on_overflow=strategy, capacity=3)
    Counted(1).flowable.pipe(hundred, ops.filter(lambda _: True)).subscribe(probe)
    probe.request(UNBOUNDED)
    # In batches, what was asked for is among what is kept until the batch is complete.
    assert probe.items[-len(kept) :] == kept
    assert len(probe.items) == 4
    # Nobody on this thread could ever make room, so it isn't held up.
    assert (probe.completions, len(probe.errors)) == ((0, 1) if strategy == "block" else (1, 0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operator": 3}, "operator must be"),
        ({"operator": ops.count(), "on_overflow": "wait"}, "on_overflow must be"),
        ({"operator": ops.count(), "capacity": 0}, "capacity must be"),
        ({"operator": ops.count(), "capacity": True}, "capacity must be"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        lift(**arguments)


def test_a_plain_observable_can_be_lifted_too() -> None:
    assert lift(ops.sum())(reactivex.of(1, 2)).run() == 3


@both_ways
def test_an_operator_that_raises_ends_the_stream(probe_type: type[Probe]) -> None:
    """RxPY lets some errors of the user's functions go up the stack of whoever emits, which here is the source's."""
    source = Counted()

    def fail(_: int) -> None:
        raise ValueError("no")

    def raising(numbers: Observable[int]) -> Observable[int]:
        return Observable(lambda observer, scheduler: numbers.subscribe(fail, observer.on_error, scheduler=scheduler))

    probe = probe_type(5)
    source.flowable.pipe(raising).subscribe(probe)
    assert [str(error) for error in probe.errors] == ["no"]
    assert (source.taken, source.closed) == (1, 1)
    probe.check()


@both_ways
def test_an_operator_that_raises_when_it_is_subscribed_ends_the_stream(probe_type: type[Probe]) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no")

    probe = probe_type()
    Counted().flowable.pipe(lambda _: Observable(fail)).subscribe(probe)
    assert [str(error) for error in probe.errors] == ["no"]


def test_an_operator_that_refuses_its_arguments_does_so_in_the_pipe() -> None:
    with pytest.raises(Exception, match="Argument out of range"):
        Counted().flowable.pipe(ops.take(-1))


@both_ways
@pytest.mark.parametrize("later", [ops.observe_on, lambda on: ops.delay(0.001, on)], ids=["observe_on", "delay"])
def test_no_more_is_in_an_operator_that_emits_later_than_was_requested(
    probe_type: type[Probe], later: Callable[[EventLoopScheduler], Any]
) -> None:
    source = Counted()
    scheduler = EventLoopScheduler()
    with scheduler:
        probe = probe_type(3)
        source.flowable.pipe(ops.filter(bool), later(scheduler), ops.filter(bool)).subscribe(probe)
        probe.wait_for_items(3)
        assert source.taken == 4
        probe.request(2)
        probe.wait_for_items(5)
        assert (probe.items, source.taken) == ([1, 2, 3, 4, 5], 6)
        probe.cancel()


@both_ways
def test_an_operator_that_subscribes_on_another_thread_gets_the_demand_there(probe_type: type[Probe]) -> None:
    source = Counted(5)

    def elsewhere(numbers: Observable[int]) -> Observable[int]:
        def subscribe(observer: Any, scheduler: Any) -> Any:
            subscription = SingleAssignmentDisposable()

            def subscribe_there() -> None:
                subscription.disposable = numbers.subscribe(observer, scheduler=scheduler)

            threading.Thread(target=subscribe_there).start()
            return subscription

        return Observable(subscribe)

    probe = probe_type(2)
    source.flowable.pipe(ops.map(str), elsewhere, ops.map(str)).subscribe(probe)
    probe.wait_for_items(2)
    assert source.taken == 2
    probe.request(UNBOUNDED)
    probe.wait_for_end()
    assert probe.items == list("01234")


@both_ways
def test_many_subscribers_have_their_own_demand(probe_type: type[Probe]) -> None:
    source = Counted()
    flowable = source.flowable.pipe(ops.scan(operator.add), ops.map(str))
    slow, fast = probe_type(1), probe_type(4)
    flowable.subscribe(slow)
    flowable.subscribe(fast)
    assert (slow.items, fast.items) == (["0"], ["0", "1", "3", "6"])


@both_ways
def test_joined_sources_of_another_thread_come_in_between(probe_type: type[Probe]) -> None:
    other: Subject[str] = Subject()
    source = Counted(4)
    probe = probe_type(2)
    source.flowable.pipe(ops.map(str), ops.merge(other)).subscribe(probe)
    assert probe.items == ["0", "1"]
    pusher = threading.Thread(target=lambda: reactivex.of("a", "b").subscribe(other.on_next))
    pusher.start()
    pusher.join(PATIENCE_S)
    assert len(probe.items) == 2
    probe.request(3)
    assert probe.items == ["0", "1", "a", "b", "2"]
    other.on_completed()
    probe.request(UNBOUNDED)
    assert probe.completions == 1


@both_ways
def test_lets_go_of_everything_at_the_end(probe_type: type[Probe]) -> None:
    """§3.13."""

    class Item:
        pass

    def items() -> Iterator[Item]:
        for _ in range(3):
            yield Item()

    probe = probe_type(1)
    Flowable.from_iterable(items).pipe(ops.map(lambda item: item), ops.start_with(Item())).subscribe(probe)
    probe.cancel()
    gone = [weakref.ref(probe), *(weakref.ref(item) for item in probe.items)]
    subscription = probe.subscription
    del probe
    # RxPY's operators and their observers refer to each other.
    gc.collect()
    assert [each() for each in gone] == [None, None]
    subscription.request(1)


def test_a_chain_is_one_however_it_was_piped() -> None:
    numbers = Flowable.from_iterable(range(9)).pipe(ops.map(str), ops.filter(bool)).pipe(ops.take(3)).map(str)
    probe = Probe()
    numbers.subscribe(probe)
    assert isinstance(probe.subscription, Chain)
    assert isinstance(probe.subscription._feeds, list)
    assert len(probe.subscription._feeds) == 1
    probe.cancel()


def test_what_was_chosen_for_one_operator_holds_for_the_chain() -> None:
    chain: Any = Flowable.from_iterable(range(9)).pipe(
        lift(ops.flat_map(_twice), on_overflow="drop_oldest", capacity=7), ops.map(str)
    )
    traits = ChainTraits.of([(stage.name, stage.traits, stage.strategy, stage.capacity) for stage in chain.stages])
    assert (traits.capacity, str(traits.strategy), traits.names) == (7, "drop_oldest", ("flat_map",))
