"""Context variables: each message runs in its own copy of the subscription's context, and nothing leaks sideways."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import reactivex

from rxwow import SKIP, Flowable, KeyedExecutor, Retry, keyed_dispatch
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import PATIENCE, Collector, results_of

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def observe(message: int) -> str:
    """Return what is seen, and set something that nobody else may see."""
    seen = tenant.get()
    tenant.set(f"message {message}")
    return seen


async def observe_later(message: int) -> str:
    seen = observe(message)
    await asyncio.sleep(0)
    # Its own value is still there after the await, whoever ran meanwhile.
    assert tenant.get() == f"message {message}"
    tenant.set("later")
    return seen


def observe_inside(message: int) -> reactivex.Observable[str]:
    # Built in the handler and subscribed after it: in the same message's context.
    tenant.set("inner")

    def subscribe(_: Any) -> reactivex.Observable[str]:
        seen = tenant.get()
        tenant.set("leaked")
        return reactivex.of("caller" if seen == "inner" else seen)

    return reactivex.defer(subscribe)


KINDS: dict[str, Any] = {"plain": observe, "async": observe_later, "observable": observe_inside}


@pytest.mark.parametrize("one_key", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_each_message_sees_the_context_of_the_subscription_and_no_other_messages(kind: str, one_key: bool) -> None:
    # F48.
    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(lambda message: 0 if one_key else message, KINDS[kind], executor=executor)

        def subscribe() -> list[Any]:
            tenant.set("caller")
            results = results_of(Flowable.from_iterable(range(50)).pipe(operator))
            assert tenant.get() == "caller"
            return results

        assert contextvars.copy_context().run(subscribe) == ["caller"] * 50
        # A second subscription has the context of its own making.
        assert results_of(Flowable.from_iterable([1]).pipe(keyed_dispatch(hash, observe, executor=executor))) == [
            "nobody"
        ]
    assert tenant.get() == "nobody"


@pytest.mark.seeds(100, soak=5000)
def test_nothing_leaks_whatever_runs_in_between(seed: int) -> None:
    # F48.
    def scenario(platform: ControlledPlatform) -> list[Any]:
        kinds = platform.random.choices(list(KINDS.values()), k=20)

        def handle(message: int) -> Any:
            platform.point("handler")
            return kinds[message](message)

        tenant.set("caller")
        with KeyedExecutor(2, throughput=platform.random.choice([1, 16])) as executor:
            operator = keyed_dispatch(lambda message: message % 3, handle, executor=executor)
            return results_of(Flowable.from_iterable(range(20)).pipe(operator))

    assert run(scenario, seed) == ["caller"] * 20


def test_each_attempt_of_a_message_has_a_context_of_its_own() -> None:
    seen: list[str] = []

    def handle(message: int) -> None:
        seen.append(observe(message))
        if len(seen) < 3:
            raise ValueError(message)

    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(hash, handle, executor=executor, on_failure=lambda *_: Retry(0))
        results_of(Flowable.from_iterable([1]).pipe(operator))
    assert seen == ["nobody"] * 3


def test_a_failing_handler_leaves_nothing_behind() -> None:
    def handle(message: int) -> str:
        seen = observe(message)
        if message == 1:
            raise ValueError(message)
        return seen

    with KeyedExecutor(1) as executor:
        operator = keyed_dispatch(lambda _: 0, handle, executor=executor, on_failure=SKIP)
        assert results_of(Flowable.from_iterable([1, 2]).pipe(operator)) == ["nobody"]


def test_the_context_is_the_subscriptions_and_not_the_emitting_threads() -> None:
    # F48: a message is sent by another thread, with a tenant of its own.
    source: reactivex.Subject[int] = reactivex.Subject()

    def send() -> None:
        tenant.set("sender")
        source.on_next(1)
        source.on_completed()

    with KeyedExecutor(1) as executor:
        collector = Collector(10)
        source.pipe(keyed_dispatch(hash, observe, executor=executor)).subscribe(collector)
        thread = threading.Thread(target=send)
        thread.start()
        thread.join(PATIENCE)
        assert collector.ended.wait(PATIENCE)
    assert collector.taken == ["nobody"]


def test_a_future_of_a_pool_has_what_the_handler_gives_it() -> None:
    with ThreadPoolExecutor(1) as pool, KeyedExecutor(1) as executor:

        def handle(message: int) -> Future[str]:
            context = contextvars.copy_context()
            return pool.submit(context.run, observe, message)

        operator = keyed_dispatch(lambda _: 0, handle, executor=executor)
        assert results_of(Flowable.from_iterable([1, 2]).pipe(operator)) == ["nobody", "nobody"]


def test_messages_on_the_callers_loop_see_the_callers_context() -> None:
    async def main() -> list[Any]:
        tenant.set("caller")
        async with KeyedExecutor.on_running_loop() as executor:
            operator = keyed_dispatch(lambda _: 0, observe_later, executor=executor)
            results = [result async for result in Flowable.from_iterable(range(5)).pipe(operator)]
        assert tenant.get() == "caller"
        return results

    assert asyncio.run(main()) == ["caller"] * 5
