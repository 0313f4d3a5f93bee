"""W6: one message at a time through something that is idle. How long until its result is there?"""

from __future__ import annotations

from benchmarks.evidence import Evidence
from benchmarks.workloads.workload import WINDOW, Figures, Workload, order_check, percentile, uniform

__all__ = ["P50", "single_messages"]

P50 = "p50, us"


def single_messages(count: int | None = None) -> Workload:
    """W6: 100 keys; the contestant sends the next message when the last one's result is there, and notes how long."""
    evidence = Evidence(uniform(count or 5_000, 100), WINDOW)
    latencies: list[float] = []

    def figures() -> Figures:
        return {P50: percentile(latencies, 50) * 1e6, "p99, us": percentile(latencies, 99) * 1e6}

    return Workload(evidence, order_check(evidence), evidence.source, latencies=latencies, figures=figures)
