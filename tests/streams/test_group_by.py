"""group_by: RxPY's groups, one demand account, and no way to hang for want of a subscriber."""

import asyncio
import gc
import itertools
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxwow.errors import InvalidArgumentError, InvalidKeyError, InvalidRequestError, StalledGroupsError, UsageError
from rxwow.platform import PRODUCTION
from rxwow.streams.flowable import Flowable
from rxwow.streams.grouped import Group, GroupedFlowable
from rxwow.streams.grouping import group_by
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from rxwow.streams.stalling import STALL_PATIENCE
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Probe
from tests.streams.sources import SourceError
from tests.streams.test_emitter import Queue
from tests.streams.test_schedules import Controlled, each, join

Key = Callable[[Any], Any]


def third(number: int) -> int:
    return number % 3


def fourth(number: int) -> int:
    return number % 4


def fifth(number: int) -> int:
    return number % 5


def hundredth(number: int) -> int:
    return number % 100


def tenfold(number: int) -> int:
    return number * 10


def above_four(number: int) -> bool:
    return number > 4


def itself(number: int) -> int:
    return number


class Hand:
    """A source that sends what a test hands it, and keeps a log of what was asked of it."""

    def __init__(self, platform: Any = PRODUCTION) -> None:
        self.requests: list[int] = []
        self.cancels = 0
        self._platform = platform
        self.flowable: Flowable[Any] = Flowable(self._publish)

    def _publish(self, subscriber: Subscriber[Any], _: Any) -> Subscription:
        hand = self

        class Logged(Queue):
            def request(self, n: int) -> None:
                hand.requests.append(n)
                super().request(n)

            def _stop(self) -> None:
                hand.cancels += 1

        self.queue = Logged(subscriber, self._platform)
        self.queue.start()
        return self.queue

    def send(self, *items: Any) -> None:
        for item in items:
            self.queue.put(item)


class Groups:
    """Subscribes each group with a probe of its own, from inside the `on_next` that brings the group."""

    def __init__(self, demand: int = UNBOUNDED, of_groups: int = UNBOUNDED, *, batches: bool = False) -> None:
        self.probes: dict[Any, Probe] = {}
        self._make = BatchProbe if batches else Probe
        self._demand = demand
        self.outer = self._make(of_groups, self._take)

    def _take(self, group: GroupedFlowable[Any, Any]) -> None:
        probe = self.probes[group.key] = self._make(self._demand)
        group.subscribe(probe)

    def ask_for_all(self, but: Container[Any] = ()) -> None:
        """Ask for everything, also in groups that only come by that, but in those that were cancelled."""
        while asking := [key for key, probe in self.probes.items() if key not in but and not probe.ended]:
            for key in asking:
                self.probes[key].request(UNBOUNDED)

    @property
    def items(self) -> dict[Any, list[Any]]:
        return {key: probe.items for key, probe in self.probes.items()}

    def check(self) -> None:
        for probe in (self.outer, *self.probes.values()):
            probe.check()


def by_rxpy(
    items: Iterable[Any], key: Key, element: Key | None = None, error: Exception | None = None
) -> tuple[dict[Any, list[Any]], list[Any]]:
    """What RxPY's own group_by gives: the items of each key, and the ends of all, as text."""
    groups: dict[Any, list[Any]] = {}
    ends: list[Any] = []

    def take(group: Any) -> None:
        got = groups.setdefault(group.key, [])
        group.subscribe(got.append, lambda raised: ends.append(repr(raised)), lambda: ends.append("completed"))

    source: Any = reactivex.from_iterable(items)
    if error is not None:
        source = source.pipe(ops.concat(reactivex.throw(error)))
    source.pipe(ops.group_by(key, element)).subscribe(
        take, lambda raised: ends.append(repr(raised)), lambda: ends.append("completed")
    )
    return groups, ends


def ends_of(groups: Groups) -> list[Any]:
    probes = (*groups.probes.values(), groups.outer)
    return [repr(probe.errors[0]) if probe.errors else "completed" for probe in probes if probe.ended]


# What comes out.

steps = st.lists(
    st.one_of(
        st.tuples(st.just("groups"), st.integers(1, 3)),
        st.tuples(st.integers(0, 3), st.integers(1, 6)),
        st.tuples(st.integers(0, 3), st.just("cancel")),
    ),
    max_size=30,
)


@given(
    items=st.lists(st.integers(0, 30), max_size=60),
    prefetch=st.integers(1, 9),
    steps=steps,
    batches=st.booleans(),
    fails=st.booleans(),
)
def test_same_groups_and_items_as_rxpy_whatever_is_requested(
    items: list[int], prefetch: int, steps: list[tuple[Any, Any]], batches: bool, fails: bool
) -> None:
    """And never are there more items in all groups than the prefetch, or more pulled than asked for."""
    error = SourceError("the end") if fails else None
    pulled = 0
    cancelled: set[int] = set()

    def source() -> Iterator[int]:
        nonlocal pulled
        for item in items:
            pulled += 1
            assert cancelled or pulled - sum(map(len, groups.items.values())) <= prefetch
            yield item
        if error is not None:
            raise error

    groups = Groups(0, 0, batches=batches)
    Flowable.from_iterable(source).pipe(group_by(fourth, tenfold, prefetch=prefetch)).subscribe(groups.outer)
    assert pulled == 0
    for target, what in steps:
        if target == "groups":
            groups.outer.request(what)
        elif target in groups.probes and what == "cancel":
            cancelled.add(target)
            groups.probes[target].cancel()
        elif target in groups.probes:
            groups.probes[target].request(what)
    groups.outer.request(UNBOUNDED)
    groups.ask_for_all(but=cancelled)
    groups.check()
    model, ends = by_rxpy(items, fourth, tenfold, error)
    assert list(groups.items) == list(model)
    for key, got in groups.items.items():
        assert got == (model[key][: len(got)] if key in cancelled else model[key])
    ended = [key for key in cancelled if groups.probes[key].ended]
    assert ends_of(groups) == ends[: len(ends) - len(cancelled) + len(ended)]


@given(
    items=st.lists(st.integers(0, 9), max_size=30),
    bad=st.sampled_from(["key", "element", "hash"]),
    batches=st.booleans(),
)
def test_mapper_that_raises_is_the_error_of_all(items: list[int], bad: str, batches: bool) -> None:
    """As with RxPY: after the items before, and after a group whose first element has failed."""

    def key(number: int) -> Any:
        if bad == "key" and number == 7:
            raise SourceError("no key")
        return [] if bad == "hash" and number == 7 else number % 3

    def element(number: int) -> int:
        if bad == "element" and number == 7:
            raise SourceError("no element")
        return number

    groups = Groups(batches=batches)
    hand = Hand()
    hand.flowable.pipe(group_by(key, element)).subscribe(groups.outer)
    hand.send(*items)
    hand.queue.complete()
    groups.check()
    if bad != "hash":
        model, ends = by_rxpy(items, key, element)
        assert (groups.items, ends_of(groups)) == (model, ends)
    elif 7 in items:
        errors = [probe.errors[0] for probe in (*groups.probes.values(), groups.outer)]
        assert all(isinstance(error, InvalidKeyError) and "unhashable" in str(error) for error in errors)
    assert hand.cancels == (7 in items)


@pytest.mark.parametrize("native", [True, False], ids=["Flowable", "Observable"])
def test_plain_observers_get_what_they_get_from_rxpy(native: bool) -> None:
    """Also from a cold Observable that sends more than the account and the queue before it hold, on this thread."""
    length = 2000
    got: dict[Any, list[int]] = {}
    ends: list[str] = []

    def take(group: GroupedFlowable[int, int]) -> None:
        items = got[group.key] = []
        group.subscribe(items.append, on_completed=lambda: ends.append("group"))

    source: Any = Flowable.from_iterable(range(length)) if native else reactivex.from_iterable(range(length))
    source.pipe(group_by(third, prefetch=16)).subscribe(take, on_completed=lambda: ends.append("all"))
    assert got == by_rxpy(range(length), third)[0]
    assert ends == ["group"] * 3 + ["all"]


def test_plain_observer_can_dispose_its_group_from_inside_on_next() -> None:
    """It has the subscription in its hands before the first item comes."""
    got: list[int] = []
    handles: list[Any] = []

    def on_next(item: int) -> None:
        got.append(item)
        handles[0].dispose()

    def take(group: GroupedFlowable[int, int]) -> None:
        handles.append(group.subscribe(on_next))

    hand = Hand()
    hand.flowable.pipe(group_by(lambda _: 0)).subscribe(take)
    hand.send(1, 2)
    assert got == [1]


def test_lifted_rxpy_operators_on_groups() -> None:
    def counted(group: Any) -> Any:
        return group.pipe(ops.count(), ops.map(lambda n: (group.key, n)))

    source: Any = Flowable.from_iterable(range(3000)).pipe(group_by(third), ops.flat_map(counted))
    assert sorted(source.pipe(ops.to_list()).run()) == [(0, 1000), (1, 1000), (2, 1000)]


def test_equal_keys_are_one_group_and_none_is_a_key() -> None:
    groups = Groups()
    Flowable.from_iterable([1, None, True, 1.0]).pipe(group_by(lambda key: key)).subscribe(groups.outer)
    assert groups.items == {1: [1, True, 1.0], None: [None]}


def test_key_that_cannot_be_compared_is_said_so() -> None:
    class Incomparable:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise SourceError("never equal")

    groups = Groups()
    Flowable.from_iterable([1, 2]).pipe(group_by(lambda _: Incomparable())).subscribe(groups.outer)
    assert isinstance(groups.outer.errors[0], InvalidKeyError)


# The account.


def test_nothing_is_asked_before_the_first_request_and_then_the_prefetch() -> None:
    hand = Hand()
    groups = Groups(of_groups=0)
    hand.flowable.pipe(group_by(third, prefetch=8)).subscribe(groups.outer)
    assert hand.requests == []
    groups.outer.request(1)
    assert hand.requests == [8]


def test_more_is_asked_for_when_three_quarters_are_taken() -> None:
    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(third, prefetch=8)).subscribe(groups.outer)
    hand.send(*range(5))
    assert hand.requests == [8]
    hand.send(5)
    assert hand.requests == [8, 6]


def test_less_is_asked_for_where_nothing_else_could_move() -> None:
    """Here five of eight items wait for a subscriber that asks for nothing, so three quarters are never free."""
    hand = Hand()
    groups = Groups(0)
    hand.flowable.pipe(group_by(above_four, prefetch=8)).subscribe(groups.outer)
    hand.send(0, 1, 2, 3, 4, 5)
    groups.probes[True].request(100)
    hand.send(*range(6, 40))
    assert groups.items == {False: [], True: list(range(5, 40))}


def test_subscribed_group_without_demand_holds_up_the_others() -> None:
    """The account is one; and that is no stall, as the subscriber may ask at any time."""

    def scenario(platform: ControlledPlatform) -> None:
        groups = Groups(0)
        Flowable.from_iterable(range(100)).pipe(group_by(third, prefetch=9)).subscribe(groups.outer)
        groups.probes[0].request(UNBOUNDED)
        platform.sleep(10 * STALL_PATIENCE)
        assert len(groups.probes[0].items) < 20
        assert not groups.outer.ended
        groups.probes[1].request(UNBOUNDED)
        groups.probes[2].request(UNBOUNDED)
        assert groups.items == by_rxpy(range(100), third)[0]

    run(scenario)


def test_source_that_sends_more_than_was_asked_for_is_not_asked_for_more_than_it_owes() -> None:
    hand = Hand()
    groups = Groups(0)
    hand.flowable.pipe(group_by(third, prefetch=4)).subscribe(groups.outer)
    upstream: Any = hand.queue._subscriber
    upstream.on_next_batch(list(range(10)))
    assert hand.requests == [4]
    for probe in list(groups.probes.values()):
        probe.request(UNBOUNDED)
    assert sum(hand.requests) == 4 + 4
    assert groups.items == by_rxpy(range(10), third)[0]


def test_stack_stays_flat() -> None:
    length = 20_000
    groups = Groups()
    Flowable.from_iterable(range(length)).pipe(group_by(lambda _: 0, prefetch=1)).subscribe(groups.outer)
    assert groups.items == {0: list(range(length))}
    many = Groups()
    Flowable.from_iterable(range(length)).pipe(group_by(itself, prefetch=3)).subscribe(many.outer)
    assert len(many.probes) == length


# Never a hang.


class Limited(Subscriber[Any]):
    """Takes so many groups at a time, and the next when one has ended, as a flat_map of limited concurrency."""

    def __init__(self, platform: ControlledPlatform, concurrency: int) -> None:
        self._concurrency = concurrency
        self.items: defaultdict[Any, list[Any]] = defaultdict(list)
        self.errors: list[Exception] = []
        self.ended = platform.event()

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        subscription.request(self._concurrency)

    def on_next(self, value: GroupedFlowable[Any, Any]) -> None:
        value.subscribe(self.items[value.key].append, self.on_error, lambda: self._subscription.request(1))

    def on_error(self, error: Exception) -> None:
        self.errors.append(error)
        self.ended.set()

    def on_completed(self) -> None:
        self.ended.set()


@pytest.mark.seeds(20, soak=1000)
@pytest.mark.parametrize("blocking", [False, True], ids=["on one thread", "on two"])
def test_concurrency_below_the_number_of_groups_fails_and_says_why(seed: int, blocking: bool) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        consumer = Limited(platform, 2)
        cancelled: list[str] = []

        def source() -> Iterator[int]:
            try:
                # Group 2 is the third, and most are its.
                yield from itertools.chain([0, 1], itertools.cycle([2, 2, 3, 0]))
            finally:
                cancelled.append("cancelled")

        began = platform.monotonic()
        Flowable.from_iterable(source, blocking=blocking).pipe(group_by(itself, prefetch=16)).subscribe(consumer)
        consumer.ended.wait()
        error = consumer.errors[0]
        assert isinstance(error, StalledGroupsError)
        assert (error.key, error.prefetch) == (2, 16)
        assert error.waiting > 8
        assert "flat_map" in str(error)
        assert "keyed_dispatch" in str(error)
        assert STALL_PATIENCE <= platform.monotonic() - began <= 2 * STALL_PATIENCE
        platform.sleep(1)
        assert cancelled == ["cancelled"]
        # To the two groups, and to the stream of groups, though there is no demand for those that wait.
        assert consumer.errors == [error] * 3

    run(scenario, seed)


@pytest.mark.seeds(10, soak=300)
def test_concurrency_of_the_number_of_groups_is_enough(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        consumer = Limited(platform, 3)
        Flowable.from_iterable(range(60), blocking=True).pipe(group_by(third, prefetch=4)).subscribe(consumer)
        consumer.ended.wait()
        assert consumer.errors == []
        assert consumer.items == by_rxpy(range(60), third)[0]

    run(scenario, seed)


def test_few_items_flow_though_the_concurrency_is_below_the_number_of_groups() -> None:
    """What the account holds till the source's end needs no more; the groups come one after the other."""

    def scenario(platform: ControlledPlatform) -> None:
        consumer = Limited(platform, 1)
        Flowable.from_iterable(range(30)).pipe(group_by(third, prefetch=64)).subscribe(consumer)
        consumer.ended.wait()
        assert (consumer.items, consumer.errors) == (by_rxpy(range(30), third)[0], [])

    run(scenario)


def test_native_flat_map_of_too_little_concurrency_fails_and_one_of_enough_does_not() -> None:
    from rxwow.streams.flat_mapping import flat_map

    def items_of(group: Any) -> Any:
        return group

    def scenario(platform: ControlledPlatform, concurrency: int) -> Any:
        source = Flowable.from_iterable(range(1000)).pipe(
            group_by(fifth, prefetch=64), flat_map(items_of, max_concurrency=concurrency)
        )
        probe = Controlled(platform)
        source.subscribe(probe)
        probe.request(UNBOUNDED)
        probe.ended.wait()
        return probe

    for seed in range(5):
        enough = run(lambda platform: scenario(platform, 5), seed)
        assert (sorted(enough.items), enough.ends) == (list(range(1000)), ["completed"])
        few = run(lambda platform: scenario(platform, 4), seed)
        assert isinstance(few.ends[0], StalledGroupsError)


@pytest.mark.parametrize(
    "operator", [ops.merge(max_concurrent=2), ops.to_list()], ids=["merge that queues groups", "list of groups"]
)
def test_groups_that_are_held_and_not_subscribed_fail_the_stream(operator: Any) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        with pytest.raises(StalledGroupsError):
            Flowable.from_iterable(range(1000)).pipe(group_by(third), operator).run()

    run(scenario)


def test_group_that_is_subscribed_in_time_is_none_the_worse() -> None:
    """A subscription may be on its way; and patience begins anew with each stall."""

    def scenario(platform: ControlledPlatform) -> None:
        held: list[GroupedFlowable[int, int]] = []
        outer = Controlled(platform)
        outer.items = held
        Flowable.from_iterable(range(100)).pipe(group_by(third, prefetch=4)).subscribe(outer)
        outer.request(UNBOUNDED)
        probes: list[Probe] = []
        for group in range(3):
            platform.sleep(0.8 * STALL_PATIENCE)
            assert outer.ends == []
            probes.append(Probe(UNBOUNDED))
            held[group].subscribe(probes[-1])
        assert outer.ends == ["completed"]
        assert [probe.items for probe in probes] == list(by_rxpy(range(100), third)[0].values())

    run(scenario)


def test_group_that_is_just_being_handed_over_is_waited_for() -> None:
    """However long the subscriber takes in `on_next` before it subscribes."""

    def scenario(platform: ControlledPlatform) -> None:
        probes: list[Controlled] = []

        def take(group: GroupedFlowable[int, int]) -> None:
            if group.key == 1:
                platform.sleep(3 * STALL_PATIENCE)
            probes.append(Controlled(platform))
            group.subscribe(probes[-1])
            probes[-1].request(UNBOUNDED)

        def source() -> Iterator[int]:
            yield from (0, 1)
            platform.sleep(1)
            yield from range(2, 60)

        outer = Each(take, demand=1)
        Flowable.from_iterable(source, blocking=True).pipe(group_by(third, prefetch=4)).subscribe(outer)
        platform.sleep(0.5)
        outer.subscription.request(UNBOUNDED)
        for probe in probes:
            probe.ended.wait()
        assert outer.errors == []
        assert [probe.items for probe in probes] == list(by_rxpy(range(60), third)[0].values())

    run(scenario)


def test_nobody_waits_so_nothing_fails() -> None:
    """A subscriber that asks for one group at a time, and for its items later, may take its time."""

    def scenario(platform: ControlledPlatform) -> None:
        outer = Controlled(platform)
        Flowable.from_iterable(range(100)).pipe(group_by(third, prefetch=4)).subscribe(outer)
        outer.request(1)
        platform.sleep(100 * STALL_PATIENCE)
        assert outer.ends == []

    run(scenario)


@pytest.mark.parametrize("waits", ["a group", "the stream of groups"])
def test_whoever_begins_to_wait_for_what_cannot_come_is_told(waits: str) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        probe = Probe()

        def take(group: GroupedFlowable[int, int]) -> None:
            if waits == "a group":
                group.subscribe(probe)
            else:
                held.append(group)

        held: list[GroupedFlowable[int, int]] = []
        outer = Each(take, demand=1)
        source = itertools.chain([0], itertools.repeat(1)) if waits == "a group" else itertools.repeat(0)
        Flowable.from_iterable(source).pipe(group_by(itself, prefetch=4)).subscribe(outer)
        if waits == "a group":
            probe.request(1)
        platform.sleep(10 * STALL_PATIENCE)
        assert outer.errors == []
        if waits == "a group":
            probe.request(1)
        else:
            outer.subscription.request(1)
        platform.sleep(2 * STALL_PATIENCE)
        assert isinstance(outer.errors[0], StalledGroupsError)

    run(scenario)


def test_a_task_for_each_group() -> None:
    """The tasks subscribe when the loop comes to them, long after the account is used up."""

    async def main() -> dict[int, list[int]]:
        got: dict[int, list[int]] = defaultdict(list)

        async def consume(group: GroupedFlowable[int, int]) -> None:
            async for item in group:
                got[group.key].append(item)

        async with asyncio.TaskGroup() as tasks:
            async for group in Flowable.from_iterable(range(3000)).pipe(group_by(hundredth, prefetch=32)):
                tasks.create_task(consume(group))
        return got

    assert asyncio.run(main()) == by_rxpy(range(3000), hundredth)[0]


# Groups that nobody wants.


def records() -> int:
    gc.collect()
    return sum(isinstance(thing, Group) for thing in gc.get_objects())


class Each(Subscriber[Any]):
    """Calls an action with each group, and keeps none."""

    def __init__(self, action: Callable[[Any], object], demand: int = UNBOUNDED) -> None:
        self._action = action
        self._demand = demand
        self.completions = 0
        self.errors: list[Exception] = []

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        subscription.request(self._demand)

    def on_next(self, value: Any) -> None:
        self._action(value)

    def on_error(self, error: Exception) -> None:
        self.errors.append(error)

    def on_completed(self) -> None:
        self.completions += 1


class Cancelling(Probe):
    """Takes one item."""

    def on_next(self, value: Any) -> None:
        super().on_next(value)
        self.cancel()


def subscribed_and_cancelled(group: GroupedFlowable[Any, Any]) -> None:
    group.subscribe(Probe()).dispose()


def cancelled_after_an_item(group: GroupedFlowable[Any, Any]) -> None:
    group.subscribe(Cancelling(1))


def dropped(group: GroupedFlowable[Any, Any]) -> None:
    pass


@pytest.mark.parametrize("action", [subscribed_and_cancelled, cancelled_after_an_item, dropped])
def test_a_dead_group_leaves_its_key_and_nothing_else(action: Callable[[Any], None]) -> None:
    length = 20_000
    before = records()
    left: list[int] = []
    taken: list[int] = []

    def source() -> Iterator[int]:
        yield from range(length)
        left.append(records())
        # Dead groups don't come back.
        yield from range(length)

    def take(group: GroupedFlowable[int, int]) -> None:
        taken.append(group.key)
        action(group)

    outer = Each(take)
    Flowable.from_iterable(source).pipe(group_by(itself)).subscribe(outer)
    assert outer.completions == 1
    assert taken == list(range(length))
    assert left[0] - before <= 2 * 256
    assert records() == before


def test_items_of_a_group_that_is_dropped_at_once_are_not_held() -> None:
    class Item:
        pass

    hand = Hand()
    hand.flowable.pipe(group_by(lambda _: 0)).subscribe(Each(dropped))
    for _ in range(2):
        items = [Item()]
        gone = weakref.ref(items[0])
        hand.send(items.pop())
        assert gone() is None


def test_groups_that_were_dropped_later_are_noticed_while_the_stream_stands_still() -> None:
    """On another thread, where nothing tells of it: long before patience is at its end."""

    def scenario(platform: ControlledPlatform) -> None:
        held: list[GroupedFlowable[int, int]] = []
        probe = Probe(UNBOUNDED)

        def take(group: GroupedFlowable[int, int]) -> None:
            if group.key == 0:
                group.subscribe(probe)
            else:
                held.append(group)

        outer = Each(take)
        Flowable.from_iterable(range(99)).pipe(group_by(third, prefetch=8)).subscribe(outer)
        platform.sleep(0.1 * STALL_PATIENCE)
        completions = outer.completions
        held.clear()
        platform.sleep(0.3 * STALL_PATIENCE)
        assert (completions, outer.completions) == (0, 1)
        assert probe.items == list(range(0, 99, 3))

    run(scenario)


def test_groups_in_a_cycle_are_collected_before_the_stream_fails() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        def take(group: Any) -> None:
            if group.key == 0:
                group.subscribe(probe)
            else:
                group.itself = group

        probe = Probe(UNBOUNDED)
        outer = Each(take)
        completions: list[int] = []
        gc.disable()
        try:
            Flowable.from_iterable(range(99)).pipe(group_by(third, prefetch=8)).subscribe(outer)
            completions.append(outer.completions)
            platform.sleep(STALL_PATIENCE + 1)
        finally:
            gc.enable()
        assert (completions, outer.completions, outer.errors) == ([0], 1, [])
        assert probe.items == list(range(0, 99, 3))

    run(scenario)


def test_items_of_a_group_that_is_gone_go_back_to_the_account() -> None:
    hand = Hand()
    groups = Groups(0)
    hand.flowable.pipe(group_by(third, prefetch=3)).subscribe(groups.outer)
    hand.send(0, 3, 1)
    assert hand.requests == [3]
    groups.probes[0].cancel()
    assert hand.requests == [3, 2]
    hand.send(6, 9)
    assert hand.requests == [3, 2, 2]
    assert not groups.probes[0].items


# Cancel, and the end.


def test_cancelling_the_stream_of_groups_leaves_the_groups_running() -> None:
    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(third)).subscribe(groups.outer)
    hand.send(0, 1)
    groups.outer.cancel()
    hand.send(2, 3, 4)
    groups.probes[0].cancel()
    hand.send(6, 7)
    assert hand.cancels == 0
    assert groups.items == {0: [0, 3], 1: [1, 4, 7]}
    groups.probes[1].cancel()
    assert hand.cancels == 1


def test_cancel_of_the_stream_without_groups_cancels_the_source() -> None:
    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(third)).subscribe(groups.outer)
    groups.outer.cancel()
    assert hand.cancels == 1
    assert hand.queue.releases == 1


def test_cancel_inside_on_subscribe_subscribes_nothing() -> None:
    class Refusing(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.cancel()

    hand = Hand()
    hand.flowable.pipe(group_by(third)).subscribe(Refusing())
    assert not hasattr(hand, "queue")


def test_keys_that_come_after_the_cancel_are_not_remembered() -> None:
    before = records()
    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(itself)).subscribe(groups.outer)
    hand.send(0)
    groups.outer.cancel()
    table: dict[Any, Any] = hand.queue._subscriber._table.groups  # type: ignore[attr-defined]
    hand.send(*range(100))
    assert list(table) == [0]
    assert records() - before == 1


def test_group_that_is_found_as_the_stream_is_cancelled_holds_nothing() -> None:
    def element(number: int) -> int:
        if number == 1:
            groups.outer.cancel()
        return number

    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(third, element, prefetch=1)).subscribe(groups.outer)
    hand.send(0, 1, 3, 4, 6)
    assert groups.items == {0: [0, 3, 6]}


def test_item_of_a_group_that_is_cancelled_just_then_goes_back_to_the_account() -> None:
    def element(number: int) -> int:
        if number == 3:
            groups.probes[0].cancel()
        return number

    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(third, element, prefetch=1)).subscribe(groups.outer)
    hand.send(0, 3, 1)
    assert groups.items == {0: [0], 1: [1]}


def test_group_that_waits_for_demand_comes_with_its_items_and_the_end() -> None:
    groups = Groups(of_groups=1)
    Flowable.from_iterable(range(9)).pipe(group_by(third)).subscribe(groups.outer)
    assert list(groups.probes) == [0]
    assert groups.probes[0].completions == 1
    assert not groups.outer.ended
    groups.outer.request(2)
    assert groups.items == by_rxpy(range(9), third)[0]
    assert groups.outer.completions == 1


@pytest.mark.parametrize("error", [None, SourceError("late")])
def test_group_that_is_subscribed_after_the_end_still_has_its_items(error: Exception | None) -> None:
    held: list[GroupedFlowable[int, int]] = []
    hand = Hand()
    hand.flowable.pipe(group_by(third)).subscribe(Each(held.append))
    hand.send(0, 1, 3)
    hand.queue.complete() if error is None else hand.queue.fail(error)
    probe = Probe(1)
    held[0].subscribe(probe)
    assert (probe.items, probe.ended) == ([0], False)
    probe.request(1)
    assert (probe.items, probe.errors) == ([0, 3], [] if error is None else [error])
    assert probe.ended
    # What is held no more is not kept by what is still here.
    before = records()
    held.clear()
    assert records() == before - 1


def test_second_subscriber_of_a_group_is_refused() -> None:
    held: list[GroupedFlowable[int, int]] = []
    hand = Hand()
    hand.flowable.pipe(group_by(third)).subscribe(Each(held.append))
    hand.send(0)
    first, second = Probe(UNBOUNDED), Probe(UNBOUNDED)
    held[0].subscribe(first)
    held[0].subscribe(second)
    hand.send(3)
    assert first.items == [0, 3]
    assert second.items == []
    assert isinstance(second.errors[0], UsageError)
    assert "share()" in str(second.errors[0])


def test_group_of_a_stream_that_was_given_up_refuses_its_subscriber() -> None:
    held: list[GroupedFlowable[int, int]] = []
    hand = Hand()
    outer = Each(held.append)
    hand.flowable.pipe(group_by(third)).subscribe(outer)
    hand.send(0)
    outer.subscription.cancel()
    assert hand.cancels == 1
    probe = Probe(UNBOUNDED)
    held[0].subscribe(probe)
    assert "cancelled" in str(probe.errors[0])


def test_invalid_request_of_a_group_is_its_own_end() -> None:
    hand = Hand()
    groups = Groups()
    hand.flowable.pipe(group_by(third)).subscribe(groups.outer)
    hand.send(0, 1)
    groups.probes[0].subscription.request(0)
    hand.send(3, 4)
    assert isinstance(groups.probes[0].errors[0], InvalidRequestError)
    assert groups.items == {0: [0], 1: [1, 4]}
    groups.outer.subscription.request(-1)
    hand.send(7)
    assert isinstance(groups.outer.errors[0], InvalidRequestError)
    assert groups.items == {0: [0], 1: [1, 4, 7]}
    groups.probes[1].cancel()
    assert hand.cancels == 1


def test_interrupt_in_the_key_mapper_goes_on_and_is_told() -> None:
    def key(number: int) -> int:
        if number == 5:
            raise KeyboardInterrupt
        return number % 3

    groups = Groups()
    hand = Hand()
    hand.flowable.pipe(group_by(key)).subscribe(groups.outer)
    with pytest.raises(KeyboardInterrupt):
        hand.send(*range(9))
    assert all(probe.errors for probe in (groups.outer, *groups.probes.values()))
    assert groups.items == by_rxpy(range(5), third)[0]


def test_interrupt_in_the_subscriber_of_a_group_is_told_to_the_others() -> None:
    def take(group: GroupedFlowable[int, int]) -> None:
        probe = probes[group.key] = Raising(UNBOUNDED) if group.key == 1 else Probe(UNBOUNDED)
        group.subscribe(probe)

    class Raising(Probe):
        def on_next(self, value: Any) -> None:
            if value == 4:
                raise KeyboardInterrupt
            super().on_next(value)

    probes: dict[int, Probe] = {}
    hand = Hand()
    outer = Each(take)
    hand.flowable.pipe(group_by(third)).subscribe(outer)
    hand.send(0, 1)
    with pytest.raises(KeyboardInterrupt):
        hand.send(4)
    assert len(probes[0].errors) == len(outer.errors) == 1


@pytest.mark.parametrize("bad", [{"key_mapper": 1}, {"element_mapper": 1}, {"prefetch": 0}, {"prefetch": True}])
def test_bad_arguments_are_refused_at_once(bad: dict[str, Any]) -> None:
    anything: Any = group_by
    with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
        anything(**{"key_mapper": third, **bad})


# Races.


@pytest.mark.seeds(60, soak=10_000)
def test_a_source_and_groups_on_threads_of_their_own(seed: int) -> None:
    """Every item arrives, once, in order; a lost wake-up would be a deadlock of the run, or a stall."""

    def scenario(platform: ControlledPlatform) -> None:
        probes: dict[int, Controlled] = {}
        found = {key: platform.event() for key in range(3)}

        def take(group: GroupedFlowable[int, int]) -> None:
            probe = probes[group.key] = Controlled(platform)
            group.subscribe(probe)
            found[group.key].set()

        outer = Each(take)
        Flowable.from_iterable(range(24), blocking=True).pipe(
            group_by(third, prefetch=platform.random.choice([1, 2, 5]))
        ).subscribe(outer)

        def ask(key: int) -> Callable[[], None]:
            def asking() -> None:
                found[key].wait()
                each(probes[key].request, [1, 2, 1, 2, 1, 2])()

            return asking

        join(platform, *map(ask, range(3)))
        for probe in probes.values():
            probe.ended.wait()
        assert {key: probe.items for key, probe in probes.items()} == by_rxpy(range(24), third)[0]
        assert all(probe.ends == ["completed"] for probe in probes.values())

    run(scenario, seed)


@pytest.mark.seeds(60, soak=10_000)
def test_cancels_at_the_same_time_as_items(seed: int) -> None:
    """The account balances, the source is cancelled, and nothing is held."""

    def scenario(platform: ControlledPlatform) -> None:
        hand = Hand(platform)
        probes: dict[int, Controlled] = {}

        def take(group: GroupedFlowable[int, int]) -> None:
            probe = Controlled(platform)
            group.subscribe(probe)
            probe.request(platform.random.choice([1, 5]))
            probes[group.key] = probe

        outer = Each(take)
        hand.flowable.pipe(group_by(third, prefetch=6)).subscribe(outer)
        hand.send(0, 1)
        at_work: Any = hand.queue._subscriber
        join(
            platform,
            each(hand.queue.put, range(2, 12)),
            probes[0].subscription.cancel,
            lambda: probes[1].request(3),
            probes[1].subscription.cancel,
            outer.subscription.cancel,
        )
        for probe in probes.values():
            probe.subscription.cancel()
        account = at_work.account
        assert (account.held, account.stuck, account.withheld, account.hungry) == (0, 0, 0, 0)
        assert at_work.outlet.unhanded == 0
        assert hand.cancels == 1
        for key, probe in probes.items():
            assert probe.items == list(range(12))[key::3][: len(probe.items)]

    run(scenario, seed)


@pytest.mark.seeds(60, soak=10_000)
def test_subscribing_at_the_same_time_as_the_end(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        hand = Hand(platform)
        held: list[GroupedFlowable[int, int]] = []
        hand.flowable.pipe(group_by(third)).subscribe(Each(held.append))
        hand.send(0)
        probe, late = Controlled(platform), Controlled(platform)

        def subscribe(probe: Controlled) -> Callable[[], None]:
            def subscribing() -> None:
                held[0].subscribe(probe)
                probe.request(UNBOUNDED)

            return subscribing

        def end() -> None:
            hand.queue.put(3)
            hand.queue.complete()

        join(platform, subscribe(probe), subscribe(late), end)
        served = [(probe.items, probe.ends[0]) for probe in (probe, late)]
        assert ([0, 3], "completed") in served
        assert [isinstance(end, UsageError) for _, end in served].count(True) == 1

    run(scenario, seed)


@pytest.mark.seeds(250, soak=5000)
def test_groups_dropped_and_subscribed_on_another_thread(seed: int) -> None:
    """Whatever becomes of the others, the group that is subscribed gets all of its items."""

    def scenario(platform: ControlledPlatform) -> None:
        held: list[GroupedFlowable[int, int]] = []
        found = platform.event()
        probe = Controlled(platform)

        def take(group: GroupedFlowable[int, int]) -> None:
            held.append(group)
            found.set()

        def consume() -> None:
            while not probe.ended.is_set():
                found.wait(0.1)
                found.clear()
                while held:
                    group = held.pop()
                    if group.key == 1:
                        group.subscribe(probe)
                        probe.request(UNBOUNDED)
                    del group

        Flowable.from_iterable(range(30), blocking=True).pipe(group_by(third, prefetch=3)).subscribe(Each(take))
        join(platform, consume)
        assert probe.items == list(range(1, 30, 3))
        assert probe.ends == ["completed"]

    run(scenario, seed)


def test_real_threads() -> None:
    """Each group is taken on a thread of its own, a few items at a time."""
    length = 20_000
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads: list[threading.Thread] = []
    probes: dict[int, Probe] = {}

    def take(group: GroupedFlowable[int, int]) -> None:
        probe = probes[group.key] = Probe()
        group.subscribe(probe)

        def ask() -> None:
            for count in itertools.count(1):
                probe.request(7)
                probe.wait_for_items(7 * count)
                if probe.ended:
                    return

        threads.append(threading.Thread(target=ask))
        threads[-1].start()

    outer = Probe(UNBOUNDED, take)
    try:
        Flowable.from_iterable(range(length), blocking=True).pipe(group_by(fifth)).subscribe(outer)
        outer.wait_for_end()
        for thread in threads:
            thread.join(PATIENCE_S)
    finally:
        sys.setswitchinterval(interval)
    for probe in probes.values():
        probe.check()
    assert {key: probe.items for key, probe in probes.items()} == by_rxpy(range(length), fifth)[0]
