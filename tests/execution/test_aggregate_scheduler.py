"""The supplier of the older model: one scheduler an aggregate, and how all of them end."""

import asyncio
import threading
from functools import partial
from random import Random
from typing import Any

import pytest

from rxwow import Flowable
from rxwow.errors import ExecutorClosedError, InvalidArgumentError
from rxwow.execution import (
    BorrowedAggregateSchedulerSupplier,
    DefaultAggregateSchedulerSupplier,
    KeyedScheduler,
    grouped_dispatch,
)
from rxwow.testing import ControlledPlatform, run
from rxwow.typing import NamedAggregate

ORDER = NamedAggregate("shop", "order")
CART = NamedAggregate("shop", "cart")


def test_each_aggregate_has_a_scheduler_with_threads_of_its_name() -> None:
    supplier = DefaultAggregateSchedulerSupplier("commands", parallelism=2)
    names: dict[NamedAggregate, str] = {}
    for aggregate in (ORDER, CART):
        named = threading.Event()

        def note(*_: Any, aggregate: NamedAggregate = aggregate, named: threading.Event = named) -> None:
            names[aggregate] = threading.current_thread().name
            named.set()

        supplier.get_or_initialize(aggregate).schedule(note)
        assert named.wait(20)
    assert names == {ORDER: "commands-order-0", CART: "commands-cart-0"}
    assert supplier.stop_gracefully().run()


@pytest.mark.seeds(50, soak=1_000)
def test_concurrent_calls_get_the_same_one_or_are_refused_once_stopping_has_begun(seed: int) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        random = Random(seed)
        supplier = DefaultAggregateSchedulerSupplier("commands", parallelism=1)
        got: set[KeyedScheduler] = set()
        ran: list[int] = []
        scheduled: list[int] = []

        def ask(number: int) -> None:
            for _ in range(2):
                try:
                    scheduler = supplier.get_or_initialize(ORDER)
                    got.add(scheduler)
                    scheduler.for_key(number).schedule(lambda *_: ran.append(number))
                except ExecutorClosedError:
                    return
                scheduled.append(number)

        def stop() -> None:
            if random.random() < 0.7:
                results.append(supplier.stop_gracefully())
            else:
                supplier.force_stop()

        results: list[Flowable[bool]] = []
        threads = [platform.thread(partial(ask, number), f"asking {number}") for number in range(3)]
        threads.append(platform.thread(stop, "stopping"))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) <= 1
        graceful = bool(results)
        finished = supplier.stop_gracefully().run()
        if graceful:
            assert finished
            assert sorted(ran) == sorted(scheduled)
        assert [result.run() for result in results] == [finished] * len(results)
        with pytest.raises(ExecutorClosedError, match="its supplier is stopping"):
            supplier.get_or_initialize(CART)

    run(scenario, seed)


def test_a_graceful_stop_lets_messages_finish_and_tells_all_the_same() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        supplier = DefaultAggregateSchedulerSupplier("commands", parallelism=1)
        handled: list[int] = []

        async def handle(number: int) -> None:
            await asyncio.sleep(10)
            handled.append(number)

        dispatch = grouped_dispatch(str, handle, scheduler=supplier.get_or_initialize(ORDER))
        Flowable.from_iterable(range(3)).pipe(dispatch).subscribe()
        platform.event().wait(timeout=1)
        first, second = supplier.stop_gracefully(), supplier.stop_gracefully()
        assert handled == []
        assert (first.run(), second.run(), first.run()) == (True, True, True)
        assert sorted(handled) == [0, 1, 2]
        assert platform.monotonic() == 10

    run(scenario)


def test_a_force_stop_takes_over_a_graceful_one() -> None:
    def scenario(platform: ControlledPlatform) -> None:
        supplier = DefaultAggregateSchedulerSupplier("commands", parallelism=1)

        async def handle(_: int) -> None:
            await asyncio.sleep(1_000_000)

        errors: list[Exception] = []
        dispatch = grouped_dispatch(str, handle, scheduler=supplier.get_or_initialize(ORDER))
        Flowable.from_iterable(range(3)).pipe(dispatch).subscribe(on_error=errors.append)
        platform.event().wait(timeout=1)
        result = supplier.stop_gracefully()
        supplier.force_stop()
        supplier.force_stop()
        assert result.run() is False
        assert [type(error) for error in errors] == [ExecutorClosedError]
        assert platform.monotonic() == 1

    run(scenario)


def test_a_supplier_that_made_nothing_stops_at_once() -> None:
    assert DefaultAggregateSchedulerSupplier("commands").stop_gracefully().run()
    supplier = DefaultAggregateSchedulerSupplier("commands")
    supplier.force_stop()
    assert supplier.stop_gracefully().run()


def test_who_has_borrowed_it_ends_nothing() -> None:
    supplier = DefaultAggregateSchedulerSupplier("commands", parallelism=1)
    borrowed = BorrowedAggregateSchedulerSupplier(supplier)
    scheduler = borrowed.get_or_initialize(ORDER)
    assert borrowed.stop_gracefully().run()
    borrowed.force_stop()
    assert supplier.get_or_initialize(ORDER) is scheduler
    assert scheduler.executor.statistics().state == "open"
    supplier.force_stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"name": ""}, "name must be"), ({"name": "commands", "parallelism": 0}, "parallelism must be")],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DefaultAggregateSchedulerSupplier(**arguments)


def test_what_is_no_aggregate_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="aggregate must be a NamedAggregate"):
        DefaultAggregateSchedulerSupplier("commands").get_or_initialize("order")  # type: ignore[arg-type]
