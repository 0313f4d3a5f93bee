"""SubscriberContract: the rules of Reactive Streams that a subscriber keeps, as tests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any, Final

from rxwow.streams.emitter import is_valid_request
from rxwow.streams.protocols import BatchSubscriber, Subscriber
from rxwow.testing.contracts.attempts import Attempts
from rxwow.testing.contracts.contract import Contract, checks, require
from rxwow.testing.contracts.subscribing import SubscriberUnderTest

__all__ = ["SubscriberContract"]

_FEW: Final = 5
_MANY: Final = 50


class _PublisherFailure(Exception):
    """What a stream of these tests fails with."""


def _no_trigger_cancel(contract: type[SubscriberContract]) -> str:
    given = contract.trigger_cancel is not SubscriberContract.trigger_cancel
    return "" if given else "trigger_cancel is not given"


class SubscriberContract(Contract, abstract=True):
    """Tests of a `Subscriber`; subclass it, and run the subclass with pytest.

    The tests play the publisher: they call the subscriber one signal at a time and see what it asks of its
    subscription. A `BatchSubscriber` is also given batches. A signal that hangs is given up after twice the `patience`,
    with its stack in the error.

    >>> from rxwow.streams import Subscriber
    >>> class OneByOne(Subscriber):
    ...     subscription = None
    ...
    ...     def on_subscribe(self, subscription):
    ...         if self.subscription is not None:
    ...             subscription.cancel()
    ...             return
    ...         self.subscription = subscription
    ...         subscription.request(1)
    ...
    ...     def on_next(self, value):
    ...         self.subscription.request(1)
    ...
    ...     def on_error(self, error): ...
    ...
    ...     def on_completed(self): ...
    >>> class TestOneByOne(SubscriberContract):
    ...     def create_subscriber(self):
    ...         return OneByOne()
    ...
    ...     def trigger_request(self, subscriber): ...
    >>> TestOneByOne().test_2_05_second_subscription_is_cancelled()
    """

    @abstractmethod
    def create_subscriber(self) -> Subscriber[Any]:
        """Make a subscriber that has no subscription yet."""

    @abstractmethod
    def trigger_request(self, subscriber: Any) -> None:
        """Make a subscriber ask for at least one more item; do nothing if it asks by itself.

        It is also called after the end, when nothing may be asked any more; what it raises then doesn't matter.
        """

    def trigger_cancel(self, subscriber: Any) -> None:
        """Make a subscriber cancel; not given, §2.6 and §2.8 are left out."""
        raise NotImplementedError

    def create_item(self, number: int) -> Any:
        """Make an item that the subscriber can take; by default the number itself."""
        return number

    # §2.

    @checks("2.1")
    def test_2_01_requests_items(self, in_batches: bool) -> None:
        with self._subscribed(in_batches) as tested:
            for _ in range(_FEW):
                tested.ask()
                tested.give(1)

    @checks("2.3")
    def test_2_03_end_calls_nothing_on_the_subscription(self, in_batches: bool) -> None:
        for error in (None, _PublisherFailure()):
            with self._subscribed(in_batches) as tested:
                tested.ask()
                tested.give(1)
                self._pause()
                before = len(tested.subscription.calls)
                tested.end(error)
                # What another thread calls meanwhile may belong to an item.
                inside = [str(call) for call in tested.subscription.calls[before:] if call.thread == get_ident()]
                require(not inside, f"the end called {inside}")

    @checks("2.4")
    def test_2_04_ended_subscription_is_left_alone(self, in_batches: bool) -> None:
        for error in (None, _PublisherFailure()):
            with self._subscribed(in_batches) as tested:
                tested.ask()
                tested.end(error)
                self._pause()
                before = len(tested.subscription.requests)
                with suppress(Exception):
                    self.trigger_request(tested.subscriber)
                self._pause()
                require(len(tested.subscription.requests) == before, f"requested after the end; {tested.subscription}")

    @checks("2.5")
    def test_2_05_second_subscription_is_cancelled(self, in_batches: bool) -> None:
        with self._subscribed(in_batches) as tested:
            second = tested.subscribe_again()
            refused = second.wait_until(lambda: second.cancelled, self.patience)
            require(refused, f"the second subscription was not cancelled; {second}")
            require(not second.requests, f"the second subscription was used; {second}")
            self._pause()
            require(not tested.subscription.cancelled, "the first subscription was cancelled with the second")

    @checks("2.6", _no_trigger_cancel)
    def test_2_06_cancels_what_is_no_longer_needed(self, in_batches: bool) -> None:
        with self._subscribed(in_batches) as tested:
            tested.ask()
            self._cancel(tested)

    @checks("2.7")
    def test_2_07_calls_the_subscription_one_at_a_time(self, in_batches: bool) -> None:
        def stay(tested: SubscriberUnderTest) -> None:
            # So that a call beside it is seen.
            if len(tested.subscription.calls) <= 2 * _FEW:
                self._pause()

        with self._subscribed(in_batches, on_request=stay) as tested:
            for _ in range(_FEW):
                tested.ask()
                tested.give(1)
            self._pause()
            breaches = tested.subscription.breaches
            require(not breaches, f"{breaches}; {tested.subscription}")

    @checks("2.8", _no_trigger_cancel)
    def test_2_08_takes_items_after_its_cancel(self, in_batches: bool) -> None:
        with self._subscribed(in_batches) as tested:
            tested.ask()
            self._cancel(tested)
            self._pause()
            before = len(tested.subscription.requests)
            tested.give(1)
            self._pause()
            require(len(tested.subscription.requests) == before, f"requested after the cancel; {tested.subscription}")

    @checks("2.9")
    def test_2_09_takes_an_early_end(self, in_batches: bool) -> None:
        self._ends_early(in_batches, None)

    @checks("2.10")
    def test_2_10_takes_an_early_error(self, in_batches: bool) -> None:
        self._ends_early(in_batches, _PublisherFailure())

    @checks("2.13")
    def test_2_13_signals_return_normally(self, in_batches: bool) -> None:
        for error in (None, _PublisherFailure()):
            with self._subscribed(in_batches) as tested:
                while tested.given < _MANY:
                    tested.ask()
                    tested.give(_FEW)
                tested.end(error)

    # §3, as far as it binds the subscriber.

    @checks("3.9")
    def test_3_09_requests_at_least_one(self, in_batches: bool) -> None:
        with self._subscribed(in_batches) as tested:
            while tested.given < _MANY:
                tested.ask()
                tested.give(_FEW)
            self._pause()
            invalid = [n for n in tested.subscription.requests if not is_valid_request(n)]
            require(not invalid, f"requested {invalid}")

    @checks("3.10")
    def test_3_10_takes_items_inside_request(self, in_batches: bool) -> None:
        def emit(tested: SubscriberUnderTest) -> None:
            if tested.given < _FEW:
                attempts(tested.give_inside_request)

        attempts = Attempts()
        with self._subscribed(in_batches, on_request=emit) as tested:
            while tested.given < _FEW:
                tested.ask()
                tested.give(1)
        attempts.check()

    @checks("3.11")
    def test_3_11_takes_an_end_inside_request(self, in_batches: bool) -> None:
        attempts = Attempts()

        def end(tested: SubscriberUnderTest) -> None:
            attempts(tested.end_inside_request)

        with self._subscribed(in_batches, on_request=end) as tested:
            if not tested.ended:
                self.trigger_request(tested.subscriber)
            comes = tested.subscription.wait_until(lambda: tested.subscription.requests, self.patience)
            require(comes, f"it did not request an item; {tested.subscription}")
        attempts.check()

    # What a test does.

    def _variants(self) -> Iterable[bool]:
        return (False, True) if isinstance(self.create_subscriber(), BatchSubscriber) else (False,)

    def _described(self, variant: bool) -> str:
        return "items in batches" if variant else "items given singly"

    def _abandon(self) -> None:
        # A subscriber that hangs is not called any more, and nothing else can be done about it.
        pass

    @contextmanager
    def _subscribed(
        self, in_batches: bool, *, on_request: Callable[[SubscriberUnderTest], object] | None = None
    ) -> Generator[SubscriberUnderTest]:
        tested = SubscriberUnderTest(self, self.create_subscriber(), in_batches=in_batches, on_request=on_request)
        tested.subscribe()
        try:
            yield tested
        finally:
            if not (tested.ended or tested.subscription.cancelled):
                # So that it lets go of what it has; that the end works is for its own tests to say.
                with suppress(Exception):
                    tested.end(None)

    def _cancel(self, tested: SubscriberUnderTest) -> None:
        self.trigger_cancel(tested.subscriber)
        cancels = tested.subscription.wait_until(lambda: tested.subscription.cancelled, self.patience)
        require(cancels, f"it did not cancel; {tested.subscription}")

    def _ends_early(self, in_batches: bool, error: Exception | None) -> None:
        for asks in (False, True):
            with self._subscribed(in_batches) as tested:
                if asks:
                    tested.ask()
                tested.end(error)
