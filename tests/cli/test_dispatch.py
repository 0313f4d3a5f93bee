"""`rxwow dispatch` from the command line to its report, in this process."""

import gzip
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rxwow.cli import run as run_module
from rxwow.cli.intake import Intake
from rxwow.cli.order import Message
from rxwow.cli.wording import count_of
from tests.cli.conftest import Done

Write = Callable[[str, str | bytes], Path]
Command = Callable[..., Done]

HANDLERS = """
    import asyncio
    import os
    import signal
    import threading
    from concurrent.futures import Future

    import reactivex

    seen = []

    def record(row):
        seen.append((row["key"], row["number"]))
        return {"key": row["key"], "number": row["number"]}

    async def record_later(row):
        await asyncio.sleep(0)
        return record(row)

    def record_in_future(row):
        future = Future()
        future.set_result(record(row))
        return future

    def record_as_observable(row):
        return reactivex.of(record(row))

    started = 0
    five_started = asyncio.Event()

    async def wait_for_five(row):
        global started
        started += 1
        if started == 5:
            five_started.set()
        await five_started.wait()

    all_read = threading.Event()

    def record_when_all_is_read(row):
        all_read.wait()
        return record(row)

    closing = threading.Event()

    def interrupt(row):
        if not closing.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            closing.wait()
        return record(row)

    def record_nothing(row):
        record(row)

    def fail_at_7(row):
        if row["number"] in (7, "7"):
            raise ValueError("not\\nseven")
        return record(row)

    async def fail_at_7_later(row):
        await asyncio.sleep(0)
        return fail_at_7(row)

    def leave_at_7(row):
        if row["number"] in (7, "7"):
            raise SystemExit(3)

    def fail_always(row):
        raise ValueError(row["number"])

    def return_what_is_no_json(row):
        return object()
"""

NUMBERS = range(100)


@pytest.fixture
def folder(write: Write) -> Path:
    write("data.csv", "key,number\n" + "".join(f"k{number % 7},{number}\n" for number in NUMBERS))
    write("data.ndjson", "".join(json.dumps({"key": number % 7, "number": number}) + "\n" for number in NUMBERS))
    write("packed", gzip.compress(b"key,number\nk1,1\n"))
    return write("handlers.py", HANDLERS).parent


@pytest.fixture
def dispatch(folder: Path, command: Command) -> Command:
    """Run `rxwow dispatch` by the field `key`."""

    def dispatch(file: str, function: str, *options: str) -> Done:
        return command("dispatch", file, "--key", "key", "--handler", f"handlers:{function}", *options)

    return dispatch


def figures(done: Done) -> dict[str, str]:
    """The rows of the report by their names."""
    rows = [line.strip().split("  ", 1) for line in done.error.splitlines() if line.startswith("  ")]
    return {name: text.strip() for name, text in rows}


def by_key(results: list[dict[str, Any]]) -> dict[Any, list[int]]:
    numbers: dict[Any, list[int]] = {}
    for result in results:
        numbers.setdefault(result["key"], []).append(int(result["number"]))
    return numbers


HANDLER_NAMES = ["record", "record_later", "record_in_future", "record_as_observable"]


@pytest.mark.parametrize("function", HANDLER_NAMES)
@pytest.mark.parametrize(("file", "keys"), [("data.csv", [f"k{n}" for n in range(7)]), ("data.ndjson", list(range(7)))])
def test_results_are_written_in_the_order_of_each_key(
    dispatch: Command, folder: Path, function: str, file: str, keys: list[object]
) -> None:
    done = dispatch(file, function, "--output", "out.ndjson", "--workers", "3")
    assert (done.status, done.output) == (0, ""), done
    results = [json.loads(line) for line in (folder / "out.ndjson").read_text().splitlines()]
    assert by_key(results) == {key: [n for n in NUMBERS if n % 7 == place] for place, key in enumerate(keys)}
    rows = figures(done)
    assert rows["messages"].startswith("100 in ")
    assert rows["keys"] == f"7; the hottest: {keys[0]!r} 15, {keys[1]!r} 15, {keys[2]!r} 14"
    assert rows["results"] == "100, written to out.ndjson"
    assert rows["failures"] == "0"
    assert rows["order kept"] == "yes, checked for each of 100 messages"


def test_without_output_results_are_only_counted(dispatch: Command) -> None:
    done = dispatch("data.csv", "record")
    assert done.output == ""
    assert figures(done)["results"] == "100"


def test_none_is_no_result(dispatch: Command, folder: Path) -> None:
    done = dispatch("data.csv", "record_nothing", "--output", "out.ndjson")
    assert figures(done)["results"] == "0, written to out.ndjson"
    assert (folder / "out.ndjson").read_text() == ""


def test_results_go_to_standard_output_and_the_report_does_not(dispatch: Command) -> None:
    done = dispatch("data.csv", "record", "--output", "-")
    assert len([json.loads(line) for line in done.output.splitlines()]) == 100
    assert figures(done)["results"] == "100, written to standard output"


@pytest.mark.parametrize("content", [b"", b"key,number\n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_no_error(dispatch: Command, write: Write, content: bytes) -> None:
    write("empty.csv", content)
    done = dispatch("empty.csv", "record", "--output", "-")
    assert (done.status, done.output) == (0, "")
    assert figures(done)["messages"].startswith("0 in ")


# Each option has an effect.


def test_the_number_of_workers_is_the_one_asked_for(dispatch: Command) -> None:
    assert figures(dispatch("data.csv", "record", "--workers", "3"))["workers"].startswith("3,")


def test_the_window_is_as_large_as_asked_for(dispatch: Command) -> None:
    rows = figures(dispatch("data.csv", "wait_for_five", "--workers", "1", "--max-in-flight", "5"))
    assert rows["in flight"] == "5 at most, of 5 allowed"


@pytest.mark.parametrize(("throughput", "order"), [("1", "abababab"), ("2", "aabbaabb"), ("16", "aaaabbbb")])
def test_a_turn_is_as_long_as_asked_for(
    dispatch: Command, write: Write, monkeypatch: pytest.MonkeyPatch, throughput: str, order: str
) -> None:
    read_messages = Intake[Any].messages

    def messages(intake: Intake[Any]) -> Iterator[Message[Any]]:
        yield from read_messages(intake)
        import_module("handlers").all_read.set()

    # The worker is held at the first message until the others are in their mailboxes. A source hands messages over in
    # batches, the last of which may come after the end of the file was seen: it holds none but those at the end.
    monkeypatch.setattr(Intake, "messages", messages)
    write("two.csv", "key,number\n" + "first,1\n" + "a,1\n" * 4 + "b,1\n" * 4 + "last,1\n" * 100)
    done = dispatch("two.csv", "record_when_all_is_read", "--workers", "1", "--throughput", throughput, "--output", "-")
    keys = [json.loads(line)["key"] for line in done.output.splitlines()]
    assert "".join(key for key in keys if key in {"a", "b"}) == order
    assert f"up to {count_of(int(throughput), 'message')}" in figures(done)["workers"]


def test_a_forced_format_is_taken(dispatch: Command, write: Write) -> None:
    write("wrong.csv", '{"key": 1, "number": 1}\n')
    assert dispatch("wrong.csv", "record", "--format", "ndjson").status == 0
    assert dispatch("wrong.csv", "record").status == 2


def test_handlers_are_looked_for_where_asked_for(command: Command, folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "others.py").write_text("def record(row): ...")
    arguments = ("dispatch", "data.csv", "--key", "key", "--handler", "others:record")
    assert command(*arguments).status == 2
    assert command(*arguments, "--app-dir", "elsewhere").status == 0


# Failures.


@pytest.mark.parametrize("function", ["fail_at_7", "fail_at_7_later"])
def test_a_failure_ends_the_run_with_one_line(dispatch: Command, function: str) -> None:
    line = HANDLERS[: HANDLERS.index("raise ValueError")].count("\n") + 1
    done = dispatch("data.csv", function, "--workers", "1", "--max-in-flight", "1")
    assert done.status == 1
    assert done.complaint == (
        f"rxwow dispatch: data.csv: line 9, key 'k0': ValueError: not seven (handlers.py, line {line}); "
        "7 messages handled before"
    )


def test_a_handler_that_leaves_has_failed(dispatch: Command) -> None:
    done = dispatch("data.csv", "leave_at_7", "--workers", "1", "--max-in-flight", "1")
    assert done.status == 1
    assert "line 9, key 'k0': SystemExit: 3 (handlers.py, " in done.complaint


def test_a_result_that_is_no_json_is_a_failure_only_where_it_is_written(dispatch: Command) -> None:
    assert dispatch("data.csv", "return_what_is_no_json").status == 0
    done = dispatch("data.csv", "return_what_is_no_json", "--output", "out.ndjson")
    assert done.status == 1
    assert "TypeError: Object of type object is not JSON serializable; 0 messages handled before" in done.complaint


@pytest.mark.parametrize("function", ["fail_at_7", "fail_at_7_later"])
def test_a_skipped_failure_is_told_and_counted(dispatch: Command, function: str) -> None:
    done = dispatch("data.csv", function, "--on-failure", "skip")
    assert done.status == 0
    assert done.error.startswith("rxwow dispatch: skipped data.csv: line 9, key 'k0': ValueError: not seven (")
    rows = figures(done)
    assert (rows["failures"], rows["results"]) == ("1", "99")
    assert rows["messages"].startswith("100 in ")
    assert rows["order kept"].startswith("yes")


def test_of_many_skipped_failures_only_a_few_are_told(dispatch: Command) -> None:
    done = dispatch("data.csv", "fail_always", "--on-failure", "skip")
    assert done.status == 0
    assert done.error.count("skipped") == 5
    assert done.error.count("further failures are counted only") == 1
    assert figures(done)["failures"] == "100"


# What is wrong with the input shows before anything is done, or after all that came before it was.


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("missing.csv", (), "missing.csv: no such file or directory"),
        (".", (), ".: is a directory"),
        ("data.csv", ("--key", "kee"), "data.csv: no field 'kee'; the fields are: key, number; did you mean 'key'?"),
        ("data.csv", ("--format", "ndjson"), "data.csv: line 1: not a JSON object: Expecting value at column 1"),
        (
            "data.csv",
            ("--handler", "handlers"),
            "--handler must be MODULE:FUNCTION, such as planes:record, not 'handlers'",
        ),
        ("data.csv", ("--handler", "handlers:seen"), "--handler: handlers:seen can't be called; it is of type list"),
        ("data.csv", ("--app-dir", "missing"), "--app-dir missing: no such directory"),
        ("data.csv", ("--output", "missing/out"), "--output missing/out: no such file or directory"),
        ("data.csv", ("--output", "."), "--output .: is a directory"),
        ("data.csv", ("--output", "data.csv"), "--output data.csv is the input itself"),
        ("data.csv", ("--output", "./../{folder}/data.csv"), "--output ./../{folder}/data.csv is the input itself"),
    ],
)
def test_bad_input_is_told_in_one_line_before_anything_is_done(
    dispatch: Command, folder: Path, file: str, options: tuple[str, ...], message: str
) -> None:
    before = (folder / "data.csv").read_bytes()
    (folder / "out.ndjson").write_text("results of an earlier run")
    given = [option.format(folder=folder.name) for option in options]
    if "--output" not in given:
        given += ["--output", "out.ndjson"]
    done = dispatch(file, "record", *given)
    assert done.status == 2
    assert done.complaint == f"rxwow dispatch: {message.format(folder=folder.name)}"
    assert (folder / "data.csv").read_bytes() == before
    assert (folder / "out.ndjson").read_text() == "results of an earlier run"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"key,number\na,1\na,2\na\n", "a.csv: line 4: 1 column, but the header has 2"),
        ("a.csv", b"key,number\na,1\na,2\n\xff,3\n", "a.csv: line 4: not UTF-8 (byte 0xff at position 1)"),
        (
            "a.ndjson",
            b'{"key": 1, "number": 1}\n{"key": 1, "number": 2}\n{}\n',
            "a.ndjson: line 3: no field 'key'; the fields are: none",
        ),
    ],
)
def test_what_came_before_a_bad_line_is_handled(
    dispatch: Command, write: Write, folder: Path, name: str, content: bytes, message: str
) -> None:
    write(name, content)
    done = dispatch(name, "record", "--output", "out.ndjson")
    assert done.status == 2
    assert done.complaint == f"rxwow dispatch: {message}; 2 messages handled before"
    assert len((folder / "out.ndjson").read_text().splitlines()) == 2


def test_a_full_disk_ends_the_run_with_one_line(dispatch: Command) -> None:
    done = dispatch("data.csv", "record", "--output", "/dev/full")
    assert done.status == 2
    assert done.complaint == "rxwow dispatch: --output /dev/full: no space left on device"


def test_a_broken_order_is_told_and_is_an_error(dispatch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    # Dispatched as if each message had a key of its own, so those of one key overlap.
    monkeypatch.setattr(run_module, "attrgetter", lambda _name: id)
    done = dispatch("data.csv", "record_later")
    assert done.status == 1
    assert figures(done)["order kept"].startswith("NO, ")


def test_nothing_more_is_read_after_ctrl_c_even_before_the_drain_begins(
    dispatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_ended = threading.Event()
    read_messages = Intake[Any].messages
    close_run = run_module.Run._close

    def messages(intake: Intake[Any]) -> Iterator[Message[Any]]:
        yield from read_messages(intake)
        source_ended.set()

    def close(run: run_module.Run) -> None:
        import_module("handlers").closing.set()
        source_ended.wait()
        close_run(run)

    monkeypatch.setattr(Intake, "messages", messages)
    monkeypatch.setattr(run_module.Run, "_close", close)
    done = dispatch("data.csv", "interrupt", "--workers", "1", "--max-in-flight", "1")
    assert done.status == 130
    assert figures(done)["messages"].startswith("1 in ")


def test_what_was_read_and_not_accepted_is_not_told_as_handled(
    dispatch: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A source drops what it was just pulling when it is cancelled. Here: the second record, after the drain.
    drained, pulled = threading.Event(), threading.Event()
    read_messages = Intake[Any].messages

    def messages(intake: Intake[Any]) -> Iterator[Message[Any]]:
        source = read_messages(intake)
        yield next(source)
        os.kill(os.getpid(), signal.SIGINT)
        drained.wait()
        intake._stopped = False
        second = next(source)
        pulled.set()
        yield second

    def close(run: run_module.Run) -> None:
        run._executor.drain()
        drained.set()
        pulled.wait()
        run._events.put(run_module._Event.CLOSED)

    monkeypatch.setattr(Intake, "messages", messages)
    monkeypatch.setattr(run_module.Run, "_close", close)
    os.mkfifo(folder / "pipe")
    feeder = threading.Thread(target=(folder / "pipe").write_bytes, args=(b"key,number\na,1\na,2\n",))
    feeder.start()
    done = dispatch("pipe", "record")
    feeder.join()
    assert done.status == 130
    assert "rxwow dispatch: stopped; lines up to 2 were handled\n" in done.error
    assert figures(done)["messages"].startswith("1 in ")
    assert "NO HANDLER" not in done.error


def test_an_error_of_the_library_is_told_in_one_line(
    dispatch: Command, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "logging_handler.py").write_text(
        "import logging\n"
        "def record(row):\n"
        "    logging.getLogger('rxwow.execution').warning('not told')\n"
        "    logging.getLogger('rxwow.execution').error('told')\n"
    )
    done = dispatch("packed", "record", "--handler", "logging_handler:record")
    assert done.error.splitlines()[0] == "rxwow dispatch: told"
    assert "not told" not in done.error
