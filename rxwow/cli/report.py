"""What is told at the end of a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rxwow.cli.order import KeyHistory, OrderChecker
from rxwow.cli.wording import count_of

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one dispatch.

    Attributes:
        title: what was done with what.
        received: messages that should have been handled.
        keys: different keys among them.
        results: results other than None.
        destination: where the results were written; empty if nowhere.
        failures: messages whose handler failed.
        seconds: from the first message asked for to the last one finished.
        hottest: the keys with the most messages, the hottest first.
        most_in_flight: the most messages that were read and not finished at one time.
        window: how many were allowed to be.
        workers: how many threads ran handlers.
        throughput: messages of one key that a worker handled before others got their turn.
        checker: what watched the order.
    """

    title: str
    received: int
    keys: int
    results: int
    destination: str
    failures: int
    seconds: float
    hottest: Sequence[KeyHistory]
    most_in_flight: int
    window: int
    workers: int
    throughput: int
    checker: OrderChecker

    @property
    def lost(self) -> int:
        """Messages that were read and never handled to an end."""
        return self.received - self.checker.finished

    @property
    def sound(self) -> bool:
        """Whether each message that was read was handled once, and in order."""
        return self.lost == 0 and self.checker.violations == 0

    def lines(self) -> list[str]:
        """Return the text, a line each."""
        rate = f", {self.checker.finished / self.seconds:,.0f} a second" if self.checker.finished else ""
        hottest = ", ".join(f"{history.key!r} {history.received:,}" for history in self.hottest)
        written = f", written to {self.destination}" if self.destination else ""
        lost = f"; NO HANDLER for {self.lost:,} more that were read" if self.lost else ""
        rows = [
            ("messages", f"{self.checker.finished:,} in {self.seconds:.2f} s{rate}{lost}"),
            ("keys", f"{self.keys:,}" + (f"; the hottest: {hottest}" if hottest else "")),
            ("results", f"{self.results:,}{written}"),
            ("failures", f"{self.failures:,}"),
            ("in flight", f"{self.most_in_flight:,} at most, of {self.window:,} allowed"),
            ("workers", f"{self.workers:,}, with turns of up to {count_of(self.throughput, 'message')}"),
            ("order kept", self.checker.verdict()),
        ]
        return [self.title, *(f"  {name:<10}  {text}" for name, text in rows)]
