"""The picture shows what was recorded, can be read, and says what to install where it can't be drawn."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from itertools import combinations
from typing import Any

import pytest
from matplotlib.colors import to_hex

from rxwow.errors import InvalidArgumentError
from rxwow.observability import TimelineRecorder
from rxwow.observability.plot import plot_timeline
from rxwow.testing import ControlledPlatform, run

IN_ORDER, VIOLATION, FAILED = "#0072b2", "#e69f00", "#ffffff"

Message = tuple[str, int]


def recorded(scenario: Callable[[ControlledPlatform, Callable[[Message], Any]], object]) -> TimelineRecorder:
    """Record a scenario on virtual time, in which a message takes as many seconds as its number."""
    recorder = TimelineRecorder()

    def play(platform: ControlledPlatform) -> None:
        def handle(message: Message) -> None:
            platform.sleep(message[1])
            if message[0] == "broken":
                raise LookupError(message)

        scenario(platform, recorder.wrap(handle, key=lambda message: message[0], order=lambda message: message[1]))

    run(play)
    return recorder


def side_by_side(platform: ControlledPlatform, handler: Callable[[Message], Any]) -> None:
    """Handle two messages of `a` at once and then one of `b`."""
    other = platform.thread(lambda: handler(("a", 4)), "other")
    other.start()
    platform.sleep(1)
    handler(("a", 2))
    other.join()
    handler(("b", 4))


def one_after_the_other(_: ControlledPlatform, handler: Callable[[Message], Any]) -> None:
    handler(("b", 1))
    handler(("a", 1))


def bars(axes: Any) -> list[tuple[float, float, str]]:
    """Where each bar begins and ends, and its colour, from left to right."""
    drawn = [
        (bar.get_x(), bar.get_x() + bar.get_width(), to_hex(bar.get_facecolor()))
        for container in axes.containers
        for bar in container
    ]
    return sorted(drawn)


def lanes(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_a_bar_lasts_as_long_as_its_run_and_a_violation_has_a_colour_of_its_own() -> None:
    (axes,) = plot_timeline(recorded(side_by_side)).axes
    assert bars(axes) == [(0, 4, IN_ORDER), (1, 3, VIOLATION), (4, 8, IN_ORDER)]
    assert lanes(axes) == ["a", "b"]
    assert axes.get_xlabel() == "time since the first message began (s)"
    assert axes.get_ylabel() == "key"


def test_bars_that_overlap_are_under_each_other() -> None:
    (axes,) = plot_timeline(recorded(side_by_side)).axes
    rows = [container[0].get_y() + container[0].get_height() / 2 for container in axes.containers]
    assert rows == pytest.approx([0, 1, 2])
    # The name of a lane stands in the middle of its rows.
    assert list(axes.get_yticks()) == pytest.approx([0.5, 2])


def test_the_lanes_may_be_threads() -> None:
    (axes,) = plot_timeline(recorded(side_by_side), lanes="thread").axes
    assert lanes(axes) == ["other", "MainThread"]
    assert sorted(text.get_text() for text in axes.texts) == ["a 2", "a 4", "b 4"]
    assert axes.get_ylabel() == "thread"


def test_several_recorders_share_the_scale_and_the_order_of_lanes() -> None:
    recorders = {"pool": recorded(side_by_side), "lines": recorded(one_after_the_other)}
    figure = plot_timeline(recorders, title="What it shows")
    above, below = figure.axes
    assert [axes.get_title("left") for axes in figure.axes] == ["pool", "lines"]
    assert above.get_xlim() == below.get_xlim()
    assert above.get_shared_x_axes().joined(above, below)
    assert lanes(above) == lanes(below) == ["a", "b"]
    assert [axes.get_xlabel() != "" for axes in figure.axes] == [False, True]
    assert figure.get_suptitle() == "What it shows"


def legend_of(figure: Any) -> list[str]:
    return [text.get_text().partition(":")[0] for text in figure.legends[0].get_texts()]


def test_the_legend_tells_of_what_is_there() -> None:
    def fail(_: ControlledPlatform, handler: Callable[[Message], Any]) -> None:
        with pytest.raises(LookupError):
            handler(("broken", 1))

    failing = recorded(fail)
    figure = plot_timeline(failing)
    assert legend_of(figure) == ["one message", "failed"]
    assert bars(figure.axes[0]) == [(0, 1, FAILED)]
    assert legend_of(plot_timeline(recorded(one_after_the_other))) == ["one message"]
    every = plot_timeline({"failing": failing, "side by side": recorded(side_by_side)})
    assert legend_of(every) == ["one message", "order broken", "failed"]


def test_short_runs_are_in_milliseconds_and_runs_of_no_time_are_seen() -> None:
    def be_quick(platform: ControlledPlatform, handler: Callable[[Message], Any]) -> None:
        handler(("a", 0))
        platform.sleep(0.25)
        handler(("a", 0))

    (axes,) = plot_timeline(recorded(be_quick)).axes
    assert [(began, ended > began) for began, ended, _ in bars(axes)] == [(0, True), (250, True)]
    assert axes.get_xlabel().endswith("(ms)")


def test_all_in_no_time_is_drawn() -> None:
    assert len(bars(plot_timeline(recorded(lambda _, handler: handler(("a", 0)))).axes[0])) == 1


def test_a_run_that_has_not_ended_reaches_to_the_edge() -> None:
    recorder = TimelineRecorder()
    pending: Future[None] = Future()

    def scenario(platform: ControlledPlatform) -> None:
        recorder.wrap(platform.sleep, key=str)(1)
        recorder.wrap(lambda _: pending, key=str)("pending")
        recorder.wrap(platform.sleep, key=str)(4)

    run(scenario)
    (axes,) = plot_timeline(recorder).axes
    assert bars(axes) == [(0, 1, IN_ORDER), (1, 5, IN_ORDER), (1, 5, IN_ORDER)]


def test_labels_are_left_out_where_bars_are_too_narrow() -> None:
    def many(_: ControlledPlatform, handler: Callable[[Message], Any]) -> None:
        for _number in range(200):
            handler(("a", 1))

    assert len(plot_timeline(recorded(many)).axes[0].texts) == 0


def test_nothing_is_written_over_something_else_or_cut_off() -> None:
    def hold_many(_: ControlledPlatform, handler: Callable[[Message], Any]) -> None:
        for number in range(12):
            handler((f"a customer with a long name {number}", 1))

    recorders = {"first of all": recorded(hold_many), "and then": recorded(side_by_side)}
    figure: Any = plot_timeline(recorders, title="A title")
    figure.canvas.draw()
    inside = figure.bbox
    texts = [figure._suptitle, *figure.legends[0].get_texts(), figure.axes[-1].xaxis.label]
    for axes in figure.axes:
        texts += [axes.yaxis.label, *axes.get_yticklabels(), *axes.texts, axes._left_title]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    assert [name for name, box in boxes if not inside.containsx(box.x0) or not inside.containsx(box.x1)] == []
    assert [name for name, box in boxes if not inside.containsy(box.y0) or not inside.containsy(box.y1)] == []
    assert [(one, other) for (one, box), (other, over) in combinations(boxes, 2) if box.overlaps(over)] == []


def test_a_notebook_is_given_an_image() -> None:
    assert plot_timeline(recorded(side_by_side))._repr_png_().startswith(b"\x89PNG")


def test_it_refuses_what_it_can_not_draw() -> None:
    empty, wrong = TimelineRecorder(), "column"
    pending: Future[None] = Future()
    empty.wrap(lambda _: pending, key=str)
    for nothing in (empty, {"empty": empty}, {}):
        with pytest.raises(InvalidArgumentError, match="recorders"):
            plot_timeline(nothing)
    with pytest.raises(InvalidArgumentError, match="lanes"):
        plot_timeline(recorded(side_by_side), lanes=wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_matplotlib_it_says_what_to_install() -> None:
    done = python("import sys; sys.modules['matplotlib'] = None; import rxwow.observability.plot")
    assert 'pip install "rxwow[notebook]"' in done.stderr.splitlines()[-1]


def test_the_recorder_does_without_matplotlib_and_nothing_draws_by_pyplot() -> None:
    loaded = "print([name in sys.modules for name in ('matplotlib', 'matplotlib.pyplot')])"
    assert python(f"import sys, rxwow.observability; {loaded}").stdout == "[False, False]\n"
    assert python(f"import sys, rxwow.observability.plot; {loaded}").stdout == "[True, False]\n"
