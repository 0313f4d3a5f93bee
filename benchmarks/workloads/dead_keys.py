"""W5: keys that come once and never again. What of them stays in memory?

What Python allocates is traced from just before the run, when all messages are there already, so it is exact; the time
of a traced run says nothing.
"""

from __future__ import annotations

import gc
import tracemalloc

from benchmarks.evidence import Evidence
from benchmarks.workloads.workload import WINDOW, Figures, Workload, numbered, order_check

__all__ = ["dead_keys"]


def dead_keys(count: int | None = None, *, keys: int = 100_000) -> Workload:
    """W5: one message for each key; a smaller count means fewer keys."""
    total = count or keys
    evidence = Evidence(numbered(((key,) for key in range(total)), total, total), WINDOW)
    at_start = 0
    measured: Figures = {}

    def begin() -> None:
        nonlocal at_start
        tracemalloc.start()
        tracemalloc.reset_peak()
        at_start, _ = tracemalloc.get_traced_memory()

    def rest() -> None:
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        measured["held per key, B"] = (held - at_start) / total
        measured["held, KiB"] = (held - at_start) / 1024
        measured["peak, KiB"] = (peak - at_start) / 1024

    return Workload(
        evidence, order_check(evidence), evidence.source, begin=begin, rest=rest, figures=lambda: dict(measured)
    )
