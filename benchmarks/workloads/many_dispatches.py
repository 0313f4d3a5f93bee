"""W8: the same messages over one dispatch or over many of one executor. What does a dispatch cost?"""

from __future__ import annotations

from benchmarks.evidence import Evidence
from benchmarks.workloads.workload import WINDOW, Workload, numbered, order_check

__all__ = ["many_dispatches"]

_KEYS = 1000


def many_dispatches(count: int | None = None, *, dispatches: int) -> Workload:
    """W8: 1,000 keys in turn; the keys are divided among the dispatches, which are subscribed side by side."""
    total = count or 200_000
    # A probe looks at each source and each key, so it is drawn as if for more keys: the same for all.
    messages = numbered(((number % _KEYS,) for number in range(total)), total, keys=3 * _KEYS)
    evidence = Evidence(messages, WINDOW, shares=dispatches)
    return Workload(evidence, order_check(evidence), evidence.source)
