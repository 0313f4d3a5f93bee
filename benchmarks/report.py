"""The medians, as tables to read and as JSON to keep."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.harness import Standing
from benchmarks.workloads import TITLES

__all__ = ["as_json", "as_text"]


def as_text(standings: Sequence[Standing]) -> str:
    """Give one table a workload, and below what the names mean."""
    lines: list[str] = []
    for workload in dict.fromkeys(standing.workload for standing in standings):
        lines += [*_table([standing for standing in standings if standing.workload == workload]), ""]
    for name in dict.fromkeys(standing.contestant for standing in standings):
        lines.append(f"{name:<16}{CONTESTANTS[name].about}")
    lines += ["", f"Thousand messages a second, medians. {_machine()}. Differences under 1.3 x are noise."]
    return "\n".join(lines)


def as_json(standings: Sequence[Standing]) -> dict[str, Any]:
    """Give all that was measured, single samples included."""
    workloads: dict[str, dict[str, Any]] = {}
    for standing in standings:
        peers = [other for other in standings if other.workload == standing.workload]
        workloads.setdefault(standing.workload, {})[standing.contestant] = {
            "messages_per_second": standing.speed,
            "ratios": {unit.contestant: _ratio(standing, unit) for unit in _units(peers)},
            "cold_p99_seconds": standing.cold_p99,
            "samples": [sample.speed for sample in standing.samples],
            "peak_in_flight": max((sample.peak_in_flight for sample in standing.samples), default=None),
            "failures": standing.failures,
        }
    return {"machine": _machine(), "workloads": workloads}


def _table(peers: Sequence[Standing]) -> Iterator[str]:
    units = _units(peers)
    cold = any(standing.cold_p99 is not None for standing in peers)
    messages = max((sample.messages for standing in peers for sample in standing.samples), default=0)
    yield f"{peers[0].workload}: {TITLES[peers[0].workload]}; {messages:,} messages"
    heads = [
        "thousand/s",
        "from - to",
        *(f"x {unit.contestant}" for unit in units),
        *(["cold p99, ms"] if cold else []),
    ]
    yield f"  {'':<16}" + "".join(f"{head:>15}" for head in heads)
    for standing in peers:
        cells = [f"failed: {standing.failures[0]}"] if standing.failures else list(_cells(standing, units))
        yield f"  {standing.contestant:<16}" + "".join(f"{cell:>15}" for cell in cells)


def _cells(standing: Standing, units: Sequence[Standing]) -> Iterator[str]:
    speeds = [sample.speed / 1e3 for sample in standing.samples]
    yield f"{(standing.speed or 0) / 1e3:,.0f}"
    yield f"{min(speeds):,.0f} - {max(speeds):,.0f}"
    for unit in units:
        ratio = _ratio(standing, unit)
        yield "-" if ratio is None else f"{ratio:.3f}" if ratio < 0.1 else f"{ratio:.2f}"
    if standing.cold_p99 is not None:
        yield f"{standing.cold_p99 * 1e3:.2g}"


def _units(peers: Sequence[Standing]) -> list[Standing]:
    return [standing for standing in peers if CONTESTANTS[standing.contestant].unit]


def _ratio(standing: Standing, unit: Standing) -> float | None:
    return standing.speed / unit.speed if standing.speed and unit.speed else None


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, {cores} cores"
