"""plot_timeline: what a `TimelineRecorder` noted, as a picture; needs matplotlib."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Literal

from rxwow.errors import InvalidArgumentError
from rxwow.observability.timeline import HandlerRun, TimelineRecorder

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'plot_timeline draws with matplotlib, which is missing; get it with: pip install "rxwow[notebook]"',
        name=error.name,
    ) from error

__all__ = ["TimelineFigure", "plot_timeline"]

# What is handed to matplotlib is Any here: its own signatures leave their keywords untyped.
_Style = dict[str, Any]
_By = Literal["key", "thread"]

# Blue and orange of Okabe and Ito: told apart by all kinds of colour vision, and in grey by the outline.
_IN_ORDER: Final[_Style] = {"facecolor": "#0072B2", "edgecolor": "white", "linewidth": 0.8}
_VIOLATION: Final[_Style] = {"facecolor": "#E69F00", "edgecolor": "black", "linewidth": 1.4}
_FAILED: Final[_Style] = {"facecolor": "white", "edgecolor": "#0072B2", "linewidth": 1.4, "hatch": "///"}

_WIDTH: Final = 9.0
_ROW_HEIGHT: Final = 0.27
"""Inches, as is the width."""
_DOTS: Final = 120
"""Of an image in a notebook, to the inch."""
_CHARACTER: Final = 0.085
"""Inches that a character of a bar's label takes, with some room."""
_LEAST_WIDTH: Final = 0.004
"""Of the whole time: a run that took none at all is still seen."""


class TimelineFigure(Figure):
    """A matplotlib figure that a notebook shows when it is the value of a cell, without pyplot."""

    def _repr_png_(self) -> bytes:
        image = BytesIO()
        figure: Any = self
        figure.savefig(image, format="png", dpi=_DOTS)
        return image.getvalue()


@dataclass(frozen=True, slots=True)
class _Bar:
    run: HandlerRun
    began: float
    ended: float
    label: str
    row: int
    """Runs of a lane that overlap are in different rows of it."""


@dataclass(frozen=True, slots=True)
class _Lane:
    name: str
    bars: list[_Bar]
    rows: int


def plot_timeline(
    recorders: TimelineRecorder | Mapping[str, TimelineRecorder],
    *,
    title: str | None = None,
    lanes: _By = "key",
) -> TimelineFigure:
    """Draw which message ran when: a bar for each, in the lane of its key or of its thread.

    Bars of one lane that overlap are drawn under each other. A bar in a second colour, with a black outline, broke the
    order of its key; a hatched one failed. A bar shows the message's place in its key, where the recorder was told and
    there is room; among the bars of a thread, the key as well.

    Args:
        recorders: what to draw; several, by their titles, are drawn under each other on one scale of time.
        title: what the picture shows, in a sentence.
        lanes: "key" or "thread"; in the order of their first messages, one recorder after the other.

    Returns:
        The figure, which a notebook shows; `savefig` writes it to a file.

    Raises:
        InvalidArgumentError: there is nothing to draw, or `lanes` is neither.

    >>> recorder = TimelineRecorder()
    >>> handler = recorder.wrap(str, key=lambda number: number % 2)
    >>> results = [handler(number) for number in range(4)]
    >>> figure = plot_timeline(recorder, title="Even and odd numbers")
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['0', '1']
    """
    if lanes not in ("key", "thread"):
        raise InvalidArgumentError("lanes", lanes, '"key" or "thread"')
    by_title = {"": recorders} if isinstance(recorders, TimelineRecorder) else recorders
    runs = {name: recorder.runs for name, recorder in by_title.items()}
    if not any(runs.values()):
        raise InvalidArgumentError("recorders", recorders, "one or more that have noted a message")
    longest = max(max(run.began, run.ended or 0.0) for of_one in runs.values() for run in of_one)
    scale, unit = (1, "s") if longest >= 1 else (1000, "ms")
    end = longest * scale or 1.0
    # The lanes of all panels in one order, or a lane would have to be looked for in each.
    in_order = list(dict.fromkeys(_lane_of(run, lanes) for of_one in runs.values() for run in of_one))
    panels = {name: _lanes(of_one, in_order, lanes, scale, end) for name, of_one in runs.items()}
    figure = _draw(panels, end, f"time since the first message began ({unit})", lanes)
    if title is not None:
        untyped: Any = figure
        untyped.suptitle(title, x=0.01, horizontalalignment="left", fontsize=12, fontweight="bold")
    return figure


def _lane_of(run: HandlerRun, by: _By) -> Hashable:
    return run.key if by == "key" else run.thread


def _lanes(runs: Sequence[HandlerRun], in_order: Sequence[Hashable], by: _By, scale: float, end: float) -> list[_Lane]:
    of_lanes: dict[Hashable, list[HandlerRun]] = {}
    for run in runs:
        of_lanes.setdefault(_lane_of(run, by), []).append(run)
    return [_lane(str(lane), of_lanes[lane], by, scale, end) for lane in in_order if lane in of_lanes]


def _lane(name: str, runs: Sequence[HandlerRun], by: _By, scale: float, end: float) -> _Lane:
    free_from: list[float] = []
    bars: list[_Bar] = []
    for run in sorted(runs, key=lambda run: run.began):
        began = run.began * scale
        ended = max(end if run.ended is None else run.ended * scale, began + _LEAST_WIDTH * end)
        row = next((row for row, free in enumerate(free_from) if free <= began), len(free_from))
        free_from[row : row + 1] = [ended]
        bars.append(_Bar(run, began, ended, _label(run, by), row))
    return _Lane(name, bars, len(free_from))


def _draw(panels: Mapping[str, list[_Lane]], end: float, time: str, by: _By) -> TimelineFigure:
    rows = [max(1, sum(lane.rows for lane in panel)) for panel in panels.values()]
    height = sum(rows) * _ROW_HEIGHT + 0.5 * len(rows) + 1.1
    drawn = TimelineFigure(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasAgg(drawn)
    figure: Any = drawn
    every_axes = figure.subplots(len(rows), sharex=True, squeeze=False, height_ratios=[row + 0.6 for row in rows])
    bars = [bar for panel in panels.values() for lane in panel for bar in lane.bars]
    # One width for all, or of bars that look alike some would have a label and some not.
    legible_from = max(len(bar.label) for bar in bars) * _CHARACTER / (0.85 * _WIDTH) * end
    for axes, (name, panel) in zip(every_axes[:, 0], panels.items(), strict=True):
        _draw_panel(axes, panel, legible_from)
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_xlim(0, end * 1.005)
        axes.set_ylabel(by)
    every_axes[-1, 0].set_xlabel(time)
    _add_legend(figure, [bar.run for bar in bars])
    return drawn


def _draw_panel(axes: Any, lanes: Sequence[_Lane], legible_from: float) -> None:
    top = 0
    centres: list[float] = []
    for lane in lanes:
        if top:
            axes.axhline(top - 0.5, color="0.85", linewidth=0.8, zorder=0)
        for bar in lane.bars:
            _draw_bar(axes, bar, top + bar.row, _style(bar.run), legible_from)
        centres.append(top + (lane.rows - 1) / 2)
        top += lane.rows
    axes.set_yticks(centres, [lane.name for lane in lanes])
    axes.set_ylim(max(top, 1) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bar(axes: Any, bar: _Bar, row: int, style: _Style, legible_from: float) -> None:
    width = bar.ended - bar.began
    axes.barh(row, width, left=bar.began, height=0.84, **style)
    if not bar.label or width < legible_from:
        return
    colour = "white" if style is _IN_ORDER else "black"
    # White behind it where it would be crossed by the hatching.
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8} if "hatch" in style else None
    middle = (bar.began + bar.ended) / 2
    axes.text(middle, row, bar.label, color=colour, fontsize=8, ha="center", va="center_baseline", bbox=behind)


def _style(run: HandlerRun) -> _Style:
    if run.violates:
        return {**_VIOLATION, "hatch": _FAILED["hatch"]} if run.failed else _VIOLATION
    return _FAILED if run.failed else _IN_ORDER


def _label(run: HandlerRun, by: _By) -> str:
    parts = [str(run.key)] if by == "thread" else []
    if run.order is not None:
        parts.append(str(run.order))
    return " ".join(parts)


def _add_legend(figure: Any, runs: Sequence[HandlerRun]) -> None:
    handles = [Patch(**_IN_ORDER, label="one message")]
    if any(run.violates for run in runs):
        handles.append(Patch(**_VIOLATION, label="order broken: began before an earlier one of its key had ended"))
    if any(run.failed for run in runs):
        handles.append(Patch(**_FAILED, label="failed"))
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9)
