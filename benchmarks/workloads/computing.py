"""W7: handlers that compute, in Python and without a pause. What do more workers and more processes bring?"""

from __future__ import annotations

from benchmarks.evidence import Evidence, Message
from benchmarks.workloads.workload import WINDOW, Workload, order_check, uniform

__all__ = ["burn", "computing"]

_ROUNDS = 1000


def burn(message: Message) -> Message:
    """Compute for about 100 microseconds; always the same work, so that it takes as long as the Python needs for it."""
    total = 0
    for number in range(_ROUNDS):
        # A larger constant is an object, whose references threads without the GIL would count one after another.
        total += number * number & 255
    return message


def computing(count: int | None = None) -> Workload:
    """W7: 100 keys; the handler burns 100 microseconds and checks the order.

    A process can't see the evidence, so there the results are checked, which come in order within a key as well.
    """
    evidence = Evidence(uniform(count or 10_000, 100), WINDOW)
    note = order_check(evidence)

    def check(message: Message) -> Message:
        note(message)
        return message

    def handle(message: Message) -> None:
        note(burn(message))

    return Workload(evidence, handle, evidence.source, compute=burn, check=check)
