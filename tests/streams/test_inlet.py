"""Inlet: what is pushed in comes out as it is asked for, whoever pushes."""

import asyncio
import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.scheduler import CurrentThreadScheduler

from rxwow.errors import BlockingCallError, InvalidArgumentError, InvalidRequestError, UsageError
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import allow_waiting, forbid_waiting
from rxwow.streams.inlet import Inlet, InletClosedError
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe, eventually
from tests.streams.sources import SourceError
from tests.streams.test_schedules import Controlled, each, join

both_ways = pytest.mark.parametrize("probe_class", [Probe, BatchProbe], ids=["singly", "in batches"])


class Model:
    """What an inlet does, if all is done on one thread."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.waiting: deque[int] = deque()
        self.emitted: list[int] = []
        self.demand = 0
        self.subscribed = False
        self.cancelled = False
        self.end: str | None = None

    @property
    def over(self) -> bool:
        return self.cancelled or self.end is not None

    def offer(self, item: int) -> bool:
        if self.over or len(self.waiting) >= self.capacity:
            return False
        self.waiting.append(item)
        self.flow()
        return True

    def flow(self) -> None:
        while self.waiting and self.demand:
            self.demand -= 1
            self.emitted.append(self.waiting.popleft())

    def cancel(self) -> None:
        if self.told_end is None:
            self.cancelled = True
            self.waiting.clear()

    @property
    def told_end(self) -> str | None:
        return self.end if self.subscribed and not self.waiting and not self.cancelled else None


operations = st.lists(
    st.one_of(
        st.sampled_from(["offer", "offer", "offer", "subscribe", "complete", "fail", "cancel"]), st.integers(1, 5)
    ),
    max_size=30,
)


class Both:
    """An inlet and its model, of which each does what the other does."""

    def __init__(self, capacity: int, probe: Probe) -> None:
        self.inlet: Inlet[int] = Inlet(capacity)
        self.model = Model(capacity)
        self.probe = probe

    def do(self, operation: str | int, number: int) -> None:
        if operation == "offer":
            assert self.inlet.offer(number) is self.model.offer(number)
        elif operation in {"complete", "fail"}:
            self._end(str(operation))
        elif operation == "subscribe":
            if not self.model.subscribed:
                self.inlet.subscribe(self.probe)
                self.model.subscribed = True
        elif self.model.subscribed:
            self._from_below(operation)

    def _end(self, end: str) -> None:
        if end == "complete":
            self.inlet.complete()
        else:
            self.inlet.fail(SourceError())
        if not self.model.over:
            self.model.end = end

    def _from_below(self, operation: str | int) -> None:
        if operation == "cancel":
            self.probe.cancel()
            self.model.cancel()
        elif isinstance(operation, int):
            self.probe.request(operation)
            if not self.model.cancelled:
                self.model.demand += operation
                self.model.flow()

    def check(self) -> None:
        assert self.inlet.ended is self.model.over
        assert self.probe.items == self.model.emitted
        ends = ["complete"] * self.probe.completions + ["fail" for _ in self.probe.errors]
        assert ends == ([] if self.model.told_end is None else [self.model.told_end])
        self.probe.check()


@both_ways
@given(capacity=st.integers(1, 4), operations=operations)
def test_behaves_as_a_bounded_queue(probe_class: type[Probe], capacity: int, operations: list[str | int]) -> None:
    both = Both(capacity, probe_class())
    for number, operation in enumerate(operations):
        both.do(operation, number)
        both.check()


def test_pipes_as_any_flowable() -> None:
    inlet: Inlet[int] = Inlet()
    assert isinstance(inlet, Flowable)
    for number in range(5):
        assert inlet.offer(number)
    inlet.complete()
    assert inlet.run() == 4


def test_items_that_wait_come_after_a_plain_observer_has_its_subscription() -> None:
    inlet: Inlet[int] = Inlet()
    for number in range(5):
        inlet.offer(number)
    got: list[int] = []
    subscriptions: list[Any] = []

    def take(item: int) -> None:
        got.append(item)
        if item == 2:
            subscriptions[0].dispose()

    def subscribe(*_: Any) -> None:
        subscriptions.append(inlet.subscribe(take))

    # Inside a trampoline, as operators subscribe.
    CurrentThreadScheduler.singleton().schedule(subscribe)
    assert got == [0, 1, 2]
    assert inlet.ended


def test_item_is_emitted_on_the_thread_that_pushes_or_asks() -> None:
    inlet: Inlet[int] = Inlet()
    probe = Probe(1)
    inlet.subscribe(probe)
    pushing = threading.Thread(target=lambda: [inlet.offer(1), inlet.offer(2)])
    pushing.start()
    pushing.join()
    probe.request(1)
    assert probe.threads == [pushing.ident, threading.get_ident()]


@both_ways
def test_pushing_and_asking_inside_on_next_keeps_the_stack_flat(probe_class: type[Probe]) -> None:
    inlet: Inlet[int] = Inlet(capacity=1)

    def on_item(item: int) -> None:
        if item < 20_000:
            assert inlet.offer(item + 1)
            probe.request(1)

    probe = probe_class(1, on_item)
    inlet.subscribe(probe)
    inlet.offer(0)
    assert len(probe.items) == 20_001
    probe.check()


def test_second_subscriber_is_refused() -> None:
    inlet: Inlet[int] = Inlet()
    first, second, third = Probe(5), Probe(5), Probe(5)
    inlet.subscribe(first)
    inlet.subscribe(second)
    assert [type(error) for error in second.errors] == [UsageError]
    assert "one subscriber" in str(second.errors[0])
    inlet.offer(1)
    assert (first.items, second.items) == ([1], [])
    first.cancel()
    inlet.subscribe(third)
    assert [type(error) for error in third.errors] == [UsageError]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("complete", r"complete\(\) was called"),
        ("fail", r"fail\(\) was called"),
        ("cancel", "the subscriber has cancelled"),
        ("invalid request", "the subscriber has cancelled"),
        ("raises", "the subscriber has cancelled"),
    ],
)
def test_nothing_is_taken_after_the_end(end: str, reason: str) -> None:
    def fail(_: Any) -> None:
        raise SourceError

    inlet: Inlet[int] = Inlet(capacity=1)
    probe = Probe(1, fail if end == "raises" else None)
    inlet.subscribe(probe)
    if end == "complete":
        inlet.complete()
    elif end == "fail":
        inlet.fail(SourceError())
    elif end == "cancel":
        probe.cancel()
    elif end == "raises":
        inlet.offer(1)
    else:
        probe.subscription.request(0)
        assert [type(error) for error in probe.errors] == [InvalidRequestError]
    assert inlet.ended
    assert not inlet.offer(1)
    with pytest.raises(InletClosedError, match=reason):
        asyncio.run(inlet.put(1))
    with pytest.raises(InletClosedError, match=reason):
        inlet.put_wait(1)
    # A second end changes nothing.
    inlet.complete()
    inlet.fail(SourceError())
    with pytest.raises(InletClosedError, match=reason):
        inlet.put_wait(1)


def test_nothing_is_held_after_a_cancel() -> None:
    class Item:
        pass

    inlet: Inlet[Item] = Inlet()
    probe = Probe()
    inlet.subscribe(probe)
    item = Item()
    held = weakref.ref(item)
    inlet.offer(item)
    del item
    assert held() is not None
    probe.cancel()
    assert held() is None


# put


@given(capacity=st.integers(1, 4), putters=st.integers(1, 8), requests=st.lists(st.integers(1, 4), max_size=8))
def test_those_who_put_wait_in_their_order(capacity: int, putters: int, requests: list[int]) -> None:
    async def main() -> None:
        inlet: Inlet[int] = Inlet(capacity)
        probe = Probe()
        inlet.subscribe(probe)
        tasks = [asyncio.create_task(inlet.put(number)) for number in range(putters)]
        await settle()
        for n in [0, *requests]:
            if n:
                probe.request(n)
            await settle()
            emitted = min(probe.requested, putters)
            assert probe.items == list(range(emitted))
            done = [task.done() for task in tasks]
            assert done == [number < emitted + capacity for number in range(putters)]
            # What is offered doesn't overtake those who wait.
            if not all(done):
                assert not inlet.offer(100)
        probe.request(UNBOUNDED)
        await asyncio.gather(*tasks)
        assert probe.items == list(range(putters))
        probe.check()

    async def settle() -> None:
        for _ in range(3 * putters + 3):
            await asyncio.sleep(0)

    asyncio.run(main())


def test_nobody_overtakes_one_that_has_room_but_had_no_turn_yet() -> None:
    async def main() -> None:
        inlet: Inlet[int] = Inlet(capacity=1)
        probe = Probe()
        inlet.subscribe(probe)
        inlet.offer(0)
        first = asyncio.create_task(inlet.put(1))
        await asyncio.sleep(0)
        probe.request(1)
        assert not inlet.offer(2)
        second = asyncio.create_task(inlet.put(3))
        probe.request(2)
        await asyncio.gather(first, second)
        assert probe.items == [0, 1, 3]

    asyncio.run(main())


@pytest.mark.parametrize("told", [False, True], ids=["while it waits", "when it was just told to go on"])
@pytest.mark.parametrize("first", [True, False])
def test_put_that_is_cancelled_has_not_put(told: bool, first: bool) -> None:
    async def main() -> None:
        inlet: Inlet[int] = Inlet(capacity=1)
        probe = Probe()
        inlet.subscribe(probe)
        inlet.offer(0)
        tasks = [asyncio.create_task(inlet.put(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        cancelled = tasks[0 if first else 1]
        if told:
            probe.request(1)
        cancelled.cancel()
        await asyncio.sleep(0)
        if not told:
            probe.request(1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert cancelled.cancelled()
        probe.request(5)
        other = tasks[1 if first else 0]
        await asyncio.wait_for(other, PATIENCE_S)
        assert probe.items == [0, 2 if first else 1]
        assert inlet.offer(3)
        assert probe.items[-1] == 3

    asyncio.run(main())


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_those_who_wait_are_told_of_the_end(end: str) -> None:
    async def main() -> None:
        inlet: Inlet[int] = Inlet(capacity=1)
        probe = Probe()
        inlet.subscribe(probe)
        inlet.offer(0)
        tasks = [asyncio.create_task(inlet.put(number)) for number in (1, 2)]
        thread_errors: list[Exception] = []

        def wait() -> None:
            try:
                inlet.put_wait(3)
            except InletClosedError as error:
                thread_errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        await eventually(lambda: len(inlet._putters) == 3)
        if end == "complete":
            inlet.complete()
        elif end == "fail":
            inlet.fail(SourceError())
        else:
            probe.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [InletClosedError] * 2
        await asyncio.to_thread(thread.join, PATIENCE_S)
        assert len(thread_errors) == 1
        probe.request(5)
        assert probe.items == ([] if end == "cancel" else [0])

    asyncio.run(main())


def put_on_a_thread(inlet: Inlet[int], item: int) -> tuple[threading.Event, threading.Thread]:
    """Return when the thread waits, as the second that does."""
    done = threading.Event()

    def put() -> None:
        inlet.put_wait(item)
        done.set()

    thread = threading.Thread(target=put)
    thread.start()
    while len(inlet._putters) < 2:
        assert not done.wait(0.001)
    return done, thread


def test_putter_whose_loop_is_gone_does_not_hold_up_the_next() -> None:
    inlet: Inlet[int] = Inlet(capacity=1)
    probe = Probe()
    inlet.subscribe(probe)
    inlet.offer(0)
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        task = asyncio.create_task(inlet.put(1))
        await asyncio.sleep(0)
        left.append(task)

    left: list[Any] = []
    loop.run_until_complete(leave())
    loop.close()
    done, thread = put_on_a_thread(inlet, 2)
    probe.request(2)
    assert done.wait(PATIENCE_S)
    thread.join()
    assert probe.items == [0, 2]
    left.clear()
    gc.collect()


def test_putter_that_is_collected_when_it_was_told_does_not_hold_up_the_next() -> None:
    inlet: Inlet[int] = Inlet(capacity=1)
    probe = Probe()
    inlet.subscribe(probe)
    inlet.offer(0)
    loop = asyncio.new_event_loop()
    coroutine = inlet.put(1)
    asyncio.set_event_loop(None)

    async def begin() -> None:
        # One step of it by hand, so that nobody but this test holds it.
        coroutine.send(None)

    loop.run_until_complete(begin())
    done, thread = put_on_a_thread(inlet, 2)
    # Told on a loop that will not turn any more.
    probe.request(1)
    with inlet._guard:
        # As the collector may come at any time, also while the lock is held.
        coroutine.close()
    assert done.wait(PATIENCE_S)
    thread.join()
    loop.close()
    probe.request(1)
    assert probe.items == [0, 2]


def test_putters_of_several_loops_and_threads() -> None:
    inlet: Inlet[tuple[int, int]] = Inlet(capacity=2)
    probe = Probe(1, lambda _: probe.request(1))

    async def put_all(number: int) -> None:
        for index in range(100):
            await inlet.put((number, index))

    def put_all_waiting(number: int) -> None:
        for index in range(100):
            inlet.put_wait((number, index))

    actions: list[Callable[[], object]] = [
        lambda: asyncio.run(put_all(0)),
        lambda: asyncio.run(put_all(1)),
        lambda: put_all_waiting(2),
        lambda: put_all_waiting(3),
    ]
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    inlet.subscribe(probe)
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    for number in range(4):
        assert [index for putter, index in probe.items if putter == number] == list(range(100))
    probe.check()


# put_wait


def test_put_wait_is_refused_where_it_would_hang() -> None:
    inlet: Inlet[int] = Inlet(capacity=1)

    async def on_a_loop() -> None:
        with pytest.raises(BlockingCallError, match="event loop of this thread; use 'await"):
            inlet.put_wait(1)

    asyncio.run(on_a_loop())
    forbid_waiting(threading.get_ident(), "worker 1")
    try:
        with pytest.raises(BlockingCallError, match="worker 1"):
            inlet.put_wait(1)
    finally:
        allow_waiting(threading.get_ident())
    assert inlet.offer(0)


def test_put_wait_is_refused_inside_on_next(log: Log) -> None:
    inlet: Inlet[int] = Inlet(capacity=1)
    inlet.subscribe(Probe(5, on_item=inlet.put_wait))
    inlet.offer(1)
    assert log.levels == ["ERROR"]
    record = log.records[0].exc_info
    assert record is not None
    assert isinstance(record[1], BlockingCallError)
    assert "empties the inlet" in str(record[1])


# Races


class Pushers:
    """Everything that may be done to an inlet at the same time; `ends` says how it comes to its end."""

    def __init__(self, platform: ControlledPlatform) -> None:
        self.platform = platform
        self.random = platform.random
        self.ends = self.random.choice(["none", "complete", "cancel"])
        self.inlet: Inlet[tuple[int, int]] = Inlet(self.random.randrange(1, 4))
        self.subscriber = Controlled(platform)
        self.inlet.subscribe(self.subscriber)
        self.taken: list[tuple[int, int]] = []

    def offer(self) -> None:
        self.taken.extend((0, index) for index in range(3) if self.inlet.offer((0, index)))

    def put_wait(self, number: int) -> None:
        for index in range(3):
            try:
                self.inlet.put_wait((number, index))
            except InletClosedError:
                assert self.ends != "none"
                return
            self.taken.append((number, index))

    def put(self) -> None:
        loop = self.platform.event_loop()
        try:
            loop.run_until_complete(self._put())
        finally:
            loop.close()

    async def _put(self) -> None:
        for index in range(3):
            try:
                async with asyncio.timeout(self.random.choice([0, 1, 1000])):
                    await self.inlet.put((9, index))
            except TimeoutError:
                continue
            except InletClosedError:
                assert self.ends != "none"
                return
            self.taken.append((9, index))

    def ask(self) -> None:
        for _ in range(5):
            self.platform.sleep(self.random.choice([0, 1]))
            self.subscriber.request(2)
        self.subscriber.request(100)

    def end(self) -> None:
        self.platform.sleep(self.random.choice([0, 1, 2]))
        if self.ends == "complete":
            self.inlet.complete()
        elif self.ends == "cancel":
            self.subscriber.subscription.cancel()


@pytest.mark.seeds(200, soak=10_000)
def test_pushing_putting_asking_and_ends_at_the_same_time(seed: int) -> None:
    """What was taken is emitted once and in the order of its pusher; nobody is left waiting, or the run would report a
    deadlock.
    """

    def scenario(platform: ControlledPlatform) -> None:
        all_ = Pushers(platform)
        waiting = [lambda number=number: all_.put_wait(number) for number in (1, 2)]
        join(platform, all_.offer, *waiting, all_.put, all_.ask, all_.end)
        emitted = all_.subscriber.items
        if all_.ends == "cancel":
            assert set(emitted) <= set(all_.taken)
        else:
            assert sorted(emitted) == sorted(all_.taken)
            assert all_.subscriber.ends == (["completed"] if all_.ends == "complete" else [])
        for number in (0, 1, 2, 9):
            of_one = [index for pusher, index in emitted if pusher == number]
            assert of_one == sorted(of_one)
        assert not all_.inlet._putters
        assert not all_.inlet._items

    run(scenario, seed)


@pytest.mark.seeds(60, soak=3000)
def test_one_of_two_subscribers_is_refused(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        inlet: Inlet[int] = Inlet()
        subscribers = [Controlled(platform), Controlled(platform)]
        join(
            platform,
            *[lambda one=one: inlet.subscribe(one) for one in subscribers],
            each(inlet.offer, (1, 2)),
            inlet.complete,
        )
        refused = [one for one in subscribers if one.ends and isinstance(one.ends[0], UsageError)]
        assert len(refused) == 1
        (served,) = [one for one in subscribers if one is not refused[0]]
        served.request(5)
        assert served.ends == ["completed"]
        assert served.items in ([], [1], [1, 2])

    run(scenario, seed)


# Arguments


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "1", True, None], ids=repr)
def test_capacity_must_be_a_count(capacity: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="capacity must be a whole number of at least 1"):
        Inlet(capacity)


def test_error_must_be_one() -> None:
    with pytest.raises(InvalidArgumentError, match="error must be an Exception"):
        Inlet[int]().fail("no")  # type: ignore[arg-type]
