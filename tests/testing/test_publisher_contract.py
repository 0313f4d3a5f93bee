"""PublisherContract passes what is correct, and fails what breaks a rule, with the test of that rule."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from rxwow import Flowable
from rxwow.errors import InvalidArgumentError
from rxwow.streams.protocols import Publisher
from rxwow.testing import run
from rxwow.testing.contracts import RULES, PublisherContract, SubscriberContract
from tests.testing.broken_publishers import ALL, Broken, EmitsWithoutEnd, HangsAtRequests
from tests.testing.hand_written import HandWritten, HandWrittenPublisher

PATIENCE_S = 20


def names_of(contract: type[Any]) -> list[str]:
    return [name for name in dir(contract) if name.startswith("test_") and callable(getattr(contract, name))]


EVERY_TEST = names_of(PublisherContract)


def contract_for(publisher: type[Any], **attributes: Any) -> type[PublisherContract]:
    class Made(PublisherContract):
        emits_asynchronously = False

        def create_publisher(self, count: int) -> Publisher[Any]:
            return publisher(count)  # type: ignore[no-any-return]

        def create_failed_publisher(self) -> Publisher[Any]:
            return publisher(3, LookupError())  # type: ignore[no-any-return]

    return type("Made", (Made,), attributes)


def failures(contract: type[PublisherContract], names: list[str]) -> dict[str, BaseException]:
    failed: dict[str, BaseException] = {}
    for name in names:
        try:
            getattr(contract(), name)()
        except Exception as error:  # noqa: BLE001 - whatever a test fails with
            failed[name] = error
    return failed


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{thread} is left"


class TestHandWritten(PublisherContract):
    """A correct one, written without the library's emitter."""

    def create_publisher(self, count: int) -> Publisher[Any]:
        return HandWrittenPublisher(count)

    def create_failed_publisher(self) -> Publisher[Any]:
        return HandWrittenPublisher(3, LookupError())


class TestHandWrittenOnTheAskingThread(TestHandWritten):
    """The same, and what its signals are said to come on is tested."""

    emits_asynchronously = False


@pytest.mark.parametrize("broken", ALL, ids=str)
def test_broken_publisher_fails_the_test_of_its_rule(broken: Broken) -> None:
    own = [name for name in EVERY_TEST if is_of(name, broken.rule)]
    failed = failures(contract_for(broken.publisher, patience=0.2, settling=0.05), own)
    assert failed != {}
    for error in failed.values():
        assert any(f"§{broken.rule}: {RULES[broken.rule].text}" in note for note in error.__notes__)


@pytest.mark.parametrize("broken", ALL, ids=str)
def test_broken_publisher_passes_the_tests_of_the_other_rules(broken: Broken) -> None:
    others = [
        name
        for name in EVERY_TEST
        if not is_of(name, broken.rule) and "*" not in broken.also and name[5:9] not in broken.also
    ]
    assert failures(contract_for(broken.publisher, settling=0.001), others) == {}


def is_of(test: str, rule: str) -> bool:
    section, number = rule.split(".")
    return test.startswith(f"test_{section}_{int(number):02}_")


def test_at_least_twenty_are_broken() -> None:
    assert len(ALL) >= 20
    assert {broken.rule for broken in ALL} >= {
        rule.number for rule in RULES.values() if any("Publisher" in test for test in rule.tested_by)
    } - {"3.10", "3.11"}


def test_publisher_that_hangs_is_given_up_and_its_place_told() -> None:
    class Released(HangsAtRequests):
        go_on = threading.Event()

    class Hanging(HandWrittenPublisher):
        subscription = Released

    with pytest.raises(AssertionError, match=r"(?s)did not come back within 0\.4 s.*self\.go_on\.wait"):
        contract_for(Hanging, patience=0.2)().test_1_01_emits_at_most_what_was_requested()
    Released.go_on.set()


def test_publisher_that_hangs_is_cancelled() -> None:
    """So that it leaves no thread, which the fixture checks."""

    class UntilCancelled(HandWritten):
        def request(self, n: int) -> None:
            while not self.done:
                threading.Event().wait(0.001)

    class Hanging(HandWrittenPublisher):
        subscription = UntilCancelled

    with pytest.raises(AssertionError, match="did not come back"):
        contract_for(Hanging, patience=0.2)().test_1_01_emits_at_most_what_was_requested()


def test_no_thread_runs_on_after_a_test() -> None:
    for _ in range(20):
        contract_for(HandWrittenPublisher)().test_3_05_cancel_comes_back_on_any_thread()
        assert threads_of_contracts() == []


def threads_of_contracts() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rxwow-contract"]


def test_publisher_that_never_stops_is_ended() -> None:
    class Endless(HandWrittenPublisher):
        subscription = EmitsWithoutEnd

    with pytest.raises(AssertionError, match="goes on and on"):
        contract_for(Endless)().test_1_01_emits_at_most_what_was_requested()


class EmitsOnAThread(HandWrittenPublisher):
    def subscribe(self, subscriber: Any, /) -> object:
        return Flowable.from_iterable(range(self.count), blocking=True).subscribe(subscriber)


@pytest.mark.parametrize("name", [name for name in EVERY_TEST if name.startswith(("test_3_10", "test_3_11"))])
def test_publisher_that_is_said_to_emit_on_the_asking_thread_must_do_so(name: str) -> None:
    with pytest.raises(AssertionError, match="emits_asynchronously should be True"):
        getattr(contract_for(EmitsOnAThread)(), name)()


# What is left out.


def test_tests_that_do_not_apply_are_not_there_and_the_reason_is() -> None:
    class Few(PublisherContract):
        max_count = 10
        leaves_out = {"3.4": "it waits for the disk"}  # noqa: RUF012

        def create_publisher(self, count: int) -> Publisher[Any]:
            return Flowable.from_iterable(range(count))

    assert Few.left_out == {
        "test_1_04_failure_is_signalled": "create_failed_publisher is not given",
        "test_1_08_stops_when_cancelled_inside_a_signal": "it needs 1000 items, and max_count is 10",
        "test_3_03_stack_stays_flat": "it needs 200 items, and max_count is 10",
        "test_3_04_request_comes_back": "it waits for the disk",
        "test_3_08_requests_of_threads_add_up": "it needs 40 items, and max_count is 10",
        "test_3_10_request_emits_before_it_returns": "emits_asynchronously is set",
        "test_3_11_request_ends_before_it_returns": "emits_asynchronously is set",
        "test_3_12_stops_when_cancelled_from_outside": "it needs 1000 items, and max_count is 10",
        "test_3_17_many_requests_are_served": "it needs 100 items, and max_count is 10",
    }
    assert set(names_of(Few)) == set(EVERY_TEST) - set(Few.left_out)


def test_what_a_subclass_can_do_again_is_there_again() -> None:
    class Few(TestHandWritten):
        max_count: ClassVar[int | None] = 1

    class Many(Few):
        max_count = None

    assert "test_3_03_stack_stays_flat" not in names_of(Few)
    assert names_of(Many) == names_of(TestHandWritten)


@pytest.mark.parametrize("leaves_out", [{"3.18": "there is no such rule"}, {"3.4": " "}], ids=str)
def test_leaving_out_takes_a_rule_and_a_reason(leaves_out: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        type("Wrong", (TestHandWritten,), {"leaves_out": leaves_out})


# The rules.


def test_each_rule_is_tested_or_has_a_reason() -> None:
    numbers = [f"{section}.{number}" for section, most in ((1, 11), (2, 13), (3, 17)) for number in range(1, most + 1)]
    assert list(RULES) == numbers
    assert [rule.number for rule in RULES.values() if bool(rule.tested_by) == bool(rule.untested)] == []


def test_the_rules_name_all_tests_and_no_others() -> None:
    listed = [test for rule in RULES.values() for test in rule.tested_by]
    contracts = (PublisherContract, SubscriberContract)
    assert sorted(listed) == sorted(f"{each.__name__}.{name}" for each in contracts for name in names_of(each))
    assert all(is_of(test.partition(".")[2], rule.number) for rule in RULES.values() for test in rule.tested_by)


# On controlled threads.


class OnControlledThreads(PublisherContract):
    def create_publisher(self, count: int) -> Publisher[Any]:
        return Flowable.from_iterable(range(count), blocking=True)


@pytest.mark.seeds(2, soak=200)
@pytest.mark.parametrize("name", names_of(OnControlledThreads))
def test_contract_runs_on_controlled_threads(name: str, seed: int) -> None:
    run(lambda _: getattr(OnControlledThreads(), name)(), seed)
