"""W10: RxPY's operators, lifted and plain. What does demand cost them?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reactivex import operators as ops

from benchmarks.evidence import Evidence, Message
from benchmarks.workloads.workload import WINDOW, Workload, numbered, order_check

__all__ = ["CHAINS", "operator_chain"]

_BUFFER = 10

CHAINS = ("map", "filter", "scan", "buffer", "all")


def operator_chain(count: int | None = None, *, chain: str) -> Workload:
    """W10: one key; the function of the chain's first operator checks the order, so all pay for it alike."""
    total = count or 100_000
    evidence = Evidence(numbered(((0,) for _ in range(total)), total), WINDOW)
    note = order_check(evidence)
    return Workload(evidence, note, evidence.source, operators=_operators(chain, note))


def _operators(chain: str, note: Callable[[Message], None]) -> Sequence[Callable[[Any], Any]]:
    def check(message: Message) -> Message:
        note(message)
        return message

    def checks(message: Message) -> bool:
        note(message)
        return True

    def check_next(number: int, message: Message) -> int:
        note(message)
        return number + 1

    def check_all(messages: list[Message]) -> int:
        for message in messages:
            note(message)
        return len(messages)

    chains: dict[str, Sequence[Callable[[Any], Any]]] = {
        "map": (ops.map(check),),
        "filter": (ops.filter(checks),),
        "scan": (ops.scan(check_next, seed=0),),
        "buffer": (ops.buffer_with_count(_BUFFER), ops.map(check_all)),
        "all": (
            ops.map(check),
            ops.filter(lambda message: message[0] == 0),
            ops.scan(lambda number, _: number + 1, seed=0),
            ops.buffer_with_count(_BUFFER),
        ),
    }
    return chains[chain]
