import asyncio
import gc
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

from rxwow.errors import UsageError
from rxwow.streams.flowable import Flowable
from rxwow.streams.guard import running_loop
from rxwow.streams.iteration import PREFETCH, REPLENISH, _Iterator, iterate, stream
from rxwow.streams.protocols import Subscriber, Subscription
from tests.streams.probe import PATIENCE_S, Log, eventually
from tests.streams.sources import Source, SourceError, every_source


class ByHand(Subscription):
    """A source whose signals the test gives, from whichever thread."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.cancelled = threading.Event()
        self.subscriber: Any = None
        self.subscribed_on: list[asyncio.AbstractEventLoop | None] = []

    def flowable(self) -> Flowable[Any]:
        def publish(subscriber: Subscriber[Any], _: Any) -> Subscription:
            self.subscribed_on.append(running_loop())
            self.subscriber = subscriber
            subscriber.on_subscribe(self)
            return self

        return Flowable(publish)

    def request(self, n: int) -> None:
        self.requests.append(n)

    def cancel(self) -> None:
        self.cancelled.set()


def closing(closed: list[str]) -> Iterator[int]:
    try:
        yield from itertools.count()
    finally:
        closed.append("closed")


def on_a_thread(action: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=action, args=arguments)
    thread.start()
    return thread


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_S))


# Items and ends.


@every_source
@given(length=st.integers(0, 300))
def test_gives_all_items_in_order(source: Source, length: int) -> None:
    async def main() -> list[Any]:
        return [item async for item in source.of(range(length))]

    assert run(main()) == list(range(length))


@every_source
@given(length=st.integers(0, 150))
def test_error_is_raised_after_the_items_before_it(source: Source, length: int) -> None:
    error = SourceError()
    got: list[Any] = []

    async def main() -> None:
        async for item in source.of(range(length), error):
            got.append(item)  # noqa: PERF401 - what came before the error is looked at

    with pytest.raises(SourceError) as raised:
        run(main())
    assert raised.value is error
    assert got == list(range(length))


def test_end_is_raised_again_and_the_error_once() -> None:
    async def main() -> None:
        items = iterate(Flowable.throw(SourceError()))
        with pytest.raises(SourceError):
            await anext(items)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(items)

    run(main())


def test_falsy_items_are_items() -> None:
    """F73."""

    async def main() -> list[Any]:
        return [item async for item in Flowable.from_iterable([0, None, "", False])]

    assert run(main()) == [0, None, "", False]


# Demand.


def test_asks_ahead_and_replenishes_at_three_quarters() -> None:
    """F05: nothing before the first `__anext__`; F10: in batches."""

    async def main() -> None:
        source = ByHand()
        items = iterate(source.flowable())
        assert source.subscribed_on == []
        first = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        assert source.subscribed_on == [asyncio.get_running_loop()]
        assert source.requests == [PREFETCH] == [64]
        source.subscriber.on_next_batch(list(range(PREFETCH)))
        assert await first == 0
        for number in range(1, REPLENISH):
            assert await anext(items) == number
        assert source.requests == [PREFETCH]
        assert await anext(items) == REPLENISH == 48
        assert source.requests == [PREFETCH, REPLENISH]

    run(main())


def test_items_that_are_there_do_not_go_through_the_loop() -> None:
    async def main() -> None:
        items = iterate(Flowable.from_iterable(range(1000)))
        assert await anext(items) == 0
        turns = itertools.count()
        loop = asyncio.get_running_loop()

        def turn() -> None:
            next(turns)
            loop.call_soon(turn)

        turn()
        for number in range(1, 1000):
            assert await anext(items) == number
        # The loop had its turn once for each time more was asked for, and not for each item.
        assert next(turns) <= 2 * 1000 // REPLENISH + 2

    run(main())


def test_consumer_that_never_waits_leaves_the_loop_its_turns() -> None:
    async def main() -> None:
        other = asyncio.Event()
        asyncio.get_running_loop().call_soon(other.set)
        async for _ in Flowable.from_iterable(itertools.count()):
            if other.is_set():
                break

    run(main())


def test_loop_is_called_once_each_time_the_iterator_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        source = ByHand()
        items = iterate(source.flowable())
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        calls = 0
        original = loop.call_soon_threadsafe

        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return original(*arguments, **options)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counting)

        def emit() -> None:
            for number in range(PREFETCH):
                source.subscriber.on_next(number)

        on_a_thread(emit).join(PATIENCE_S)
        assert calls == 1
        assert await waiting == 0
        for number in range(1, REPLENISH):
            assert await anext(items) == number
        assert calls == 1

    run(main())


# Cancel.


def test_break_cancels_the_source() -> None:
    closed: list[str] = []

    async def main() -> None:
        async for item in Flowable.from_iterable(lambda: closing(closed)):
            if item == 100:
                break
        await eventually(lambda: closed, collecting=True)

    run(main())
    assert closed == ["closed"]


@pytest.mark.parametrize("how", ["end", "error", "cancel", "aclose", "return"])
def test_stream_cancels_the_source_however_it_is_left(how: str) -> None:
    closed: list[str] = []

    async def leave() -> None:
        async with Flowable.from_iterable(lambda: closing(closed)).stream() as items:
            if how == "aclose":
                await items.aclose()  # type: ignore[attr-defined]
            async for item in items:
                if item == 100:
                    break
            if how == "return":
                return
            if how == "error":
                raise SourceError
            if how == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
        # Certain means now, and not when something is collected.
        assert closed == (["closed"] if how != "aclose" else [])

    async def main() -> None:
        try:
            await leave()
        except (SourceError, asyncio.CancelledError):
            assert how in {"error", "cancel"}

    run(main())
    assert closed == (["closed"] if how != "aclose" else [])


def test_stream_that_is_never_iterated_subscribes_to_nothing() -> None:
    async def main() -> None:
        source = ByHand()
        async with stream(source.flowable()) as items:
            pass
        assert source.subscribed_on == []
        with pytest.raises(StopAsyncIteration):
            await anext(items)

    run(main())


def test_close_ends_a_task_that_waits() -> None:
    async def main() -> None:
        source = ByHand()
        items = _Iterator(source.flowable())
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await items.aclose()
        await items.aclose()
        with pytest.raises(StopAsyncIteration):
            await waiting
        assert source.cancelled.is_set()
        source.subscriber.on_next(1)
        with pytest.raises(StopAsyncIteration):
            await anext(items)

    run(main())


def test_collected_iterator_cancels_though_the_source_lives() -> None:
    """The source holds the buffer, and the buffer not the iterator."""

    async def main() -> None:
        source = ByHand()
        items: list[AsyncIterator[Any]] = [iterate(source.flowable())]
        waiting = asyncio.ensure_future(anext(items[0]))
        await asyncio.sleep(0)
        source.subscriber.on_next(1)
        assert await waiting == 1
        # In a cycle, so that only the collector finds it.
        items.append(items)  # type: ignore[arg-type]
        del items, waiting
        await eventually(source.cancelled.is_set, collecting=True)
        assert source.subscriber is not None

    run(main())


def test_iterator_collected_after_its_loop_has_ended_cancels_too() -> None:
    source = ByHand()
    items = iterate(source.flowable())

    async def main(items: AsyncIterator[Any]) -> None:
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        source.subscriber.on_next(1)
        assert await waiting == 1

    run(main(items))
    del items
    gc.collect()
    assert source.cancelled.wait(PATIENCE_S)


def test_iterator_collected_while_its_loop_is_stopped_cancels_too() -> None:
    """Nobody would run what was called into a loop that is stopped for ever, though not closed."""
    source = ByHand()
    items = iterate(source.flowable())
    loop = asyncio.new_event_loop()

    async def main(items: AsyncIterator[Any]) -> None:
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        source.subscriber.on_next(1)
        assert await waiting == 1

    loop.run_until_complete(main(items))
    del items
    gc.collect()
    assert source.cancelled.wait(PATIENCE_S)
    loop.close()


def test_collection_on_a_thread_that_holds_the_source_lock_does_not_hang() -> None:
    """A finalizer may interrupt any code; one that took a lock there would wait for itself."""

    async def main() -> None:
        subscriptions: list[Any] = []
        subject: Subject[int] = Subject()
        inner = Flowable.from_observable(subject, on_overflow="buffer")

        def publish(subscriber: Subscriber[Any], scheduler: Any) -> Subscription:
            subscriptions.append(inner._publish(subscriber, scheduler))
            return subscriptions[0]  # type: ignore[no-any-return]

        items = iterate(Flowable(publish))
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        subject.on_next(1)
        assert await waiting == 1
        with subscriptions[0]._lock:
            del items, waiting
            gc.collect()
        await eventually(lambda: subscriptions[0].ended)

    run(main())


def test_source_that_has_ended_needs_no_cancel() -> None:
    threads = set(threading.enumerate())

    async def main() -> list[int]:
        return [item async for item in Flowable.from_iterable([1, 2])]

    assert run(main()) == [1, 2]
    gc.collect()
    assert set(threading.enumerate()) <= threads


# Tasks that are cancelled.


def test_task_that_is_cancelled_while_it_waits_loses_no_item() -> None:
    """F35: the item and the cancel may come at the same moment."""

    async def main() -> None:
        source = ByHand()
        items = iterate(source.flowable())
        got: list[int] = []
        for number in range(200):
            waiting = asyncio.ensure_future(anext(items))
            await asyncio.sleep(0)
            if number % 2:
                # The waiter is resolved, and the task not yet resumed.
                source.subscriber.on_next(number)
                waiting.cancel()
            else:
                waiting.cancel()
                source.subscriber.on_next(number)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            got.append(await anext(items))
        assert got == list(range(200))

    run(main())


def test_timeouts_against_a_thread_lose_no_item() -> None:
    """F35, with a real race."""

    async def main() -> list[Any]:
        goes_on = threading.Semaphore(0)

        def source() -> Iterator[int]:
            for number in range(300):
                assert goes_on.acquire(timeout=PATIENCE_S)
                yield number

        got: list[int] = []
        items = iterate(Flowable.from_iterable(source, blocking=True))
        while len(got) < 300:
            goes_on.release()
            try:
                async with asyncio.timeout(0):
                    got.append(await anext(items))
            except TimeoutError:
                await asyncio.sleep(0)
            except StopAsyncIteration:
                break
        return got

    assert run(main()) == list(range(300))


def test_two_tasks_at_a_time_are_refused() -> None:
    async def main() -> None:
        source = ByHand()
        items = iterate(source.flowable())
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="a second task waits for an item of the same iterator"):
            await anext(items)
        source.subscriber.on_next(1)
        assert await waiting == 1

    run(main())


def test_another_loop_is_refused() -> None:
    source = ByHand()
    items = iterate(source.flowable())

    async def first() -> Any:
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        source.subscriber.on_next(1)
        return await waiting

    assert run(first()) == 1
    with pytest.raises(UsageError, match="stays on the event loop"):
        run(items.__anext__())


# The loop goes away.


def test_source_that_emits_after_the_loop_was_closed_is_cancelled(log: Log) -> None:
    """F44: one warning, and nothing raised in the thread that emits."""
    source = ByHand()
    items = iterate(source.flowable())
    loop = asyncio.new_event_loop()
    coroutine: Any = items.__anext__()
    waiting: Any = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    for number in range(5):
        source.subscriber.on_next(number)
    source.subscriber.on_completed()
    assert source.cancelled.is_set()
    assert log.levels == ["WARNING"]
    # asyncio would complain, and rightly, of what the test leaves behind.
    waiting._log_destroy_pending = False
    coroutine.close()


def test_subscribe_that_raises_is_raised() -> None:
    def publish(*_: Any) -> Any:
        raise SourceError

    async def main() -> None:
        with pytest.raises(SourceError):
            await anext(iterate(Flowable[int](publish)))

    run(main())
