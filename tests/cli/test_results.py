"""Results are counted, and written where they shall go."""

import gzip
import io
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.results import Results, StandardOutputClosedError, encode_result

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_a_result_is_one_line_of_json(value: Any) -> None:
    line = encode_result(value)
    assert line.count("\n") == 1
    assert json.loads(line.encode()) == value


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert encode_result("é\ud800") == '"\\u00e9\\ud800"\n'


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}])
def test_what_json_does_not_know_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_result(value)


def test_results_are_only_counted_where_no_output_is_asked_for() -> None:
    with Results(None) as results:
        results.take("")
        results.take(None)
        results.take("")
    assert (results.count, results.destination) == (2, "")


@pytest.mark.parametrize(("name", "read"), [("out.ndjson", Path.read_bytes), ("out.ndjson.gz", gzip.open)])
def test_results_go_to_a_file_which_loses_what_it_held(tmp_path: Path, name: str, read: Callable[[Path], Any]) -> None:
    path = tmp_path / name
    path.write_text("what it held")
    with Results(str(path)) as results:
        for line in ("1\n", None, '"é"\n'):
            results.take(line)
    content = read(path)
    if not isinstance(content, bytes):
        with content:
            content = content.read()
    assert content == '1\n"é"\n'.encode()
    assert results.count == 2
    assert results.destination == str(path)


def test_each_result_is_written_through_where_somebody_waits(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with Results(str(path), at_once=True) as results:
        results.take("1\n")
        assert path.read_text() == "1\n"


def test_results_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with Results("-") as results:
        results.take("1\n")
    assert capsys.readouterr().out == "1\n"
    assert results.destination == "standard output"


def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match=r"^--output .*: is a directory$"):
        Results(str(tmp_path))
    with pytest.raises(BadInputError, match=r"^--output .*: no such file or directory$"):
        Results(str(tmp_path / "missing" / "out"))
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(BadInputError, match=r"^--output standard output: standard output is closed$"):
        Results("-")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which Linux has")  # noqa: PTH110
@pytest.mark.parametrize("at_once", [False, True])
def test_a_full_disk_is_told(at_once: bool) -> None:
    with (
        pytest.raises(BadInputError, match=r"^--output /dev/full: no space left on device$"),
        Results("/dev/full", at_once=at_once) as results,
    ):
        results.take("1\n")


class Closed(io.StringIO):
    def flush(self) -> None:
        raise BrokenPipeError


def test_a_reader_that_has_gone_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    results = Results("-", at_once=True)
    with pytest.raises(StandardOutputClosedError):
        results.take("1\n")
    results.take("2\n")
    results.close()


def test_the_error_that_is_under_way_is_the_one_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(ValueError, match="first"), Results("-"):
        raise ValueError("first")


def test_a_write_that_hangs_does_not_hang_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(io.StringIO):
        def flush(self) -> None:
            pytest.fail("this would wait for ever")

    monkeypatch.setattr(sys, "stdout", Hanging())
    results = Results("-")
    results.writing = True
    results.close()
