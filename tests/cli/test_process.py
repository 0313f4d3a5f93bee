"""`rxwow dispatch` as a process: standard input, signals, streams that were closed, and what it leaves behind."""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from tests.cli.conftest import Done

Start = Callable[..., subprocess.Popen[bytes]]
Write = Callable[[str, str | bytes], Path]

HANDLERS = """
    import asyncio
    import os
    import sys
    from pathlib import Path

    def say(word):
        # Past all buffers, so that the test hears of it now.
        os.write(1, f"{word}\\n".encode())

    def wait_for(name):
        # A pipe that the test opens for writing when it wants this handler to go on.
        with open(name) as pipe:
            pipe.read()

    def record(row):
        return row["number"]

    def say_number(row):
        say(row["number"])

    async def wait_at_gate(row):
        say(f"waiting {row['number']}")
        await asyncio.to_thread(wait_for, f"gate{row['number']}")
        return row["number"]

    async def wait_for_ever(row):
        say(f"waiting {row['number']}")
        try:
            await asyncio.Event().wait()
        finally:
            say("cleaned up")

    def block(row):
        say("waiting")
        wait_for("gate0")

    async def block_in_a_pool(row):
        await asyncio.to_thread(block, row)

    def print_much(row):
        print(row["number"] * 100)
"""

NUMBERS = range(1000)


@pytest.fixture(autouse=True)
def folder(write: Write, tmp_path: Path) -> Path:
    for number in range(3):
        os.mkfifo(tmp_path / f"gate{number}")
    write("data.csv", "key,number\n" + "".join(f"k{number % 7},{number}\n" for number in NUMBERS))
    return write("handlers.py", HANDLERS).parent


def dispatch(function: str, file: str = "data.csv") -> tuple[str, ...]:
    return ("dispatch", file, "--key", "key", "--handler", f"handlers:{function}")


def expect(stream: IO[bytes] | None, line: bytes) -> None:
    """Wait for a line; pytest-timeout ends a wait that is in vain."""
    assert stream is not None
    for read in stream:
        if read.rstrip() == line:
            return
    raise AssertionError(f"{line!r} never came")


def finish(process: subprocess.Popen[bytes]) -> Done:
    output, error = process.communicate()
    return Done(process.returncode, output.decode(), error.decode())


def open_gate(folder: Path, number: int) -> None:
    (folder / f"gate{number}").write_text("")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
@pytest.mark.parametrize(
    "content", [b"key,number\na,1\na,2\n", b'{"key": "a", "number": "1"}\n{"key": "a", "number": "2"}']
)
def test_standard_input_is_read(run: Callable[..., Done], content: bytes, pack: Callable[[bytes], bytes]) -> None:
    done = run(*dispatch("record", "-"), "--output", "-", given=pack(content))
    assert done.status == 0, done
    assert done.output == '"1"\n"2"\n'
    assert "rxwow dispatch: standard input by key to handlers:record" in done.error


def test_what_comes_on_standard_input_is_handled_when_it_comes(start: Start) -> None:
    process = start(*dispatch("record", "-"), "--output", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"key,number\n")
    for number in range(3):
        process.stdin.write(b"a,%d\n" % number)
        process.stdin.flush()
        expect(process.stdout, b'"%d"' % number)
    done = finish(process)
    assert done.status == 0
    assert "messages    3 in" in done.error


def test_empty_standard_input_is_no_error(run: Callable[..., Done]) -> None:
    assert run(*dispatch("record", "-")).status == 0


def test_bad_standard_input_is_told_in_one_line(run: Callable[..., Done]) -> None:
    done = run(*dispatch("record", "-"), given=b"key,number\na\n")
    assert done.status == 2
    assert done.complaint == "rxwow dispatch: standard input: line 2: 1 column, but the header has 2"


def test_a_missing_file_is_told_in_one_line(run: Callable[..., Done]) -> None:
    done = run(*dispatch("record", "missing.csv"))
    assert (done.status, done.complaint) == (2, "rxwow dispatch: missing.csv: no such file or directory")


STOPPING = b"rxwow dispatch: stopping when what was read is handled; Ctrl-C again stops at once"


@pytest.fixture
def three_in_flight(start: Start, write: Write) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a dispatch and wait until a window of three is full: two that run, and between them one that is queued."""
    write("three.csv", "key,number\na,0\na,1\nb,2\n" + "c,3\n" * 1000)

    def three_in_flight(function: str, *options: str) -> subprocess.Popen[bytes]:
        process = start(*dispatch(function, "three.csv"), "--workers", "1", "--max-in-flight", "3", *options)
        expect(process.stdout, b"waiting 0")
        expect(process.stdout, b"waiting 2")
        return process

    return three_in_flight


def test_ctrl_c_finishes_what_was_accepted(
    three_in_flight: Callable[..., subprocess.Popen[bytes]], folder: Path
) -> None:
    process = three_in_flight("wait_at_gate", "--output", "out.ndjson")
    process.send_signal(signal.SIGINT)
    expect(process.stderr, STOPPING)
    open_gate(folder, 0)
    expect(process.stdout, b"waiting 1")
    open_gate(folder, 1)
    open_gate(folder, 2)
    done = finish(process)
    assert done.status == 130, done
    assert sorted((folder / "out.ndjson").read_text().splitlines()) == ['"0"', '"1"', '"2"']
    assert done.error.splitlines()[0] == "rxwow dispatch: stopped; lines up to 4 were handled"
    assert "messages    3 in" in done.error
    assert "order kept  yes, checked for each of 3 messages" in done.error


def test_a_second_ctrl_c_stops_at_once_and_tells_what_was_left(
    three_in_flight: Callable[..., subprocess.Popen[bytes]],
) -> None:
    process = three_in_flight("wait_for_ever")
    process.send_signal(signal.SIGINT)
    expect(process.stderr, STOPPING)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.status == 131
    assert done.error == "rxwow dispatch: stopped at once, 0 messages handled; 3 more had been read and were left\n"
    # What was running was told, and could clean up.
    assert done.output.splitlines() == ["cleaned up", "cleaned up"]


@pytest.mark.parametrize("function", ["block", "block_in_a_pool"])
def test_a_second_ctrl_c_does_not_wait_for_a_handler_that_never_returns(start: Start, function: str) -> None:
    process = start(*dispatch(function), "--workers", "1", "--max-in-flight", "1")
    expect(process.stdout, b"waiting")
    process.send_signal(signal.SIGINT)
    expect(process.stderr, STOPPING)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.status == 131
    assert done.complaint == "rxwow dispatch: stopped at once, 0 messages handled; 1 more had been read and were left"


def test_ctrl_c_ends_the_wait_for_standard_input(start: Start) -> None:
    process = start(*dispatch("say_number", "-"), stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"key,number\na,1\n")
    process.stdin.flush()
    expect(process.stdout, b"1")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr is not None
    error = process.stderr.read().decode()
    assert "stopped; lines up to 2 were handled" in error
    assert "messages    1 in" in error
    assert "Fatal" not in error


def test_ctrl_c_before_the_first_line_of_standard_input(start: Start, folder: Path) -> None:
    (folder / "announcing.py").write_text("import os\nos.write(1, b'imported\\n')\ndef record(row): ...\n")
    process = start(*dispatch("record", "-"), "--handler", "announcing:record", stdin=subprocess.PIPE)
    expect(process.stdout, b"imported")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr is not None
    assert process.stderr.read() == b"rxwow dispatch: stopped\n"


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it(folder: Path) -> None:
    script = f"trap '' INT; exec {sys.executable} -m rxwow {' '.join(dispatch('block'))} --max-in-flight 1 --workers 1"
    (folder / "data.csv").write_text("key,number\na,1\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        ["/bin/sh", "-c", script], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        expect(process.stdout, b"waiting")
        process.send_signal(signal.SIGINT)
        open_gate(folder, 0)
        assert finish(process).status == 0


@pytest.mark.parametrize("options", [("record", "--output", "-"), ("print_much",)])
def test_a_reader_that_goes_away_ends_the_run_quietly(start: Start, write: Write, options: tuple[str, ...]) -> None:
    write("data.csv", "key,number\n" + "".join(f"k{number % 7},{number}\n" for number in range(100_000)))
    function, *more = options
    process = start(*dispatch(function), *more)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait()) == (b"", 141)


def test_help_into_a_reader_that_has_gone_is_quiet(start: Start) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("dispatch", "--help", stdout=writer)
    os.close(writer)
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait()) == (b"", 141)


@pytest.mark.parametrize(("closed", "status"), [("<&-", 0), (">&-", 0), ("2>&-", 0)])
def test_a_stream_may_be_missing(folder: Path, closed: str, status: int) -> None:
    command = f"exec {sys.executable} -m rxwow {' '.join(dispatch('record'))} {closed}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == status, done.stderr
    assert done.stdout == b""


def test_a_missing_standard_input_is_told_where_it_is_asked_for(folder: Path) -> None:
    command = f"exec {sys.executable} -m rxwow {' '.join(dispatch('record', '-'))} <&-"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"rxwow dispatch: standard input: bad file descriptor\n")


def test_a_terminal_gets_a_bar_and_a_pipe_none(folder: Path, run: Callable[..., Done]) -> None:
    assert "\x1b" not in run(*dispatch("record")).error
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rxwow", *dispatch("record")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=end,
    )
    os.close(end)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # what Linux says when nobody writes to a terminal any more
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    assert process.wait() == 0
    assert b"\x1b[" in shown
    assert b"order kept" in shown


def test_results_are_json_and_whole_lines(run: Callable[..., Done]) -> None:
    done = run(*dispatch("record"), "--output", "-", "--workers", "4")
    assert done.status == 0
    assert sorted(int(json.loads(line)) for line in done.output.splitlines()) == list(NUMBERS)
