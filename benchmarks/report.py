"""The medians, as tables to read and as JSON to keep."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.harness import Standing, find, ratio
from benchmarks.workloads import SPEED, TITLES, WORKLOADS, group_of

__all__ = ["as_json", "as_text"]


def as_text(standings: Sequence[Standing]) -> str:
    """Give one table for each row of measurements, and below what the names mean."""
    lines: list[str] = []
    for group in dict.fromkeys(group_of(standing.workload) for standing in standings):
        peers = [standing for standing in standings if group_of(standing.workload) == group]
        lines += [*_table(group, peers, standings), ""]
    for name in dict.fromkeys(standing.contestant for standing in standings):
        lines.append(f"{name:<18}{CONTESTANTS[name].about}")
    lines += [
        "",
        "Thousand messages a second and microseconds for each, medians; x: as a multiple of that one, more is better.",
        f"{_machine()}. Differences under 1.3 x are noise.",
    ]
    return "\n".join(lines)


def as_json(standings: Sequence[Standing]) -> dict[str, Any]:
    """Give all that was measured, single samples included."""
    workloads: dict[str, dict[str, Any]] = {}
    for standing in standings:
        timed = WORKLOADS[standing.workload].score == SPEED
        units = _units([other for other in standings if other.workload == standing.workload])
        workloads.setdefault(standing.workload, {})[standing.contestant] = {
            "messages_per_second": standing.speed if timed else None,
            "ratios": {name: ratio(standing, find(standings, standing.workload, name)) for name in units},
            "ratio_to_base": ratio(standing, _base(standing, standings)),
            "figures": standing.figures,
            "samples": [sample.speed for sample in standing.samples] if timed else [],
            "sample_figures": [sample.figures for sample in standing.samples],
            "messages": max((sample.messages for sample in standing.samples), default=None),
            "peak_in_flight": max((sample.peak_in_flight for sample in standing.samples), default=None),
            "failures": standing.failures,
        }
    return {"machine": _machine(), "workloads": workloads}


def _table(group: str, peers: Sequence[Standing], standings: Sequence[Standing]) -> Iterator[str]:
    spec = WORKLOADS[peers[0].workload]
    timed = ["thousand/s", "from - to", "us each"] if spec.score == SPEED else []
    units = _units(peers) if spec.score else []
    figures = list(dict.fromkeys(name for standing in peers for name in standing.figures))
    messages = max((sample.messages for standing in peers for sample in standing.samples), default=0)
    yield f"{group}: {TITLES[group]}; {messages:,} messages at most"
    heads = [*timed, *(f"x {name}" for name in units), *([f"x {spec.base}"] if spec.base else []), *figures]
    widths = [18 if head == "from - to" else max(13, len(head) + 2) for head in heads]
    names = [_label(standing) for standing in peers]
    wide = max(16, *(len(name) + 1 for name in names))
    yield f"  {'':<{wide}}" + _row(heads, widths)
    for name, standing in zip(names, peers, strict=True):
        cells = list(_cells(standing, standings, units, figures))
        shown = f"failed: {standing.failures[0]}" if standing.failures else _row(cells, widths)
        yield f"  {name:<{wide}}{shown}"


def _cells(
    standing: Standing, standings: Sequence[Standing], units: Sequence[str], figures: Sequence[str]
) -> Iterator[str]:
    spec = WORKLOADS[standing.workload]
    if spec.score == SPEED:
        speeds = [sample.speed / 1e3 for sample in standing.samples]
        speed = standing.speed
        yield _number(speed / 1e3) if speed else "-"
        yield f"{_number(min(speeds))} - {_number(max(speeds))}" if speeds else "-"
        yield _number(1e6 / speed) if speed else "-"
    for name in units:
        yield _shown(ratio(standing, find(standings, standing.workload, name)))
    if spec.base:
        yield _shown(ratio(standing, _base(standing, standings)))
    for name in figures:
        figure = standing.figures.get(name)
        yield "-" if figure is None else _number(figure)


def _label(standing: Standing) -> str:
    """Say which point of its row it is, if it is one."""
    point = standing.workload.removeprefix(group_of(standing.workload)).removeprefix("-")
    return f"{point} {standing.contestant}".strip()


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _units(peers: Sequence[Standing]) -> list[str]:
    return list(dict.fromkeys(each.contestant for each in peers if CONTESTANTS[each.contestant].unit))


def _base(standing: Standing, standings: Sequence[Standing]) -> Standing | None:
    base = WORKLOADS[standing.workload].base
    return find(standings, base, standing.contestant) if base else None


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # Only those Pythons that can do without it have the function.
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    python = f"{platform.python_implementation()} {platform.python_version()}{' free-threaded' if free else ''}"
    return f"{python}, {platform.machine()}, {cores} cores"
