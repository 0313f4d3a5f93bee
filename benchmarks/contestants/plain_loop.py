"""The limit of Python: nothing but the handlers, one after the other."""

from __future__ import annotations

from benchmarks.workloads import Workload

__all__ = ["plain_loop"]


def plain_loop(workload: Workload) -> None:
    """Handle each message where it is pulled."""
    handle = workload.handle
    for message in workload.source:
        handle(message)
