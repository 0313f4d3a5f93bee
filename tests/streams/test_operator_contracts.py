"""Every operator with demand of its own, and chains of lifted ones, keep the rules of Reactive Streams."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar, Final

import reactivex
from reactivex import operators as ops
from reactivex.scheduler import EventLoopScheduler

from rxwow import operators as rxwow_ops
from rxwow.streams.constants import empty, throw
from rxwow.streams.flowable import Flowable
from rxwow.streams.inlet import Inlet, InletClosedError
from rxwow.streams.iterables import from_iterable
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.publishers import from_publisher
from rxwow.streams.publishing import to_publisher
from rxwow.testing.contracts import PublisherContract
from tests.streams.sources import SourceError
from tests.streams.test_source_contracts import MOST_KEPT, awaiting, awaiting_and_failing, failing

LONG_S: Final = 60.0
NOT_ASKED_FOR: Final = "what the source sends without being asked for is not kept"
SLOWEST: Final = "the slowest subscriber sets the pace of all"


def numbers(count: int) -> Flowable[Any]:
    return from_iterable(range(count))


def blocking_numbers(count: int) -> Flowable[Any]:
    return from_iterable(range(count), blocking=True)


def awaited_numbers(count: int) -> Flowable[Any]:
    return Flowable.from_async_iterable(lambda: awaiting(count))


def third(number: int) -> int:
    return number % 3


def itself(value: Any) -> Any:
    return value


def is_even(number: int) -> bool:
    return number % 2 == 0


def half(number: int) -> int:
    return number // 2


def inverse(number: int) -> float:
    return 1 / number


class Inline(PublisherContract, abstract=True):
    """An operator on a source that emits on the thread that asks."""

    emits_asynchronously = False

    def create_failed_publisher(self) -> Any:
        return self.operator(3)(from_iterable(failing))

    def create_publisher(self, count: int) -> Any:
        return self.operator(count)(numbers(count))

    def operator(self, count: int) -> Callable[[Flowable[Any]], Flowable[Any]]:
        """Make an operator that gives as many items as it gets."""
        raise NotImplementedError


class Blocking(Inline, abstract=True):
    """An operator on a source with a thread of its own."""

    emits_asynchronously = True

    def create_failed_publisher(self) -> Any:
        return self.operator(3)(from_iterable(failing, blocking=True))

    def create_publisher(self, count: int) -> Any:
        return self.operator(count)(blocking_numbers(count))


class Awaited(Inline, abstract=True):
    """An operator on a source with an event loop of its own."""

    emits_asynchronously = True

    def create_failed_publisher(self) -> Any:
        return self.operator(1)(Flowable.from_async_iterable(awaiting_and_failing))

    def create_publisher(self, count: int) -> Any:
        return self.operator(count)(awaited_numbers(count))


class Scheduled(Inline, abstract=True):
    """An operator that has the items emitted on a scheduler with a thread."""

    emits_asynchronously = True
    # It has no thread while there is nothing to do.
    scheduler: ClassVar = EventLoopScheduler(exit_if_empty=True)


# Boundaries.


class TestObserveOn(Scheduled):
    def operator(self, count: int) -> Any:
        return rxwow_ops.observe_on(self.scheduler, prefetch=8)


class TestObserveOnOfAThread(Scheduled, Blocking):
    def operator(self, count: int) -> Any:
        return rxwow_ops.observe_on(self.scheduler)


class TestLimitRate(Inline):
    def operator(self, count: int) -> Any:
        return rxwow_ops.limit_rate(8)


class TestSubscribeOn(Scheduled):
    def operator(self, count: int) -> Any:
        return rxwow_ops.subscribe_on(self.scheduler)


# Sources that are asked for everything.


class TestOnBackpressureBuffer(Inline):
    max_count = MOST_KEPT

    def operator(self, count: int) -> Any:
        return rxwow_ops.on_backpressure_buffer(MOST_KEPT)


class TestOnBackpressureBufferOfAThread(Blocking):
    max_count = MOST_KEPT

    def operator(self, count: int) -> Any:
        return rxwow_ops.on_backpressure_buffer(MOST_KEPT)


class TestOnBackpressureDrop(Inline):
    leaves_out: ClassVar = {"3.8": NOT_ASKED_FOR, "3.17": NOT_ASKED_FOR}

    def operator(self, count: int) -> Any:
        return rxwow_ops.on_backpressure_drop(str)


class TestOnBackpressureLatest(Inline):
    leaves_out: ClassVar = {"3.8": NOT_ASKED_FOR, "3.17": NOT_ASKED_FOR}

    def operator(self, count: int) -> Any:
        return rxwow_ops.on_backpressure_latest()


class TestOnBackpressureLatestOfFew(Inline):
    """Here nothing is dropped: one item is asked for, and one kept."""

    max_count = 2

    def operator(self, count: int) -> Any:
        return rxwow_ops.on_backpressure_latest()


class TestOnBackpressureError(Inline):
    """It fails at an item that wasn't asked for, so there is one."""

    max_count = 1

    def operator(self, count: int) -> Any:
        return rxwow_ops.on_backpressure_error()


# One to many, and many to one.


def threes(count: int) -> Callable[[int], range]:
    """What each third number stands for, so that there are `count` in all."""
    return lambda start: range(start, min(start + 3, count))


class TestFlatMap(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return from_iterable(range(0, count, 3)).pipe(rxwow_ops.flat_map(threes(count)))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(rxwow_ops.flat_map(lambda _: from_iterable(failing)))


class TestFlatMapToLoops(PublisherContract):
    def create_publisher(self, count: int) -> Any:
        async def three(start: int) -> AsyncIterator[int]:
            for number in threes(count)(start):
                await asyncio.sleep(0)
                yield number

        return from_iterable(range(0, count, 3)).pipe(rxwow_ops.flat_map(three, max_concurrency=2))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(rxwow_ops.flat_map(lambda _: awaiting_and_failing()))


class TestConcatMap(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return from_iterable(range(0, count, 3)).pipe(rxwow_ops.concat_map(threes(count)))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(rxwow_ops.concat_map(lambda _: from_iterable(failing)))


class TestConcatMapOfAThread(Blocking):
    def operator(self, count: int) -> Any:
        return rxwow_ops.concat_map(lambda number: from_iterable([number]))


class TestMerge(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return from_iterable(range(0, count, 2)).pipe(rxwow_ops.merge(from_iterable(range(1, count, 2))))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(rxwow_ops.merge(from_iterable(failing)))


class TestMergeOfThreads(PublisherContract):
    def create_publisher(self, count: int) -> Any:
        odd = from_iterable(range(1, count, 2), blocking=True)
        return from_iterable(range(0, count, 2), blocking=True).pipe(rxwow_ops.merge(odd))

    def create_failed_publisher(self) -> Any:
        return blocking_numbers(3).pipe(rxwow_ops.merge(from_iterable(failing, blocking=True)))


class TestConcat(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        first = count // 3
        return numbers(first).pipe(rxwow_ops.concat(empty(), from_iterable(range(first, count))))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(rxwow_ops.concat(from_iterable(failing)))


class TestConcatOfAThread(PublisherContract):
    def create_publisher(self, count: int) -> Any:
        first = min(count, 5)
        return numbers(first).pipe(rxwow_ops.concat(from_iterable(range(first, count), blocking=True)))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(rxwow_ops.concat(from_iterable(failing, blocking=True)))


class TestZip(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return numbers(count).pipe(rxwow_ops.zip(numbers(count)))

    def create_failed_publisher(self) -> Any:
        return from_iterable(failing).pipe(rxwow_ops.zip(numbers(9)))


class TestZipOfThreads(PublisherContract):
    def create_publisher(self, count: int) -> Any:
        return blocking_numbers(count).pipe(rxwow_ops.zip(awaited_numbers(count)))

    def create_failed_publisher(self) -> Any:
        return from_iterable(failing, blocking=True).pipe(rxwow_ops.zip(numbers(9)))


class TestMapAsync(PublisherContract):
    @staticmethod
    async def awaited(number: int) -> int:
        if number % 3 == 0:
            await asyncio.sleep(0)
        return number

    def create_publisher(self, count: int) -> Any:
        return numbers(count).pipe(rxwow_ops.map_async(self.awaited))

    def create_failed_publisher(self) -> Any:
        return from_iterable(failing).pipe(rxwow_ops.map_async(self.awaited))


class TestMapAsyncOfAThread(Blocking):
    def operator(self, count: int) -> Any:
        return rxwow_ops.map_async(TestMapAsync.awaited, ordered=False)


# Groups.


class TestGroupByFlattened(Inline):
    def operator(self, count: int) -> Any:
        return lambda source: source.pipe(rxwow_ops.group_by(third), rxwow_ops.flat_map(itself))


class TestGroupByFlattenedOfAThread(Blocking):
    def operator(self, count: int) -> Any:
        return lambda source: source.pipe(rxwow_ops.group_by(third, prefetch=8), rxwow_ops.flat_map(itself))


class TestGroups(Inline):
    """The subscriber keeps all groups, so the account has room for as many."""

    max_count = MOST_KEPT

    def operator(self, count: int) -> Any:
        return rxwow_ops.group_by(itself, prefetch=MOST_KEPT + 1)


class Groups(Subscriber[Any]):
    """Takes the first group."""

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        subscription.request(1)

    def on_next(self, value: Any) -> None:
        self.first = value

    def on_error(self, error: Exception) -> None:
        pass

    def on_completed(self) -> None:
        pass


class TestGroup(PublisherContract):
    """The items of one group, of which nobody wants the others."""

    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return self._group_of(numbers(count)) if count else empty()

    def create_failed_publisher(self) -> Any:
        return self._group_of(from_iterable(failing))

    def _group_of(self, source: Flowable[Any]) -> Any:
        def publish(subscriber: Subscriber[Any], scheduler: Any) -> Subscription:
            groups = Groups()
            source.pipe(rxwow_ops.group_by(lambda _: 0)).subscribe(groups)
            subscription: Subscription = groups.first._publish(subscriber, scheduler)
            # The group goes on; else the source would be asked for more groups when it is cancelled.
            groups.subscription.cancel()
            return subscription

        return Flowable(publish)


# Sharing.


class TestShare(Inline):
    leaves_out: ClassVar = {"1.10": SLOWEST, "1.11": SLOWEST}

    def operator(self, count: int) -> Any:
        return rxwow_ops.share()


class TestShareOfAThread(Blocking):
    leaves_out: ClassVar = {"1.10": SLOWEST, "1.11": SLOWEST}

    def operator(self, count: int) -> Any:
        return rxwow_ops.share()


# Time and failures.


class TestTimeout(Inline):
    def operator(self, count: int) -> Any:
        return rxwow_ops.timeout(LONG_S)


class TestTimeoutOfAThread(Blocking):
    def operator(self, count: int) -> Any:
        return rxwow_ops.timeout(LONG_S)


class TestTimeoutWithAnother(PublisherContract):
    """Each subscriber gets its items from the other source."""

    def create_publisher(self, count: int) -> Any:
        return Flowable.never().pipe(rxwow_ops.timeout(0.001, other=numbers(count)))

    def create_failed_publisher(self) -> Any:
        return Flowable.never().pipe(rxwow_ops.timeout(0.001))


class TestRetry(PublisherContract):
    """The source fails the first time, after an item."""

    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        attempts = 0

        def attempt() -> Iterator[int]:
            nonlocal attempts
            attempts += 1
            if attempts % 2 == 0 or count == 0:
                yield from range(1, count)
            else:
                yield 0
                raise SourceError

        return from_iterable(attempt).pipe(rxwow_ops.retry(2))

    def create_failed_publisher(self) -> Any:
        return throw(SourceError()).pipe(rxwow_ops.retry(2))


# In and out.


class TestInlet(PublisherContract):
    """All is there before the subscriber comes."""

    emits_asynchronously = False
    max_count = MOST_KEPT

    def create_publisher(self, count: int) -> Any:
        inlet: Inlet[int] = Inlet(MOST_KEPT)
        for number in range(count):
            inlet.offer(number)
        inlet.complete()
        return inlet

    def create_failed_publisher(self) -> Any:
        inlet: Inlet[int] = Inlet()
        inlet.fail(SourceError())
        return inlet


class TestInletOfAThread(PublisherContract):
    def create_publisher(self, count: int) -> Any:
        inlet: Inlet[int] = Inlet(4)

        def put() -> None:
            try:
                for number in range(count):
                    inlet.put_wait(number)
            except InletClosedError:
                return
            inlet.complete()

        threading.Thread(target=put, daemon=True).start()
        return inlet

    def create_failed_publisher(self) -> Any:
        inlet: Inlet[int] = Inlet()
        threading.Thread(target=lambda: inlet.fail(SourceError())).start()
        return inlet


class TestThereAndBack(Inline):
    def operator(self, count: int) -> Any:
        return lambda source: from_publisher(to_publisher(source))


class TestThereAndBackOfALoop(Awaited):
    def operator(self, count: int) -> Any:
        return lambda source: from_publisher(to_publisher(source))


# Lifted.


class TestLiftedMapAndFilter(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return numbers(2 * count).pipe(ops.filter(is_even), ops.map(half))

    def create_failed_publisher(self) -> Any:
        return numbers(3).pipe(ops.map(inverse))


class TestLiftedMapOfALoop(Awaited):
    def operator(self, count: int) -> Any:
        return lambda source: source.pipe(ops.map(str), ops.filter(bool))


class TestLiftedFlatMap(Inline):
    def operator(self, count: int) -> Any:
        return lambda source: source.pipe(ops.map(str), ops.flat_map(reactivex.of), ops.map(int))


class TestLiftedFlatMapOfAThread(Blocking):
    def operator(self, count: int) -> Any:
        return lambda source: source.pipe(ops.flat_map(reactivex.of), ops.filter(lambda _: True))


class TestLiftedRepeat(PublisherContract):
    emits_asynchronously = False

    def create_publisher(self, count: int) -> Any:
        return numbers(1).pipe(ops.repeat(count)) if count else empty()

    def create_failed_publisher(self) -> Any:
        return from_iterable(failing).pipe(ops.repeat(3))


class TestLiftedObserveOn(Scheduled):
    def operator(self, count: int) -> Any:
        return lambda source: source.pipe(ops.observe_on(self.scheduler), ops.map(itself))
