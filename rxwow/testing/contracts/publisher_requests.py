"""§3: what a subscription does with requests."""

from __future__ import annotations

import sys
from functools import partial
from typing import Final

from rxwow.errors import InvalidRequestError
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing.contracts.attempts import Attempts
from rxwow.testing.contracts.calls import Call
from rxwow.testing.contracts.contract import checks, require
from rxwow.testing.contracts.publishing import Action, ContractProbe, Kind, PublisherTests, needs

__all__ = ["PublisherRequests"]

_INVALID: Final = (0, -1, -(2**63))

_LEAST_FOR_STACK: Final = 200
_MOST_FOR_STACK: Final = 500
_MOST_GROWTH: Final = 100
"""Frames by which the stack may differ from item to item; fewer than items, so growth with each is seen."""


def _emits_asynchronously(contract: type[PublisherTests]) -> str:
    return "emits_asynchronously is set" if contract.emits_asynchronously else ""


class PublisherRequests(PublisherTests, abstract=True):
    """See `PublisherContract`."""

    @checks("3.2", needs(3))
    def test_3_02_request_works_inside_signals(self, kind: Kind) -> None:
        count = self._count(20)

        def ask(probe: ContractProbe) -> None:
            attempts(lambda: probe.request(1))

        attempts = Attempts()
        with self._subscribed(kind, count, on_item=ask, first=lambda probe: probe.request(1)) as probe:
            self._completes(probe, count)
        attempts.check()

    @checks("3.3", needs(_LEAST_FOR_STACK))
    def test_3_03_stack_stays_flat(self, kind: Kind) -> None:
        count = self._count(_MOST_FOR_STACK)
        depths: list[int] = []

        def ask(probe: ContractProbe) -> None:
            depths.append(_stack_depth())
            attempts(lambda: probe.request(1))

        attempts = Attempts()
        with self._subscribed(kind, count, on_item=ask) as probe:
            probe.request(1)
            self._comes(probe, lambda: len(probe.items) == count or probe.ended)
            self._kept("3.3", probe)
            require(len(probe.items) == count, f"{count} items were to come; {probe}")
        growth = max(depths) - min(depths)
        require(growth < _MOST_GROWTH, f"the stack grew by {growth} frames in {count} items")
        attempts.check()

    @checks("3.4", needs(2))
    def test_3_04_request_comes_back(self, kind: Kind) -> None:
        # Also while a signal is given on another thread.
        self._during_a_signal(kind, lambda probe: probe.request(1))

    @checks("3.6")
    def test_3_06_request_after_cancel_does_nothing(self, kind: Kind) -> None:
        with self._subscribed(kind, self._count(10)) as probe:
            probe.cancel()
            self._settle()
            before = probe.received
            for n in (1, UNBOUNDED, 0, -1):
                probe.request(n)
            self._settle()
            require(probe.received == before, f"a request after the cancel was answered; {probe}")

    @checks("3.8", needs(5))
    def test_3_08_requests_add_up(self, kind: Kind) -> None:
        def ask(probe: ContractProbe) -> None:
            if not asked:
                asked.append(probe)
                for n in (1, 1, 3):
                    probe.request(n)

        asked: list[ContractProbe] = []
        count = self._count(20)
        with self._subscribed(kind, count, on_item=ask) as probe:
            for n in (1, 2, 6):
                probe.request(n)
            self._comes(probe, lambda: asked and probe.satisfied)
            self._settle()
            expected = min(probe.requested, count)
            require(len(probe.items) == expected, f"{expected} items were to come; {probe}")

    @checks("3.8", needs(40))
    def test_3_08_requests_of_threads_add_up(self, kind: Kind) -> None:
        def ask() -> None:
            for _ in range(10):
                probe.request(1)

        with self._subscribed(kind, self._count(50)) as probe:
            self._together(*[ask] * 4)
            self._comes(probe, lambda: probe.satisfied)
            self._settle()
            require(len(probe.items) == 40, f"four threads requested 10 items each; {probe}")

    @checks("3.9", needs(1))
    def test_3_09_invalid_request_ends_with_an_error(self, kind: Kind) -> None:
        for n in _INVALID:
            with self._subscribed(kind, self._count(10)) as probe:
                probe.request(n)
                self._ends(probe)
                before = probe.received
                probe.request(1)
                self._settle()
                _check_refusal(probe.errors, n, str(probe))
                require(probe.received == before, f"signals came after a request({n}); {probe}")

    @checks("3.9", needs(2))
    def test_3_09_invalid_request_inside_a_signal_ends_with_an_error(self, kind: Kind) -> None:
        def ask(probe: ContractProbe) -> None:
            if not attempts.made:
                attempts(lambda: probe.request(0))

        attempts = Attempts()
        with self._subscribed(kind, self._count(20), on_item=ask) as probe:
            probe.request(1)
            self._ends(probe)
            _check_refusal(probe.errors, 0, str(probe))
        attempts.check()

    @checks("3.10", _emits_asynchronously, needs(2))
    def test_3_10_request_emits_before_it_returns(self, kind: Kind) -> None:
        with self._subscribed(kind, self._count(20)) as probe:
            for n in (1, 1):
                probe.request(n)
                require(probe.satisfied, f"emits_asynchronously should be True: an item came later; {probe}")
            self._on_one_thread(probe)

    @checks("3.11", _emits_asynchronously)
    def test_3_11_request_ends_before_it_returns(self, kind: Kind) -> None:
        with self._subscribed(kind, self._count(3)) as probe:
            probe.request(UNBOUNDED)
            require(probe.ended, f"emits_asynchronously should be True: the end came later; {probe}")
            self._on_one_thread(probe)

    @checks("3.16")
    def test_3_16_request_returns_normally(self, kind: Kind) -> None:
        attempts = Attempts()

        def ask(probe: ContractProbe) -> None:
            if len(attempts.made) < 5:
                attempts(lambda: probe.request(1))

        count = self._count(10)
        with self._subscribed(
            kind, count, on_item=ask, first=lambda probe: attempts(lambda: probe.request(1))
        ) as probe:
            for n in (1, UNBOUNDED, 1, 0):
                attempts(partial(probe.request, n))
        with self._subscribed(kind, count) as probe:
            for n in (0, -1, 1):
                attempts(partial(probe.request, n))
        with self._subscribed(kind, count) as probe:
            probe.cancel()
            for n in (1, 0):
                attempts(partial(probe.request, n))
        attempts.check()

    @checks("3.17")
    def test_3_17_demand_reaches_unbounded(self, kind: Kind) -> None:
        count = self._count(20)

        def first(probe: ContractProbe) -> None:
            for n in (1, UNBOUNDED - 1, UNBOUNDED, 1):
                attempts(partial(probe.request, n))

        attempts = Attempts()
        with self._subscribed(kind, count, first=first) as probe:
            self._completes(probe, count)
        attempts.check()

    @checks("3.17", needs(100))
    def test_3_17_many_requests_are_served(self, kind: Kind) -> None:
        count = self._count(500)
        with self._subscribed(kind, count) as probe:
            for _ in range(count):
                probe.request(1)
            self._comes(probe, lambda: probe.satisfied)
            require(len(probe.items) == count, f"{count} items were to come; {probe}")

    def _on_one_thread(self, probe: ContractProbe) -> None:
        threads = {signal.thread for signal in probe.signals}
        require(len(threads) == 1, f"emits_asynchronously should be True: signals came on another thread; {probe}")

    def _during_a_signal(self, kind: Kind, action: Action) -> None:
        """Do something on two threads at once while `on_next` is held on another; it must come back meanwhile."""
        inside, go_on = self._platform.event(), self._platform.event()

        def stay(_: ContractProbe) -> None:
            inside.set()
            go_on.wait(2 * self.patience)

        with self._subscribed(kind, self._count(20), on_item=stay) as probe:
            holder = Call(self._platform, lambda: probe.request(1))
            try:
                require(inside.wait(self.patience), f"no item came; {probe}")
                self._together(*[lambda: action(probe)] * 2)
            finally:
                go_on.set()
            holder.check(self.patience)


def _check_refusal(errors: list[Exception], n: int, told: str) -> None:
    refused = len(errors) == 1 and isinstance(errors[0], InvalidRequestError)
    require(refused, f"request({n}) was to end the stream with an InvalidRequestError; {told}")


def _stack_depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
