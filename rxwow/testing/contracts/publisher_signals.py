"""§1: what a publisher signals, and when."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from rxwow.streams.protocols import UNBOUNDED, Publisher
from rxwow.testing.contracts.calls import Call
from rxwow.testing.contracts.contract import checks, require
from rxwow.testing.contracts.publishing import MANY, ContractProbe, Kind, PublisherTests, needs

__all__ = ["PublisherSignals"]

_HELD: Final = 3
"""In how many signals the test of §1.3 stays for a while."""


class _SubscriberFailure(Exception):
    """What a subscriber of these tests raises."""


def _cannot_fail(contract: type[PublisherTests]) -> str:
    return "" if contract._can_fail() else "create_failed_publisher is not given"


class PublisherSignals(PublisherTests, abstract=True):
    """See `PublisherContract`."""

    @checks("1.1", needs(1))
    def test_1_01_emits_at_most_what_was_requested(self, kind: Kind) -> None:
        with self._subscribed(kind, self._count(20)) as probe:
            self._settle()
            for n in (1, 1, 2, 5):
                probe.request(n)
                if not self._comes(probe, lambda: probe.satisfied):
                    break
                self._settle()
            self._kept("1.1", probe)

    @checks("1.2")
    def test_1_02_ends_when_more_is_requested_than_there_is(self, kind: Kind) -> None:
        count = self._count(10)
        with self._subscribed(kind, count) as probe:
            probe.request(count + 5)
            self._completes(probe, count)

    @checks("1.3", needs(1))
    def test_1_03_signals_one_at_a_time(self, kind: Kind) -> None:
        count = self._count(20)
        calls: list[Call] = []
        seen: list[ContractProbe] = []

        def on_item(probe: ContractProbe) -> None:
            seen.append(probe)
            if len(seen) <= _HELD:
                # Whoever asks meanwhile must not emit.
                calls.append(Call(self._platform, lambda: probe.request(1)))
                calls[-1].returned_within(self.settling)
            if len(seen) <= _HELD or len(seen) == count:
                # Nor may anything else come meanwhile, the end for example.
                self._pause()

        with self._subscribed(kind, count, on_item=on_item) as probe:
            probe.request(1)
            self._comes(probe, lambda: probe.satisfied)
            self._together(*[lambda: probe.request(2)] * 4)
            probe.request(UNBOUNDED)
            self._comes(probe, lambda: probe.ended)
            self._settle()
            self._kept("1.3", probe)
        for call in calls:
            call.check(self.patience)

    @checks("1.4", _cannot_fail)
    def test_1_04_failure_is_signalled(self, kind: Kind) -> None:
        with self._subscribed(kind, 0, publisher=self.create_failed_publisher()) as probe:
            probe.request(UNBOUNDED)
            self._ends(probe)
            self._settle()
            require(len(probe.errors) == 1 and not probe.completions, f"on_error should have been the end; {probe}")
            self._kept("1.4", probe)

    @checks("1.5")
    def test_1_05_end_is_signalled(self, kind: Kind) -> None:
        for count in sorted({0, self._count(10)}):
            with self._subscribed(kind, count) as probe:
                if count:
                    probe.request(count)
                    self._comes(probe, lambda: probe.satisfied)
                # Some see their end only when they are asked for more.
                probe.request(1)
                self._completes(probe, count)

    @checks("1.6")
    def test_1_06_ended_subscription_is_cancelled(self, kind: Kind) -> None:
        for publisher in self._publishers_that_end():
            with self._subscribed(kind, 0, publisher=publisher) as probe:
                probe.request(UNBOUNDED)
                self._ends(probe)
                self._settle()
                before = probe.received
                probe.request(0)
                probe.cancel()
                probe.cancel()
                self._settle()
                require(probe.received == before, f"a call after the end was answered; {probe}")

    @checks("1.7")
    def test_1_07_nothing_after_the_end(self, kind: Kind) -> None:
        for publisher in self._publishers_that_end():
            with self._subscribed(kind, 0, publisher=publisher) as probe:
                probe.request(UNBOUNDED)
                self._ends(probe)
                probe.request(1)
                probe.request(UNBOUNDED)
                self._settle()
                self._kept("1.7", probe)

    @checks("1.8", needs(1000))
    def test_1_08_stops_when_cancelled_inside_a_signal(self, kind: Kind) -> None:
        count = self._count(MANY)

        def on_item(probe: ContractProbe) -> None:
            if not probe.cancelled:
                probe.cancel()

        with self._subscribed(kind, count, on_item=on_item) as probe:
            probe.allow_after_cancel(count // 2)
            probe.request(UNBOUNDED)
            require(self._comes(probe, lambda: probe.cancelled), f"no item came; {probe}")
            self._stops(probe)
            require(not probe.ended, f"an end came although the first item cancelled; {probe}")

    @checks("1.9")
    def test_1_09_calls_on_subscribe_first(self, kind: Kind) -> None:
        for publisher in self._publishers_that_end():
            with self._subscribed(kind, 0, publisher=publisher) as probe:
                probe.request(UNBOUNDED)
                self._comes(probe, lambda: probe.ended)
                self._kept("1.9", probe)

    @checks("1.10")
    def test_1_10_each_subscriber_is_answered(self, kind: Kind) -> None:
        count = self._count(10)
        publisher = self.create_publisher(count)
        with (
            self._subscribed(kind, 0, publisher=publisher) as first,
            self._subscribed(kind, 0, publisher=publisher) as second,
        ):
            self._is_answered(second, count)
            self._is_answered(first, count)
        with self._subscribed(kind, 0, publisher=publisher) as later:
            self._is_answered(later, count)

    @checks("1.11", needs(3))
    def test_1_11_subscribers_do_not_disturb_each_other(self, kind: Kind) -> None:
        publisher = self.create_publisher(self._count(20))
        with self._subscribed(kind, 0, publisher=publisher) as first:
            first.request(1)
            self._comes(first, lambda: first.satisfied)
            with self._subscribed(kind, 0, publisher=publisher) as second:
                second.request(1)
                self._comes(second, lambda: second.satisfied)
                self._settle()
                require(len(first.items) <= 1 and len(second.items) <= 1, f"demand is shared; {first}\n{second}")
            before = len(first.items)
            first.request(1)
            require(
                self._comes(first, lambda: first.completions or len(first.items) > before) and not first.errors,
                f"the cancel of one subscriber ended the other; {first}",
            )

    @checks("2.12")
    def test_2_12_calls_on_subscribe_once(self, kind: Kind) -> None:
        count = self._count(3)
        with self._subscribed(kind, count) as probe:
            probe.request(count + 1)
            self._comes(probe, lambda: probe.ended)
            self._settle()
            self._kept("2.12", probe)

    @checks("2.13", needs(3))
    def test_2_13_subscriber_that_raises_counts_as_cancelled(self, kind: Kind) -> None:
        def on_item(_: ContractProbe) -> None:
            raise _SubscriberFailure("raised by the test, to see what the publisher does")

        with self._subscribed(kind, self._count(20), on_item=on_item) as probe:
            # It may tell the error to whoever asked, or log it, or both.
            with suppress(_SubscriberFailure):
                probe.request(1)
            require(self._comes(probe, lambda: probe.items), f"no item came; {probe}")
            self._settle()
            with suppress(_SubscriberFailure):
                probe.request(5)
            self._settle()
            names = [signal.name for signal in probe.signals if signal.name.startswith("on_")]
            raised = next(number for number, name in enumerate(names) if name.startswith("on_next"))
            require(not names[raised + 1 :], f"a subscriber that had raised was signalled again; {probe}")

    def _is_answered(self, probe: ContractProbe, count: int) -> None:
        probe.request(count + 1)
        answered = self._comes(probe, lambda: probe.items or probe.ended)
        require(answered, f"a subscriber got neither an item nor an end; {probe}")

    def _publishers_that_end(self) -> list[Publisher[Any]]:
        counts = sorted({0, self._count(3)})
        failed = [self.create_failed_publisher()] if self._can_fail() else []
        return [self.create_publisher(count) for count in counts] + failed
