"""Throughput over the window, the messages of a turn and the keys, as pictures; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.harness import Standing
from benchmarks.workloads import TITLES, group_of

__all__ = ["can_plot", "plot"]

_AXES = {
    "W8": "dispatches",
    "W9-window": "window (max_in_flight)",
    "W9-throughput": "throughput (messages of a key in one turn)",
    "W9-keys": "keys",
}
_DOTS = 120


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def plot(standings: Sequence[Standing], folder: Path) -> list[Path]:
    """Write one PNG for each row of measurements that has numbers to draw over.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for group in _AXES:
        peers = [each for each in standings if group_of(each.workload) == group and each.speed]
        if peers:
            paths.append(folder / f"{group}.png")
            _draw(group, peers, paths[-1])
    return paths


def _draw(group: str, peers: Sequence[Standing], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # matplotlib leaves its keywords untyped.
    figure: Any = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name in dict.fromkeys(each.contestant for each in peers):
        points = sorted(_points(each) for each in peers if each.contestant == name)
        middles = [middle for _, _, middle, _ in points]
        ends = [[middle - low for _, low, middle, _ in points], [high - middle for _, _, middle, high in points]]
        axes.errorbar([at for at, *_ in points], middles, yerr=ends, marker="o", capsize=3, label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(_AXES[group])
    axes.set_ylabel("thousand messages a second")
    axes.set_title(TITLES[group], fontsize=10)
    axes.legend()
    figure.savefig(path, dpi=_DOTS)


def _points(standing: Standing) -> tuple[int, float, float, float]:
    """Give the place on the axis, and the least, the median and the most."""
    speeds = [sample.speed / 1e3 for sample in standing.samples]
    return int(standing.workload.rpartition("-")[2]), min(speeds), (standing.speed or 0.0) / 1e3, max(speeds)
