"""The recorder notes what ran, and finds every break of a key's order and nothing else."""

import asyncio
import functools
import gc
import inspect
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.scheduler import ThreadPoolScheduler
from reactivex.subject import Subject

from rxwow import Backoff, Flowable, KeyedExecutor, blocking, keyed_dispatch
from rxwow.errors import InvalidArgumentError, InvalidKeyError
from rxwow.execution.blocking import is_blocking
from rxwow.observability import TimelineRecorder
from rxwow.testing import ControlledPlatform, DeterministicExecutor, run

Message = tuple[str, int]

PATIENCE_S = 20


def key_of(message: Message) -> str:
    return message[0]


def place_of(message: Message) -> int:
    return message[1]


def noted(recorder: TimelineRecorder, handler: Callable[[Message], Any]) -> Callable[[Message], Any]:
    return recorder.wrap(handler, key=key_of, order=place_of)


def judged(recorder: TimelineRecorder) -> list[tuple[Message, bool]]:
    return [(run.message, run.violates) for run in recorder.runs]


def test_a_run_says_what_ran_where_and_how_long() -> None:
    recorder = TimelineRecorder()

    def scenario(platform: ControlledPlatform) -> None:
        handler = noted(recorder, lambda message: platform.sleep(message[1]))
        platform.sleep(7)
        thread = platform.thread(lambda: handler(("a", 2)), "somebody")
        thread.start()
        thread.join()
        handler(("b", 3))

    run(scenario)
    first, second = recorder.runs
    assert (first.key, first.message, first.order, first.thread) == ("a", ("a", 2), 2, "somebody")
    # Times are of the platform's clock, from the first beginning on.
    assert (first.began, first.ended, second.began, second.ended) == (0, 2, 2, 5)
    assert (first.failed, first.violates) == (False, False)
    assert second.thread == threading.current_thread().name


def test_it_is_empty_before_anything_ran() -> None:
    recorder = TimelineRecorder()
    noted(recorder, print)
    assert recorder.runs == ()
    assert recorder.violations == 0


def test_a_thread_pool_that_lets_one_key_overlap_is_found_out() -> None:
    recorder = TimelineRecorder()
    both = threading.Barrier(2, timeout=PATIENCE_S)
    handler = noted(recorder, lambda message: both.wait() if message[0] == "hot" else None)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(handler, [("hot", 0), ("hot", 1), ("cold", 0), ("cold", 1)]))
    assert sum(run.violates for run in recorder.runs if run.key == "hot") == 1
    assert {run.key: run.ended is not None for run in recorder.runs} == {"hot": True, "cold": True}
    assert {run.failed for run in recorder.runs} == {False}


def test_flat_map_that_lets_one_key_overlap_is_found_out() -> None:
    recorder = TimelineRecorder()
    both = threading.Barrier(2, timeout=PATIENCE_S)
    handler = noted(recorder, lambda _: both.wait())
    pool = ThreadPoolScheduler(2)

    def on_pool(message: Message) -> Any:
        return rx.just(message).pipe(ops.map(handler), ops.subscribe_on(pool))

    rx.from_iterable([("hot", 0), ("hot", 1)]).pipe(ops.flat_map(on_pool)).run()
    pool.executor.shutdown()
    assert recorder.violations == 1


def test_a_message_that_comes_late_is_a_violation_and_one_that_comes_again_is_not() -> None:
    recorder = TimelineRecorder()
    handler = noted(recorder, str)
    messages = [("a", 0), ("a", 2), ("b", 1), ("a", 2), ("a", 1), ("a", 3)]
    for message in messages:
        handler(message)
    assert judged(recorder) == [(message, message == ("a", 1)) for message in messages]


def test_without_places_only_overlaps_count() -> None:
    recorder = TimelineRecorder()
    handler = recorder.wrap(str, key=key_of)
    for message in [("a", 1), ("a", 0)]:
        handler(message)
    assert recorder.violations == 0
    assert [run.order for run in recorder.runs] == [None, None]


Step = tuple[str, int]


@given(st.lists(st.tuples(st.sampled_from(["begin", "end"]), st.integers(0, 5)), max_size=40))
def test_the_violations_are_those_of_a_plain_count(steps: list[Step]) -> None:
    recorder = TimelineRecorder()
    handler = noted(recorder, lambda _: Future())
    running: list[tuple[str, Future[None]]] = []
    begun: list[Message] = []
    expected: list[tuple[Message, bool]] = []
    for what, number in steps:
        if what == "end":
            if running:
                running.pop(number % len(running))[1].set_result(None)
            continue
        message = ("ab"[number % 2], number // 2)
        late = any(other[0] == message[0] and other[1] > message[1] for other in begun)
        expected.append((message, late or message[0] in [key for key, _ in running]))
        begun.append(message)
        running.append((message[0], handler(message)))
    assert judged(recorder) == expected
    assert recorder.violations == sum(violates for _, violates in expected)
    assert sum(run.ended is None for run in recorder.runs) == len(running)


@pytest.mark.seeds(30, soak=1000)
def test_keyed_dispatch_keeps_every_order(seed: int) -> None:
    recorder = TimelineRecorder()
    messages = [("abc"[number % 3], number) for number in range(12)]
    failed: set[Message] = set()

    async def wait(message: Message) -> None:
        await asyncio.sleep(message[1] % 4)
        if message[1] % 5 == 0 and message not in failed:
            failed.add(message)
            raise ValueError(message)

    with DeterministicExecutor(workers=2, seed=seed) as executor:
        policy = Backoff(attempts=2, delay=1)
        dispatch = keyed_dispatch(key_of, noted(recorder, wait), executor=executor, on_failure=policy)
        Flowable.from_iterable(messages).pipe(dispatch).run()
    assert recorder.violations == 0
    assert {run.message for run in recorder.runs if run.failed} == failed
    assert sorted(run.message for run in recorder.runs if not run.failed) == sorted(messages)
    # The virtual clock stands on whole seconds.
    assert {run.began % 1 for run in recorder.runs} == {0}


def test_a_handler_that_fails_raises_what_it_raised() -> None:
    recorder = TimelineRecorder()

    def fail(message: Message) -> None:
        raise LookupError(message)

    with pytest.raises(LookupError):
        noted(recorder, fail)(("a", 0))
    (only,) = recorder.runs
    assert only.failed
    assert only.ended is not None


def test_an_async_handler_runs_until_it_returns() -> None:
    recorder = TimelineRecorder()
    release = asyncio.Event()

    async def wait(message: Message) -> int:
        await release.wait()
        if message[1] == 1:
            raise LookupError
        return message[1]

    handler = noted(recorder, wait)
    assert inspect.iscoroutinefunction(handler)

    async def scenario() -> list[Any]:
        tasks = [asyncio.ensure_future(handler(("a", number))) for number in range(2)]
        await asyncio.sleep(0)
        assert [(run.ended, run.violates) for run in recorder.runs] == [(None, False), (None, True)]
        release.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    value, error = asyncio.run(scenario())
    assert value == 0
    assert isinstance(error, LookupError)
    assert [(run.ended is not None, run.failed) for run in recorder.runs] == [(True, False), (True, True)]


def test_a_cancelled_coroutine_has_failed() -> None:
    recorder = TimelineRecorder()
    handler = noted(recorder, lambda _: asyncio.sleep(3600))

    async def scenario() -> None:
        task = asyncio.ensure_future(handler(("a", 0)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert [run.failed for run in recorder.runs] == [True]


def test_a_coroutine_that_nobody_enters_is_closed_without_a_warning() -> None:
    recorder = TimelineRecorder()

    async def wait() -> None:
        pass

    coroutine: Coroutine[Any, Any, None] = noted(recorder, lambda _: wait())(("a", 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coroutine.close()
        del coroutine
        gc.collect()
    assert [run.failed for run in recorder.runs] == [True]


class Ready:
    """An awaitable that is neither a coroutine nor a future."""

    def __await__(self) -> Generator[Any, None, str]:
        yield
        return "ready"


def test_any_awaitable_ends_its_run() -> None:
    recorder = TimelineRecorder()

    async def scenario() -> str:
        waiting = noted(recorder, lambda _: Ready())(("a", 0))
        assert [run.ended for run in recorder.runs] == [None]
        result: str = await waiting
        return result

    assert asyncio.run(scenario()) == "ready"
    assert [run.failed for run in recorder.runs] == [False]
    assert recorder.runs[0].ended is not None


@pytest.mark.parametrize("done_before", [True, False])
def test_an_asyncio_future_has_ended_when_who_awaits_it_goes_on(done_before: bool) -> None:
    recorder = TimelineRecorder()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def handle(_: Message) -> asyncio.Future[None]:
            future: asyncio.Future[None] = loop.create_future()
            if done_before:
                future.set_result(None)
            else:
                loop.call_soon(future.set_result, None)
            return future

        handler = noted(recorder, handle)
        await handler(("a", 0))
        await handler(("a", 1))

    asyncio.run(scenario())
    assert judged(recorder) == [(("a", 0), False), (("a", 1), False)]


def end_with_error(future: Future[None]) -> None:
    future.set_exception(LookupError())


@pytest.mark.parametrize(
    ("end", "failed"),
    [(lambda future: future.set_result(None), False), (end_with_error, True), (lambda future: future.cancel(), True)],
    ids=["result", "error", "cancelled"],
)
def test_a_future_ends_its_run_however_it_ends(end: Callable[[Future[None]], object], failed: bool) -> None:
    recorder = TimelineRecorder()
    future: Future[None] = Future()
    assert noted(recorder, lambda _: future)(("a", 0)) is future
    assert [run.ended for run in recorder.runs] == [None]
    end(future)
    assert [(run.ended is not None, run.failed) for run in recorder.runs] == [(True, failed)]


def test_observables_that_follow_each_other_do_not_overlap() -> None:
    recorder = TimelineRecorder()
    handler = noted(recorder, lambda message: rx.of(message[1], message[1]))
    messages = [("a", 0), ("a", 1), ("a", 2)]

    def deferred(message: Message) -> Any:
        return rx.defer(lambda _: handler(message))

    # The next is subscribed to, and so its handler called, inside the completion of the one before.
    seen = rx.from_iterable(messages).pipe(ops.map(deferred), ops.merge(max_concurrent=1), ops.to_list()).run()
    assert seen == [0, 0, 1, 1, 2, 2]
    assert judged(recorder) == [(message, False) for message in messages]


@pytest.mark.parametrize(
    ("end", "failed"),
    [
        (lambda subject, _: subject.on_completed(), False),
        (lambda subject, _: subject.on_error(LookupError()), True),
        (lambda _, subscription: subscription.dispose(), True),
    ],
    ids=["completed", "error", "disposed"],
)
def test_an_observable_ends_its_run_however_it_ends(end: Callable[[Any, Any], object], failed: bool) -> None:
    recorder = TimelineRecorder()
    subject: Subject[int] = Subject()
    subscription = noted(recorder, lambda _: subject)(("a", 0)).subscribe(on_error=lambda _: None)
    assert [run.ended for run in recorder.runs] == [None]
    end(subject, subscription)
    assert [(run.ended is not None, run.failed) for run in recorder.runs] == [(True, failed)]


def test_an_observable_that_is_subscribed_to_again_hides_no_violation() -> None:
    recorder = TimelineRecorder()
    handler = noted(recorder, lambda message: rx.of(1) if message[1] == 0 else rx.never())
    again = handler(("a", 0))
    again.subscribe()
    again.subscribe()
    handler(("a", 1)).subscribe()
    handler(("a", 2)).subscribe()
    assert judged(recorder) == [(("a", 0), False), (("a", 1), False), (("a", 2), True)]


def test_a_flowable_keeps_its_demand() -> None:
    flowable = Flowable.from_iterable(range(3))
    assert isinstance(noted(TimelineRecorder(), lambda _: flowable)(("a", 0)), Flowable)


def test_a_blocking_handler_stays_one_and_is_noted_on_its_pool() -> None:
    recorder = TimelineRecorder()

    def handle(_: None, message: Message) -> Message:
        return message

    handler = noted(recorder, functools.partial(blocking(handle), None))
    assert is_blocking(handler)
    with KeyedExecutor(1) as executor:
        dispatch = keyed_dispatch(key_of, handler, executor=executor)
        assert Flowable.from_iterable([("a", 0)]).pipe(dispatch).run() == ("a", 0)
        workers = {worker.name for worker in executor.statistics().workers}
    assert recorder.runs[0].thread not in workers


def test_the_handler_keeps_its_name() -> None:
    assert noted(TimelineRecorder(), place_of).__name__ == "place_of"


def no_key(message: Message) -> str:
    raise LookupError(message)


@pytest.mark.parametrize("key", [no_key, list])
def test_a_message_without_a_key_is_refused(key: Callable[[Message], Any]) -> None:
    recorder = TimelineRecorder()
    with pytest.raises(InvalidKeyError):
        recorder.wrap(str, key=key)(("a", 0))
    assert recorder.runs == ()


@pytest.mark.parametrize("wrong", [{"handler": None}, {"key": "name"}, {"order": 1}])
def test_what_can_not_be_called_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        TimelineRecorder().wrap(**{"handler": str, "key": key_of, **wrong})


def test_nothing_is_lost_between_threads_that_run_and_one_that_looks() -> None:
    recorder = TimelineRecorder()
    handler = noted(recorder, str)
    threads, messages = 4, 500
    together = threading.Barrier(threads + 1, timeout=PATIENCE_S)

    def work(name: str) -> None:
        together.wait()
        for number in range(messages):
            handler((name, number))

    with ThreadPoolExecutor(threads) as pool:
        working = [pool.submit(work, f"key {number}") for number in range(threads)]
        together.wait()
        while not all(future.done() for future in working):
            assert recorder.violations == 0
        for future in working:
            future.result()
    assert recorder.violations == 0
    assert len(recorder.runs) == threads * messages
    assert all(run.ended is not None for run in recorder.runs)
