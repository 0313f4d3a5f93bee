"""The progress bar: on a terminal where rich is installed, and nowhere else."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rxwow.cli import progress
from rxwow.cli.progress import progress_bar
from rxwow.cli.source import Source

Write = Callable[[str, str | bytes], Path]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def source(write: Write) -> Source:
    return Source(str(write("a.csv", "a\n1\n")))


def test_a_terminal_shows_how_far_it_is(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with source, progress_bar(source, lambda: 1234) as update:
        assert update is not None
        source.stream.read()
        update()
    assert "1,234 messages" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_a_pipe_shows_nothing(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    with source, progress_bar(source, lambda: 1) as update:
        assert update is None
    assert capsys.readouterr() == ("", "")


def test_without_rich_nothing_is_shown(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "find_spec", lambda _name: None)
    with source, progress_bar(source, lambda: 1) as update:
        assert update is None
    assert terminal.getvalue() == ""


def test_without_standard_error_nothing_is_shown(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with source, progress_bar(source, lambda: 1) as update:
        assert update is None


def test_what_is_printed_into_a_pipe_does_not_go_to_the_terminal(
    source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with source, progress_bar(source, lambda: 1):
        sys.stdout.write("printed by a handler\n")
    assert capsys.readouterr().out == "printed by a handler\n"
    assert "printed" not in terminal.getvalue()
