"""The notebooks run, and what they print is what their text says."""

import ast
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat as untyped_nbformat
import pytest

nbformat: Any = untyped_nbformat

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
LONGEST_CELL = 60
PNG = b"\x89PNG"
EXECUTE = Path(__file__).with_name("execute.py")


def overlaps_in_threads_and_none_in_mailboxes(violations: dict[str, int]) -> None:
    # Each of ann's events begins while the one before it sleeps, unless three idle threads slept through all of them.
    assert violations["thread pool"] > 0
    assert violations["flat_map and subscribe_on"] > 0
    assert violations["keyed_dispatch"] == 0


def cold_keys_wait_for_one_turn_of_the_hot_one(turns: dict[int, dict[str, int]]) -> None:
    assert turns == {
        1: {"ann": 1, "bob": 2, "cleo": 3},
        16: {"ann": 16, "bob": 18, "cleo": 20},
        1_000_000: {"ann": 32, "bob": 34, "cleo": 36},
    }


def a_retry_holds_up_its_group(done: dict[str, dict[str, float]]) -> None:
    # 7 s of backoff, 3 failed calls and 4 that succeed: 10.5 s; a group handles the other key's 4 in between.
    assert done == {
        "grouped_dispatch with two groups": {"order-1": 12.0, "order-3": 12.5, "order-4": 2.0},
        "keyed_dispatch": {"order-1": 10.5, "order-3": 2.0, "order-4": 2.0},
    }


EXPECTED: dict[str, Callable[[Any], None]] = {
    "01_one_key_one_line": overlaps_in_threads_and_none_in_mailboxes,
    "02_fair_turns": cold_keys_wait_for_one_turn_of_the_hot_one,
    "03_groups_and_mailboxes": a_retry_holds_up_its_group,
}


def test_each_notebook_has_its_numbers() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(EXPECTED)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_numbers_are_as_told(path: Path, tmp_path: Path) -> None:
    executed = tmp_path / path.name
    # In a process of its own, since the client leaves sockets to the garbage collector and a warning is an error here.
    command = [sys.executable, str(EXECUTE), str(path), str(executed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (cell,) = [cell for cell in nbformat.read(executed, as_version=4).cells if cell.cell_type == "code"]
    # Standard error is not looked at: matplotlib may say there that it looks for fonts, the first time on a machine.
    (printed,) = [output.text for output in cell.outputs if output.get("name") == "stdout"]
    (picture,) = [output for output in cell.outputs if output.output_type == "execute_result"]
    EXPECTED[path.stem](ast.literal_eval(printed))
    assert b64decode(picture.data["image/png"]).startswith(PNG)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_screen_between_two_texts_and_is_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "markdown"]
    assert len(notebook.cells[1].source.splitlines()) <= LONGEST_CELL
    stored = [(cell.outputs, cell.execution_count) for cell in notebook.cells if cell.cell_type == "code"]
    assert stored == [([], None)], f"take the outputs out with: nbstripout {path.name}"
    # What a front end adds of the machine it ran on.
    assert notebook.metadata.keys() <= {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}
