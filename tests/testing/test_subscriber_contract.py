"""SubscriberContract passes what is correct, and fails what breaks a rule, with the test of that rule."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rxwow.streams.protocols import Subscriber
from rxwow.testing import run
from rxwow.testing.contracts import RULES, SubscriberContract
from rxwow.testing.probe import SubscriberProbe
from tests.testing.broken_subscribers import (
    ALL,
    Asking,
    AskingByHand,
    AskingForBatches,
    Broken,
    HoldsItsLockWhileItAsks,
)

PATIENCE_S = 20

EVERY_TEST = [name for name in dir(SubscriberContract) if name.startswith("test_")]


class HandWritten(SubscriberContract):
    subscriber: type[Asking] = Asking

    def create_subscriber(self) -> Subscriber[Any]:
        return self.subscriber()

    def trigger_request(self, subscriber: Any) -> None:
        if isinstance(subscriber, AskingByHand):
            subscriber.ask_by_hand()
        else:
            # It asks by itself; this is for those that must not ask after the end.
            subscriber.ask(1)

    def trigger_cancel(self, subscriber: Any) -> None:
        subscriber.stop()


class TestAsking(HandWritten): ...


class TestAskingForBatches(HandWritten):
    subscriber = AskingForBatches


class TestAskingByHand(HandWritten):
    subscriber = AskingByHand


class TestSubscriberProbe(SubscriberContract):
    """The library's own, with demand from the start."""

    leaves_out = {"2.4": "it passes on what the test requests, also after the end"}  # noqa: RUF012

    def create_subscriber(self) -> Subscriber[Any]:
        return SubscriberProbe(demand=1)

    def trigger_request(self, subscriber: Any) -> None:
        subscriber.request(1)

    def trigger_cancel(self, subscriber: Any) -> None:
        subscriber.cancel()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{thread} is left"


def failures(broken: type[Asking], names: list[str], **attributes: Any) -> dict[str, BaseException]:
    made = type("Made", (HandWritten,), {"subscriber": broken, **attributes})
    failed: dict[str, BaseException] = {}
    for name in names:
        try:
            getattr(made(), name)()
        except Exception as error:  # noqa: BLE001 - whatever a test fails with
            failed[name] = error
    return failed


def is_of(test: str, rule: str) -> bool:
    section, number = rule.split(".")
    return test.startswith(f"test_{section}_{int(number):02}_")


@pytest.mark.parametrize("broken", ALL, ids=str)
def test_broken_subscriber_fails_the_test_of_its_rule(broken: Broken) -> None:
    own = [name for name in EVERY_TEST if is_of(name, broken.rule)]
    failed = failures(broken.subscriber, own, patience=0.2, settling=0.02)
    assert failed != {}
    for error in failed.values():
        assert any(f"§{broken.rule}: {RULES[broken.rule].text}" in note for note in error.__notes__)


@pytest.mark.parametrize("broken", ALL, ids=str)
def test_broken_subscriber_passes_the_tests_of_the_other_rules(broken: Broken) -> None:
    others = [
        name
        for name in EVERY_TEST
        if not is_of(name, broken.rule) and "*" not in broken.also and name[5:9] not in broken.also
    ]
    assert failures(broken.subscriber, others, settling=0.005) == {}


def test_every_rule_of_subscribers_is_broken() -> None:
    tested = {rule.number for rule in RULES.values() if any("Subscriber" in test for test in rule.tested_by)}
    assert {broken.rule for broken in ALL} == tested


def test_subscriber_that_hangs_is_given_up_and_its_place_told() -> None:
    hanging = type("Hanging", (HandWritten,), {"subscriber": HoldsItsLockWhileItAsks, "patience": 0.1})
    with pytest.raises(AssertionError, match=r"(?s)did not come back within 0\.2 s.*asking\.acquire"):
        hanging().test_3_10_takes_items_inside_request()


def test_cancelling_is_tested_only_where_it_can_be_triggered() -> None:
    class Uncancellable(SubscriberContract):
        def create_subscriber(self) -> Subscriber[Any]:
            return Asking()

        def trigger_request(self, subscriber: Any) -> None: ...

    assert Uncancellable.left_out == {
        "test_2_06_cancels_what_is_no_longer_needed": "trigger_cancel is not given",
        "test_2_08_takes_items_after_its_cancel": "trigger_cancel is not given",
    }


class Unlocked(Subscriber[Any]):
    """Needs no lock: its signals are serial."""

    subscription: Any = None

    def on_subscribe(self, subscription: Any) -> None:
        if self.subscription is None:
            self.subscription = subscription
            subscription.request(1)
        else:
            subscription.cancel()

    def on_next(self, value: Any) -> None:
        self.subscription.request(1)

    def on_error(self, error: Exception) -> None: ...

    def on_completed(self) -> None: ...


class OnControlledThreads(SubscriberContract):
    def create_subscriber(self) -> Subscriber[Any]:
        return Unlocked()

    def trigger_request(self, subscriber: Any) -> None: ...


@pytest.mark.seeds(2, soak=200)
@pytest.mark.parametrize("name", sorted(set(EVERY_TEST) - set(OnControlledThreads.left_out)))
def test_contract_runs_on_controlled_threads(name: str, seed: int) -> None:
    run(lambda _: getattr(OnControlledThreads(), name)(), seed)
