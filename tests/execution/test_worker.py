"""A worker drains for 2 ms at most, parks without losing a wake-up, and spins only where that pays."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution import MAX_SPIN
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution.pushed import PushedSource
from tests.streams.probe import Probe


def same(number: int) -> int:
    return number


def test_timers_have_their_turn_while_messages_never_end() -> None:
    # On virtual time: each handler takes 0.5 ms, and a coroutine sleeps for 1 ms beside them on the only worker.
    def scenario(platform: ControlledPlatform) -> float:
        woken: list[float] = []

        async def sleeper() -> None:
            await asyncio.sleep(0.001)
            woken.append(platform.monotonic())

        def handler(number: int) -> Any:
            if number == 0:
                return sleeper()
            platform.sleep(0.0005)
            return None

        with KeyedExecutor(workers=1) as executor:
            dispatch = keyed_dispatch(lambda number: number % 50, handler, executor=executor)
            Flowable.from_iterable(range(200)).pipe(dispatch).run()
        return woken[0]

    # It begins after the drain that called its handler, and wakes after the one in which it is due. A handler that has
    # begun is not cut short, so a drain of 2 ms may take one longer.
    assert run(scenario, seed=1) <= 2 * (0.002 + 0.0005) + 0.001


def test_a_turn_that_is_cut_short_by_the_drain_time_goes_on_where_it_was() -> None:
    def scenario(platform: ControlledPlatform) -> list[Any]:
        handled: list[Any] = []

        def handler(message: tuple[str, int]) -> None:
            platform.sleep(0.001)
            handled.append(message)

        with KeyedExecutor(workers=1, throughput=8) as executor:
            messages = [*(("hot", number) for number in range(20)), ("cold", 0)]
            dispatch = keyed_dispatch(lambda message: message[0], handler, executor=executor)
            Flowable.from_iterable(lambda: iter([messages])).run()
            Flowable.from_iterable(messages).pipe(dispatch).run()
        return handled

    handled = run(scenario, seed=2)
    assert handled.index(("cold", 0)) <= 8 + 1


@pytest.mark.seeds(100, soak=3000)
def test_no_wake_up_is_lost_between_the_last_look_and_parking(seed: int) -> None:
    # F32, F34: one message at a time, so that the next comes as the worker parks after the one before.
    def scenario(platform: ControlledPlatform) -> None:
        source = PushedSource()
        handled = [platform.event() for _ in range(12)]

        def handler(number: int) -> None:
            handled[number].set()

        with KeyedExecutor(workers=1 + seed % 2, spin=MAX_SPIN if seed % 4 > 1 else 0.0) as executor:
            probe = Probe(demand=UNBOUNDED)
            dispatch = keyed_dispatch(lambda number: number % 2, handler, executor=executor)
            source.flowable.pipe(dispatch).subscribe(probe)
            for number in range(12):
                source.push(number)
                handled[number].wait()
            source.subscriber.on_completed()

    run(scenario, seed)


@pytest.mark.parametrize("spin", [0.0, MAX_SPIN])
def test_a_worker_that_spins_gives_the_same_results(spin: float) -> None:
    with KeyedExecutor(workers=2, spin=spin) as executor:
        dispatch = keyed_dispatch(lambda number: number % 3, same, executor=executor, max_in_flight=2)
        results = Flowable.from_iterable(range(500)).pipe(dispatch).to_list().run()
    assert sorted(results) == list(range(500))


@pytest.mark.parametrize(("wait", "spins"), [(MAX_SPIN / 10, True), (10 * MAX_SPIN, False)])
def test_a_worker_spins_only_after_a_wait_shorter_than_the_spin(wait: float, spins: bool) -> None:
    def scenario(platform: ControlledPlatform) -> int:
        pauses = 0
        pause = platform.pause

        def counted() -> None:
            nonlocal pauses
            pauses += 1
            pause()

        platform.pause = counted  # type: ignore[method-assign]
        source = PushedSource()
        handled = [platform.event() for _ in range(4)]

        def handler(number: int) -> None:
            handled[number].set()

        with KeyedExecutor(workers=1, spin=MAX_SPIN) as executor:
            probe = Probe(demand=UNBOUNDED)
            dispatch = keyed_dispatch(lambda number: number, handler, executor=executor)
            source.flowable.pipe(dispatch).subscribe(probe)
            for number in range(4):
                platform.sleep(wait)
                source.push(number)
                handled[number].wait()
            probe.cancel()
        return pauses

    assert bool(run(scenario, seed=1)) is spins


def test_a_worker_outlives_what_a_subscriber_throws_at_it(caplog: pytest.LogCaptureFixture) -> None:
    # F31
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    with KeyedExecutor(workers=1) as executor:
        probe = Probe(demand=UNBOUNDED, on_item=interrupt)
        Flowable.from_iterable(range(50)).pipe(
            keyed_dispatch(lambda number: number, same, executor=executor)
        ).subscribe(probe)
        dispatch = keyed_dispatch(lambda number: number % 2, same, executor=executor)
        assert len(Flowable.from_iterable(range(50)).pipe(dispatch).to_list().run()) == 50
    assert len(probe.items) == 1
    assert any(record.levelname in ("ERROR", "CRITICAL") for record in caplog.records)


def test_a_worker_on_the_main_thread_outlives_an_interrupt_out_of_a_subscriber(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # F31: there it is no failure of the subscriber, and comes through everything up to the worker.
    discarded: list[int] = []

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    async def main() -> list[int]:
        async with KeyedExecutor.on_running_loop() as executor:
            probe = Probe(demand=UNBOUNDED, on_item=interrupt)
            dispatch = keyed_dispatch(lambda _: "k", same, executor=executor, on_discard=discarded.append)
            Flowable.from_iterable(range(50)).pipe(dispatch).subscribe(probe)
            other = keyed_dispatch(lambda number: number % 2, same, executor=executor)
            # Leaving the block drains: the first dispatch has let go of everything.
            return [number async for number in Flowable.from_iterable(range(50)).pipe(other)]

    assert sorted(asyncio.run(main())) == list(range(50))
    assert discarded == list(range(50 - len(discarded), 50))
    assert [record.levelname for record in caplog.records if record.name == "rxwow.execution"] == ["CRITICAL"]


def test_a_dispatch_whose_turn_broke_off_ends_with_what_broke_it() -> None:
    # A logging filter of the program's own is the one thing in a turn that nothing else contains.
    def refuse(record: logging.LogRecord) -> bool:
        if record.levelno == logging.WARNING:
            raise ZeroDivisionError("in a filter")
        return True

    def handler(number: int) -> float:
        return 1 / number

    logger = logging.getLogger("rxwow.execution")
    logger.addFilter(refuse)
    try:
        with KeyedExecutor(workers=1) as executor:
            probe = Probe(demand=UNBOUNDED)
            dispatch = keyed_dispatch(lambda _: "k", handler, executor=executor, on_failure=SKIP)
            Flowable.from_iterable([0, 1, 2]).pipe(dispatch).subscribe(probe)
            probe.wait_for_end()
    finally:
        logger.removeFilter(refuse)
    assert [str(error) for error in probe.errors] == ["in a filter"]
