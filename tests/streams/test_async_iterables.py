import asyncio
import contextvars
import gc
import threading
import warnings
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from reactivex.scheduler import CurrentThreadScheduler, NewThreadScheduler, ThreadPoolScheduler

from rxwow.errors import InvalidArgumentError, RxwowError
from rxwow.streams.async_emitter import MOST_ITEMS_A_TURN, _running
from rxwow.streams.async_iterables import from_async_iterable
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe, eventually, wait_until_ended
from tests.streams.sources import SourceError, loop_on_a_thread


@pytest.fixture(autouse=True)
def _no_task_of_a_run_that_was_cut_off() -> None:
    # A run on controlled threads that fails ends them at once, and with them the loops of its tasks.
    _running.clear()


class Waiting:
    """An async iterator of which each item is let go by the test; it writes down what happens to it."""

    def __init__(self, *, closing: Callable[[], Any] | None = None) -> None:
        self.happened: list[str] = []
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.asked, self.closed = threading.Event(), threading.Event()
        self._closing = closing
        self._items: deque[Any] = deque()
        self._news: asyncio.Future[None] | None = None
        self._inside = 0

    def __aiter__(self) -> "Waiting":
        return self

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def end(self, error: BaseException) -> None:
        """Put the end, from another thread, when it is waited for."""
        assert self.asked.wait(PATIENCE_S)
        (loop,) = self.loops
        loop.call_soon_threadsafe(self.put, error)

    async def __anext__(self) -> Any:
        loop = asyncio.get_running_loop()
        self.loops.add(loop)
        self._inside += 1
        assert self._inside == 1, "two calls at a time"
        self.happened.append("asked")
        self.asked.set()
        try:
            while not self._items:
                self._news = loop.create_future()
                await self._news
        except asyncio.CancelledError:
            self.happened.append("stopped")
            raise
        finally:
            self._inside -= 1
        item = self._items.popleft()
        if isinstance(item, BaseException):
            raise item
        return item

    async def aclose(self) -> None:
        self.loops.add(asyncio.get_running_loop())
        self.happened.append("closing")
        if self._closing is not None:
            await self._closing()
        self.happened.append("closed")
        self.closed.set()


def type_name(value: Any) -> str:
    return type(value).__name__


async def count_to(last: int) -> AsyncIterator[int]:
    for number in range(last):
        yield number


# Where it runs.


def test_runs_on_the_running_loop_of_the_subscribing_thread() -> None:
    async def main() -> None:
        waiting = Waiting()
        probe = Probe(2)
        from_async_iterable(lambda: waiting).subscribe(probe)
        waiting.put(1)
        await eventually(lambda: probe.items == [1])
        assert waiting.loops == {asyncio.get_running_loop()}
        assert set(probe.threads) == {threading.get_ident()}
        probe.cancel()
        await eventually(waiting.closed.is_set)

    threads = set(threading.enumerate())
    asyncio.run(main())
    assert set(threading.enumerate()) <= threads


def test_runs_on_the_loop_that_the_subscriber_offers() -> None:
    """F42: an idle loop is woken at once."""
    waiting = Waiting()
    with loop_on_a_thread() as loop:
        loop.set_debug(True)
        probe = Probe()
        probe.offered_loop = loop
        from_async_iterable(lambda: waiting).subscribe(probe)
        probe.request(1)
        loop.call_soon_threadsafe(waiting.put, 1)
        probe.wait_for_items(1)
        probe.cancel()
        assert waiting.closed.wait(PATIENCE_S)
        assert waiting.loops == {loop}


def test_running_loop_goes_before_the_offered_one() -> None:
    async def main(offered: asyncio.AbstractEventLoop) -> None:
        probe = Probe(1)
        probe.offered_loop = offered
        from_async_iterable(lambda: count_to(1)).subscribe(probe)
        await eventually(lambda: probe.items == [0])
        assert set(probe.threads) == {threading.get_ident()}
        probe.cancel()

    with loop_on_a_thread() as offered:
        asyncio.run(main(offered))


@pytest.mark.parametrize(
    "scheduler", [None, CurrentThreadScheduler(), NewThreadScheduler(), ThreadPoolScheduler(1)], ids=type_name
)
def test_scheduler_with_threads_of_its_own_goes_before_the_running_loop(scheduler: Any) -> None:
    async def main() -> None:
        threads: list[int] = []
        from_async_iterable(lambda: count_to(1)).subscribe(
            lambda _: threads.append(threading.get_ident()), scheduler=scheduler
        )
        await eventually(lambda: threads)
        stays = scheduler is None or isinstance(scheduler, CurrentThreadScheduler)
        assert (threads == [threading.get_ident()]) is stays

    asyncio.run(main())


@pytest.mark.parametrize("end", ["end", "cancel", "error"])
def test_own_loop_and_its_thread_end_with_the_subscription(end: str) -> None:
    waiting = Waiting()
    probe = Probe(1)
    from_async_iterable(lambda: waiting).subscribe(probe)
    if end == "cancel":
        probe.cancel()
    else:
        waiting.end(StopAsyncIteration() if end == "end" else SourceError())
        probe.wait_for_end()
    wait_until_ended(prefix="rxwow-source")
    assert all(loop.is_closed() for loop in waiting.loops)


def test_own_loop_ends_what_the_iterable_left_behind() -> None:
    left: list[str] = []

    async def leaving() -> AsyncIterator[int]:
        async def background() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                left.append("ended")

        task = asyncio.get_running_loop().create_task(background())
        yield 1
        left.append("left" if not task.done() else "done")

    assert from_async_iterable(leaving).run() == 1
    wait_until_ended(prefix="rxwow-source")
    assert left == ["left", "ended"]


# Demand.


def test_one_call_at_a_time_and_only_on_demand() -> None:
    """F05."""
    waiting = Waiting()
    with loop_on_a_thread() as loop:
        probe = Probe()
        probe.offered_loop = loop
        from_async_iterable(lambda: waiting).subscribe(probe)
        for number in range(5):
            loop.call_soon_threadsafe(waiting.put, number)
        probe.request(2)
        probe.wait_for_items(2)
        probe.request(1)
        probe.wait_for_items(3)
        probe.cancel()
        wait_until_ended(prefix="rxwow-source")
    assert waiting.happened.count("asked") == 3


def test_items_that_are_there_come_in_batches() -> None:
    """F10."""
    probe = BatchProbe(UNBOUNDED)
    from_async_iterable(lambda: count_to(1000)).subscribe(probe)
    probe.wait_for_end()
    assert max(probe.batches) == MOST_ITEMS_A_TURN
    assert len(probe.batches) < 50


def test_iterator_that_never_waits_leaves_the_loop_its_turns() -> None:
    async def endless() -> AsyncIterator[int]:
        while True:
            yield 0

    async def main() -> None:
        probe = Probe(UNBOUNDED)
        from_async_iterable(endless).subscribe(probe)
        await eventually(lambda: len(probe.items) > 3 * MOST_ITEMS_A_TURN)
        probe.cancel()
        probe.check()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


# Cancel and end.


def test_cancel_stops_what_waits_and_then_closes() -> None:
    waiting = Waiting()
    probe = Probe(1)
    from_async_iterable(lambda: waiting).subscribe(probe)
    assert waiting.asked.wait(PATIENCE_S)
    probe.cancel()
    assert waiting.closed.wait(PATIENCE_S)
    assert waiting.happened == ["asked", "stopped", "closing", "closed"]
    assert not probe.ended


def test_closing_may_wait() -> None:
    """What cancels the wait for an item must not cancel the closing too."""

    async def closing() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    for end in ("cancel", "end", "error"):
        waiting = Waiting(closing=closing)
        probe = Probe(2)
        from_async_iterable(lambda waiting=waiting: waiting).subscribe(probe)  # type: ignore[misc]
        if end == "cancel":
            assert waiting.asked.wait(PATIENCE_S)
            probe.cancel()
        else:
            waiting.end(SourceError() if end == "error" else StopAsyncIteration())
            probe.wait_for_end()
        wait_until_ended(prefix="rxwow-source")
        assert waiting.happened[-1] == "closed"


def test_cancel_never_blocks() -> None:
    """F43: not from the loop's own thread, nor while the loop is busy, nor when closing takes for ever."""

    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        waiting = Waiting(closing=for_ever)
        probe = Probe(1)
        from_async_iterable(lambda: waiting).subscribe(probe)
        await eventually(lambda: "asked" in waiting.happened)
        probe.cancel()
        await eventually(lambda: "closing" in waiting.happened)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_cancel_while_the_loop_is_busy_returns() -> None:
    with loop_on_a_thread() as loop:
        waiting = Waiting()
        probe = Probe(1)
        probe.offered_loop = loop
        busy, goes_on = threading.Event(), threading.Event()

        def hold() -> None:
            busy.set()
            assert goes_on.wait(PATIENCE_S)

        from_async_iterable(lambda: waiting).subscribe(probe)
        loop.call_soon_threadsafe(hold)
        assert busy.wait(PATIENCE_S)
        probe.cancel()
        goes_on.set()


def test_iterator_of_the_user_is_not_closed() -> None:
    waiting = Waiting()
    waiting.put(1)
    waiting.put(StopAsyncIteration())
    assert from_async_iterable(waiting).run() == 1
    wait_until_ended(prefix="rxwow-source")
    assert "closing" not in waiting.happened


def test_closing_that_raises_is_logged(log: Log) -> None:
    async def closing() -> None:
        raise SourceError

    waiting = Waiting(closing=closing)
    waiting.put(StopAsyncIteration())
    probe = Probe(1)
    from_async_iterable(lambda: waiting).subscribe(probe)
    wait_until_ended(prefix="rxwow-source")
    assert probe.completions == 1
    assert log.levels == ["ERROR"]


@pytest.mark.parametrize("raised", [SourceError(), SystemExit(3), GeneratorExit(), KeyboardInterrupt()], ids=repr)
def test_what_the_iterable_raises_is_the_error(raised: BaseException) -> None:
    """F31: the loop's thread goes on, whatever it is."""
    waiting = Waiting()
    waiting.put(1)
    waiting.put(raised)
    with loop_on_a_thread() as loop:
        probe = Probe(5)
        probe.offered_loop = loop
        from_async_iterable(lambda: waiting).subscribe(probe)
        probe.wait_for_end()
        assert waiting.closed.wait(PATIENCE_S)
        assert loop.is_running()
    assert probe.items == [1]
    assert probe.errors[0] is raised or (
        isinstance(probe.errors[0], RxwowError) and probe.errors[0].__cause__ is raised
    )


def test_factory_that_raises_fails_the_stream() -> None:
    def factory() -> AsyncIterator[int]:
        raise SourceError

    probe = Probe(1)
    from_async_iterable(factory).subscribe(probe)
    probe.wait_for_end()
    assert [type(error) for error in probe.errors] == [SourceError]
    wait_until_ended(prefix="rxwow-source")


# The loop goes away.


def test_loop_that_is_shut_down_fails_the_stream() -> None:
    """F44: `asyncio.run` cancels the task; that is not the subscriber's own cancel."""
    waiting = Waiting()
    probe = Probe(1)

    async def main() -> None:
        from_async_iterable(lambda: waiting).subscribe(probe)
        await eventually(lambda: "asked" in waiting.happened)

    asyncio.run(main())
    assert len(probe.errors) == 1
    assert "was cancelled before the end" in str(probe.errors[0])
    assert waiting.closed.is_set()


def lose_loop(probe: Probe, waiting: Waiting) -> asyncio.AbstractEventLoop:
    """Subscribe on a loop that is stopped and closed under way, without an `asyncio.run` that would end its tasks."""
    loop = asyncio.new_event_loop()
    probe.offered_loop = loop
    from_async_iterable(lambda: waiting).subscribe(probe)
    loop.run_until_complete(eventually(lambda: "asked" in waiting.happened))
    # asyncio would complain, and rightly, of a task that is left pending.
    probe.subscription._task._log_destroy_pending = False  # type: ignore[attr-defined]
    return loop


def test_loop_that_was_closed_fails_the_stream_at_the_next_request(log: Log) -> None:
    """F44: one warning, one clear error, nothing raised in the thread that asks."""
    probe = Probe(1)
    lose_loop(probe, Waiting()).close()
    for _ in range(5):
        probe.request(1)
    probe.cancel()
    assert len(probe.errors) == 1
    assert "the event loop that ran" in str(probe.errors[0])
    assert "was closed before the end" in str(probe.errors[0])
    assert log.levels == ["WARNING"]
    assert _running == set()


def test_loop_that_was_closed_with_a_drain_due_fails_the_stream_all_the_same(log: Log) -> None:
    """The callback that was to drain is gone with the loop."""
    probe = Probe(1)
    loop = lose_loop(probe, Waiting())
    probe.request(1)
    loop.close()
    probe.request(1)
    assert len(probe.errors) == 1
    assert log.levels == ["WARNING"]


def test_cancel_after_the_loop_was_closed_is_quiet(log: Log) -> None:
    probe = Probe(1)
    lose_loop(probe, Waiting()).close()
    probe.cancel()
    probe.request(1)
    assert (probe.ended, log.records, _running) == (False, [], set())


def test_cancel_after_the_loop_was_closed_with_a_drain_due_lets_go_of_everything(log: Log) -> None:
    gone = threading.Event()
    probe = Probe(1)
    weakref.finalize(probe, gone.set)
    loop = lose_loop(probe, Waiting())
    probe.request(1)
    loop.close()
    probe.cancel()
    subscription = probe.subscription
    del probe
    assert gone.wait(PATIENCE_S)
    assert (log.records, _running) == ([], set())
    subscription.cancel()


# Ownership and context.


def test_task_lives_until_it_ends_though_nobody_holds_it() -> None:
    """F47."""

    async def main() -> None:
        waiting = Waiting()
        got: list[Any] = []
        from_async_iterable(lambda: waiting).subscribe(got.append)
        await eventually(lambda: "asked" in waiting.happened, collecting=True)
        for _ in range(10):
            gc.collect()
            await asyncio.sleep(0)
        waiting.put(1)
        waiting.put(StopAsyncIteration())
        await eventually(lambda: got == [1], collecting=True)
        await eventually(waiting.closed.is_set)
        await eventually(lambda: not _running)

    asyncio.run(main())


def test_runs_in_the_context_of_the_subscription() -> None:
    """F48: on whichever thread demand comes from."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []
    probe = Probe(0, lambda _: seen.append(variable.get()))

    async def items() -> AsyncIterator[int]:
        seen.append(variable.get())
        variable.set("changed")
        # The demand of another thread comes just before the item, so it is that thread which calls for the drain.
        thread = threading.Thread(target=contextvars.Context().run, args=(probe.request, 1))
        thread.start()
        thread.join(PATIENCE_S)
        yield 1

    async def main() -> None:
        variable.set("subscribed")
        from_async_iterable(items).subscribe(probe)
        variable.set("later")
        await asyncio.to_thread(probe.request, 2)
        await eventually(lambda: probe.ended)
        assert variable.get() == "later"

    asyncio.run(main())
    assert seen == ["subscribed", "subscribed"]


def test_eager_tasks_do_no_harm() -> None:
    factory = getattr(asyncio, "eager_task_factory", None)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        probe = Probe(1, lambda _: probe.request(1))
        from_async_iterable(lambda: count_to(100)).subscribe(probe)
        await eventually(lambda: probe.ended)
        assert probe.items == list(range(100))
        probe.check()

    asyncio.run(main())


# Arguments.


def test_async_iterable_itself_will_do() -> None:
    assert from_async_iterable(count_to(3)).run() == 2


@pytest.mark.parametrize("value", [5, None, [1]], ids=repr)
def test_other_arguments_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be an async iterable or a function"):
        from_async_iterable(value)


def test_factory_of_something_else_fails_the_stream() -> None:
    probe = Probe(1)
    from_async_iterable(lambda: [1]).subscribe(probe)  # type: ignore[arg-type, return-value]
    probe.wait_for_end()
    assert [type(error) for error in probe.errors] == [TypeError]
    wait_until_ended(prefix="rxwow-source")


def test_construction_is_inert() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_async_iterable(lambda: count_to(1))
        gc.collect()
