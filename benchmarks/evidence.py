"""Evidence that a run was right: order within a key, nothing lost or doubled, never more in flight than the bound.

Checking is part of every handler, so it must be cheap and cost each contestant the same. Order costs one comparison a
message. The bound is looked at in some hundred messages of a run that are drawn beforehand (`probed`), and without any
counter that threads would have to share: what was pulled is known from the length that the source's iterator has left,
what was finished is the sum over all keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from operator import length_hint
from typing import Any

__all__ = ["PROBES", "Evidence", "Message"]

Message = tuple[Any, ...]
"""(key, number within the key from 0, probed, ...): a bare tuple, since unpacking a named one costs twice as much."""

PROBES = 300
"""In about so many messages of a run the bound is looked at."""

_IN_HAND = 1
"""One message may be pulled and wait for its admission in the hands of the thread that pulled it."""


class Evidence:
    """What the handlers of one run saw.

    `finished` holds the number of finished messages of each key. An entry is written by whoever runs a message of its
    key, hence by one thread at a time if the contestant is right; if it isn't, that is what shows.
    """

    def __init__(self, messages: Sequence[Message], window: int, shares: int = 1) -> None:
        self.expected: Counter[Hashable] = Counter(message[0] for message in messages)
        self.finished: dict[Hashable, int] = dict.fromkeys(self.expected, 0)
        self.out_of_order: list[Message] = []
        self.peak_in_flight = 0
        self.sources: list[Iterator[Message]] = _shared(messages, shares)
        """Several if the keys are divided among so many, each with a window of its own."""
        self.source = self.sources[0]
        self.total = len(messages)
        self.began = 0.0
        """When the run began; a contestant that must start processes first sets it anew."""
        self._allowed = window * shares
        self._in_hand = _IN_HAND * shares

    def probe(self) -> None:
        """Note how many messages are in flight.

        Pulled is read before finished: what other threads do in between makes the difference smaller, never larger, so
        nobody is blamed for a bound that was kept.
        """
        pulled = self.total - sum(map(length_hint, self.sources))
        in_flight = pulled - sum(self.finished.values())
        if in_flight > self.peak_in_flight:
            self.peak_in_flight = in_flight

    def problems(self, *, ordered: bool = True, bounded: bool = True) -> list[str]:
        """Say what was wrong, in words; an empty list means that all promises were kept."""
        found: list[str] = []
        if ordered and self.out_of_order:
            first = self.out_of_order[0]
            found.append(f"order broken {len(self.out_of_order)} times, first at number {first[1]} of key {first[0]!r}")
        wrong = [key for key, count in self.expected.items() if self.finished[key] != count]
        if ordered and wrong:
            found.append(f"{len(wrong)} keys unfinished or overdone, one of them {wrong[0]!r}")
        if sum(self.finished.values()) != self.total:
            found.append(f"{sum(self.finished.values())} of {self.total} messages finished")
        if bounded and self.peak_in_flight > self._allowed + self._in_hand:
            found.append(f"{self.peak_in_flight} messages in flight, {self._allowed} allowed")
        return found


def _shared(messages: Sequence[Message], shares: int) -> list[Iterator[Message]]:
    if shares == 1:
        return [iter(messages)]
    shared: list[list[Message]] = [[] for _ in range(shares)]
    for message in messages:
        shared[hash(message[0]) % shares].append(message)
    return [iter(share) for share in shared]
