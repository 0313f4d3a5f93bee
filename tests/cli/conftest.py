"""What the tests of the command line share: files, handlers, and ways to run the command."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rxwow.cli import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    output: str
    error: str

    @property
    def complaint(self) -> str:
        """The only line on standard error; nothing may be on standard output."""
        assert self.output == ""
        assert self.error.count("\n") == 1, self.error
        return self.error.rstrip("\n")


@pytest.fixture(autouse=True)
def _leave_imports_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _hear_ctrl_c() -> Iterator[None]:
    """Let the processes of a test hear of Ctrl-C, which one started by a background job inherits as ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file; text is dedented."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        data = textwrap.dedent(content).encode() if isinstance(content, str) else content
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command in this process, in the test's own directory."""

    def leave_at_once(status: int) -> None:
        pytest.fail(f"the command would have ended this process with {status}")

    monkeypatch.setattr("rxwow.cli.dispatch.leave_at_once", leave_at_once)

    def command(*arguments: str | Path) -> Done:
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    return command


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start the command in a process of its own, in the test's own directory."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        *arguments: str | Path, stdin: int | None = subprocess.DEVNULL, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "rxwow", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[bytes]]) -> Callable[..., Done]:
    """Run the command in a process of its own."""

    def run(*arguments: str | Path, given: bytes = b"") -> Done:
        process = start(*arguments, stdin=subprocess.PIPE)
        output, error = process.communicate(given)
        return Done(process.returncode, output.decode(), error.decode())

    return run
