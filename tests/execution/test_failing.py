"""What fails ends the stream as documented, once, and is never silent: handler, key, source and observer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidKeyError
from rxwow.streams.protocols import UNBOUNDED, Subscriber, Subscription
from tests.execution.handlers import Gate
from tests.execution.pushed import PushedSource
from tests.streams.probe import PATIENCE_S, Probe


class Failure(Exception):
    """What these tests fail with."""


def same(number: int) -> int:
    return number


def test_a_failing_handler_ends_the_stream_after_the_results_before_it() -> None:
    discarded: list[int] = []

    def handler(number: int) -> int:
        if number == 50:
            raise Failure(number)
        return number

    with KeyedExecutor(workers=1) as executor:
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(range(1000)).pipe(
            keyed_dispatch(lambda _: "one key", handler, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        probe.wait_for_end()
    assert probe.items == list(range(50))
    assert [str(error) for error in probe.errors] == ["50"]
    # All that had been accepted and was not handled, and nothing else.
    assert discarded == list(range(51, 51 + len(discarded)))
    probe.check()


def test_running_handlers_finish_their_step_and_their_results_are_dropped() -> None:
    gate = Gate()
    finished = threading.Event()

    def handler(name: str) -> str:
        if name == "fails":
            gate.wait_for(lambda: "runs" in gate.arrived)
            raise Failure
        gate(name)
        finished.set()
        return name

    with KeyedExecutor(workers=2) as executor:
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(["runs", "fails"]).pipe(
            keyed_dispatch(lambda name: name, handler, executor=executor)
        ).subscribe(probe)
        probe.wait_for_end()
        gate.let_go()
        assert finished.wait(PATIENCE_S)
    assert probe.items == []
    assert len(probe.errors) == 1
    probe.check()


def test_a_failure_after_the_end_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()

    def handler(name: str) -> str:
        gate(name)
        raise Failure(name)

    with KeyedExecutor(workers=2) as executor:
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(["first", "second"]).pipe(
            keyed_dispatch(lambda name: name, handler, executor=executor)
        ).subscribe(probe)
        gate.wait_for_arrivals(2)
        gate.let_go("first")
        probe.wait_for_end()
        gate.let_go()
    assert [str(error) for error in probe.errors] == ["first"]
    late = [record for record in caplog.records if record.name == "rxwow.execution"]
    assert [record.levelname for record in late] == ["ERROR"]
    assert "'second'" in late[0].getMessage()


@pytest.mark.parametrize(
    ("key", "reason"),
    [(lambda number: [number], "unhashable type: 'list'"), (lambda number: 1 // number, "ZeroDivisionError")],
    ids=["unhashable", "raises"],
)
def test_a_message_without_a_key_is_a_failure_of_that_message(key: Any, reason: str) -> None:
    # F21
    with KeyedExecutor(workers=1) as executor, pytest.raises(InvalidKeyError, match=reason) as caught:
        Flowable.from_iterable([0]).pipe(keyed_dispatch(key, same, executor=executor)).run()
    assert caught.value.item == 0
    assert caught.value.__cause__ is not None


def test_a_failing_source_ends_the_stream_and_discards_what_is_queued() -> None:
    gate = Gate()
    discarded: list[int] = []

    def numbers() -> Iterator[int]:
        yield from range(5)
        gate.wait_for(lambda: gate.arrived)
        raise Failure("source")

    with KeyedExecutor(workers=1) as executor:
        probe = Probe(demand=UNBOUNDED)
        Flowable.from_iterable(numbers, blocking=True).pipe(
            keyed_dispatch(lambda _: "k", gate, executor=executor, on_discard=discarded.append)
        ).subscribe(probe)
        probe.wait_for_end()
        gate.let_go()
    assert [str(error) for error in probe.errors] == ["source"]
    assert discarded == [1, 2, 3, 4]


def test_a_failing_source_does_not_wait_for_results_to_be_taken() -> None:
    source = PushedSource()
    probe = Probe(demand=1)
    with KeyedExecutor(workers=1) as executor:
        source.flowable.pipe(keyed_dispatch(lambda _: "k", same, executor=executor)).subscribe(probe)
        source.push(1, 2, 3)
        probe.wait_for_items(1)
        source.subscriber.on_error(Failure("source"))
        # The worker may not have come back from the item, and tells of the error then.
        probe.wait_for_end()
        assert [str(error) for error in probe.errors] == ["source"]
    assert probe.items == [1]
    probe.check()


def test_a_source_that_raises_when_it_is_subscribed_to_ends_the_stream() -> None:
    def publish(_: Subscriber[int], __: object) -> Subscription:
        raise Failure("no connection")

    probe = Probe(demand=UNBOUNDED)
    with KeyedExecutor(workers=1) as executor:
        Flowable(publish).pipe(keyed_dispatch(same, same, executor=executor)).subscribe(probe)
        assert executor.statistics().dispatches == ()
    assert [str(error) for error in probe.errors] == ["no connection"]


def test_an_observer_that_raises_cancels_is_logged_once_and_gets_no_error(caplog: pytest.LogCaptureFixture) -> None:
    # F90
    errors: list[Exception] = []
    raised = threading.Event()

    def on_next(_: int) -> None:
        raised.set()
        raise Failure("observer")

    with KeyedExecutor(workers=2) as executor:
        Flowable.from_iterable(range(100)).pipe(keyed_dispatch(same, same, executor=executor)).subscribe(
            on_next, errors.append
        )
        assert raised.wait(PATIENCE_S)
    assert errors == []
    assert [record.levelname for record in caplog.records if record.name.startswith("rxwow")] == ["ERROR"]


def test_a_failure_that_nobody_listens_to_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    # F91: no error callback.
    def handler(_: int) -> None:
        raise Failure("unheard")

    completed: list[bool] = []
    with KeyedExecutor(workers=1) as executor:
        Flowable.from_iterable(range(3)).pipe(keyed_dispatch(same, handler, executor=executor)).subscribe(
            on_completed=lambda: completed.append(True)
        )
    assert completed == []
    logged = [record for record in caplog.records if record.levelname == "ERROR" and record.exc_info]
    assert any("unheard" in str(record.exc_info) for record in logged)
