"""§3: what a subscription does when it is cancelled."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Final

from rxwow.streams.protocols import UNBOUNDED, Subscription
from rxwow.testing.contracts.attempts import Attempts
from rxwow.testing.contracts.calls import Call
from rxwow.testing.contracts.contract import checks, require
from rxwow.testing.contracts.publisher_requests import PublisherRequests
from rxwow.testing.contracts.publishing import MANY, ContractProbe, Kind, needs

__all__ = ["PublisherCancels"]

_EMITTED_BEFORE_CANCEL: Final = 10


class PublisherCancels(PublisherRequests, abstract=True):
    """See `PublisherContract`."""

    @checks("3.5", needs(2))
    def test_3_05_cancel_comes_back_on_any_thread(self, kind: Kind) -> None:
        self._during_a_signal(kind, lambda probe: probe.cancel())

    @checks("3.7")
    def test_3_07_cancel_after_cancel_does_nothing(self, kind: Kind) -> None:
        with self._subscribed(kind, self._count(10)) as probe:
            if not probe.ended:
                probe.cancel()
            self._settle()
            before = probe.received
            probe.cancel()
            probe.cancel()
            self._settle()
            require(probe.received == before, f"a second cancel was answered; {probe}")

    @checks("3.12", needs(1000))
    def test_3_12_stops_when_cancelled_from_outside(self, kind: Kind) -> None:
        count = self._count(MANY)
        under_way = self._platform.event()
        cancelled = self._platform.event()

        def on_item(probe: ContractProbe) -> None:
            if len(probe.items) >= _EMITTED_BEFORE_CANCEL and not under_way.is_set():
                under_way.set()
                # Time for the cancel; it doesn't wait for this signal (§3.5), and if it does, this doesn't wait for it.
                cancelled.wait(self.patience / 2)

        with self._subscribed(kind, count, on_item=on_item) as probe:
            probe.allow_after_cancel(count // 2)
            asking = Call(self._platform, lambda: probe.request(UNBOUNDED))
            require(under_way.wait(self.patience), f"{_EMITTED_BEFORE_CANCEL} items were to come; {probe}")
            probe.cancel()
            cancelled.set()
            asking.check(self.patience)
            self._stops(probe)
            require(not probe.ended, f"an end came after the cancel; {probe}")

    @checks("3.13", needs(2))
    def test_3_13_lets_go_of_a_subscriber_that_cancelled(self, kind: Kind) -> None:
        self._lets_go(kind, self._count(10), cancels=True)

    @checks("3.13")
    def test_3_13_lets_go_of_a_subscriber_after_the_end(self, kind: Kind) -> None:
        self._lets_go(kind, self._count(3), cancels=False)

    @checks("3.15")
    def test_3_15_cancel_returns_normally(self, kind: Kind) -> None:
        attempts = Attempts()

        def cancel(probe: ContractProbe) -> None:
            attempts(probe.cancel)

        count = self._count(10)
        with self._subscribed(kind, count, first=cancel) as probe:
            cancel(probe)
        with self._subscribed(kind, count) as probe:
            cancel(probe)
            cancel(probe)
        with self._subscribed(kind, count, on_item=cancel) as probe:
            probe.request(2)
            self._comes(probe, lambda: probe.cancelled or probe.ended)
        with self._subscribed(kind, count) as probe:
            probe.request(UNBOUNDED)
            self._comes(probe, lambda: probe.ended)
            cancel(probe)
        attempts.check()

    def _lets_go(self, kind: Kind, count: int, *, cancels: bool) -> None:
        # What the test has in its hands is kept, as an application might keep it.
        publisher = self.create_publisher(count)
        gone, subscription = self._use(publisher, kind, cancels=cancels)
        due = self._platform.monotonic() + self.patience
        while gone() is not None:
            gc.collect()
            if gone() is None:
                break
            require(self._platform.monotonic() < due, "the subscriber is kept, and nothing is but its subscription")
            self._pause()
        subscription.cancel()

    def _use(self, publisher: Any, kind: Kind, *, cancels: bool) -> tuple[weakref.ref[Any], Subscription]:
        probe = self._probe(kind)
        self._subscribe(publisher, probe)
        if cancels:
            probe.request(1)
            self._comes(probe, lambda: probe.satisfied)
            probe.cancel()
        else:
            probe.request(UNBOUNDED)
            self._ends(probe)
        return weakref.ref(probe), probe.subscription
