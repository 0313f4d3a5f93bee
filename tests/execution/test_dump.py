"""dump_on: a signal makes the process say why nothing moves."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import InvalidArgumentError, UsageError
from rxwow.execution.dump import dump_on
from tests.execution.collecting import PATIENCE, Collector
from tests.execution.handlers import Gate

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")


class Report(io.StringIO):
    """Says when a report has been written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()
        self.fails = False

    def write(self, text: str) -> int:
        if self.fails:
            raise OSError("the disk is full")
        return super().write(text)

    def flush(self) -> None:
        super().flush()
        self.arrived.set()

    def wait(self) -> str:
        assert self.arrived.wait(PATIENCE)
        self.arrived.clear()
        return self.getvalue()


@pytest.fixture
def stuck() -> Generator[KeyedExecutor]:
    gate = Gate()
    executor = KeyedExecutor(1, name="till")
    collector = Collector(10)
    operator = keyed_dispatch(str, gate, executor=executor, name="charge")
    Flowable.from_iterable(["ann"]).pipe(operator).subscribe(collector)
    gate.wait_for_arrivals(1)
    yield executor
    gate.let_go()
    assert executor.drain(PATIENCE)


def dump_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rxwow-dump")]


def end(dump: Any) -> None:
    (thread,) = dump_threads()
    dump.dispose()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_signal_prints_why_nothing_moves(stuck: KeyedExecutor) -> None:
    report = Report()
    dump = dump_on(signal.SIGUSR1, file=report)
    os.kill(os.getpid(), signal.SIGUSR1)
    text = report.wait()
    assert text.startswith("rxwow: ")
    assert f"in process {os.getpid()}, " in text
    assert "\nexecutor 'till' is open\n  dispatch 'charge': the handler of key 'ann' has been running for " in text
    os.kill(os.getpid(), signal.SIGUSR1)
    assert report.wait().count("executor 'till' is open") == 2
    end(dump)


def test_it_is_printed_while_the_main_thread_waits(stuck: KeyedExecutor) -> None:
    report = Report()
    dump = dump_on(signal.SIGUSR1, file=report)
    main = threading.get_ident()
    sender = threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGUSR1))
    sender.start()
    # The handler comes in the middle of this.
    assert "dispatch 'charge'" in report.wait()
    sender.join(PATIENCE)
    end(dump)


def test_locks_that_the_interrupted_main_thread_holds_do_no_harm(stuck: KeyedExecutor) -> None:
    report = Report()
    dump = dump_on(signal.SIGUSR1, file=report)
    (dispatch,) = stuck._dispatches
    with stuck._lock, dispatch.lock:
        os.kill(os.getpid(), signal.SIGUSR1)
        # The handler has run: Python runs it before the call returns, or a few steps later.
        assert not report.arrived.wait(0.05)
    assert "dispatch 'charge': the handler" in report.wait()
    end(dump)


def test_what_was_there_before_is_put_back(stuck: KeyedExecutor) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        with dump_on(signal.SIGUSR1, file=Report()) as dump:
            os.kill(os.getpid(), signal.SIGUSR1)
            (thread,) = dump_threads()
        thread.join(PATIENCE)
        assert came == []
        os.kill(os.getpid(), signal.SIGUSR1)
        assert came == [signal.SIGUSR1]
        dump.dispose()
        assert dump_threads() == []
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_another_handler_that_came_later_stays() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    dump = dump_on(signal.SIGUSR1, file=Report())
    came: list[int] = []
    ours: Any = signal.getsignal(signal.SIGUSR1)

    def both(number: int, frame: Any) -> None:
        came.append(number)
        ours(number, frame)

    try:
        signal.signal(signal.SIGUSR1, both)
        end(dump)
        assert signal.getsignal(signal.SIGUSR1) is both
        # It may still call the one it has taken the place of.
        os.kill(os.getpid(), signal.SIGUSR1)
        assert came == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def in_thread(call: Any) -> Exception | None:
    raised: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - looked at by the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    return raised[0] if raised else None


def test_it_is_for_the_main_thread() -> None:
    error = in_thread(lambda: dump_on(signal.SIGUSR1))
    assert isinstance(error, UsageError)
    assert str(error) == "dump_on() must be called on the main thread; Python handles signals there"
    assert dump_threads() == []
    dump = dump_on(signal.SIGUSR1, file=Report())
    error = in_thread(dump.dispose)
    assert isinstance(error, UsageError)
    assert "dispose()" in str(error)
    end(dump)
    assert in_thread(dump.dispose) is None


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_system_without_threads_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before, descriptors = signal.getsignal(signal.SIGUSR1), open_files()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        dump_on(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) == before
    assert open_files() == descriptors


@pytest.mark.parametrize("signum", [getattr(signal, "SIGKILL", 9), 9999, -1, "SIGUSR1", None])
def test_a_signal_that_can_not_be_handled_is_refused(signum: Any) -> None:
    descriptors = open_files()
    with pytest.raises(InvalidArgumentError, match="signum must be a signal"):
        dump_on(signum)
    assert dump_threads() == []
    assert open_files() == descriptors


def test_one_executor_that_can_not_be_explained_keeps_no_other_from_it(
    stuck: KeyedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = KeyedExecutor(1, name="a broken one")
    monkeypatch.setattr(broken, "explain", lambda: 1 / 0)
    report = Report()
    dump = dump_on(signal.SIGUSR1, file=report)
    os.kill(os.getpid(), signal.SIGUSR1)
    text = report.wait()
    assert "executor 'a broken one' can't be explained:\nTraceback" in text
    assert "ZeroDivisionError" in text
    assert "executor 'till' is open" in text
    end(dump)


def test_a_stream_that_fails_is_tried_again(stuck: KeyedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    report, errors = Report(), Report()
    monkeypatch.setattr(sys, "stderr", errors)
    report.fails = True
    dump = dump_on(signal.SIGUSR1, file=report)
    tried = threading.Event()
    monkeypatch.setattr("rxwow.execution.dump.traceback.print_exc", tried.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert tried.wait(PATIENCE)
    report.fails = False
    os.kill(os.getpid(), signal.SIGUSR1)
    assert "executor 'till' is open" in report.wait()
    end(dump)


def test_it_goes_to_stderr_as_it_is_when_the_signal_comes(
    stuck: KeyedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = dump_on(signal.SIGUSR1)
    errors = Report()
    monkeypatch.setattr(sys, "stderr", errors)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert "executor 'till' is open" in errors.wait()
    end(dump)


FORKING = """
import os, signal, sys, time
from rxwow import KeyedExecutor
from rxwow.execution.dump import dump_on

executor = KeyedExecutor(1, name="parents")
dump = dump_on(signal.SIGUSR1)
child = os.fork()
if not child:
    os.kill(os.getpid(), signal.SIGUSR1)
    dump.dispose()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    own = KeyedExecutor(1, name="childs")
    reader, writer = os.pipe()
    file = os.fdopen(writer, "w")
    with dump_on(signal.SIGUSR1, file=file):
        os.kill(os.getpid(), signal.SIGUSR1)
        text = os.read(reader, 10000).decode()
    assert "executor 'childs' has nothing to do" in text and "parents" not in text, text
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("the child has ended", file=sys.stderr, flush=True)
reader, writer = os.pipe()
sys.stderr = os.fdopen(writer, "w")
os.kill(os.getpid(), signal.SIGUSR1)
assert "executor 'parents' has nothing to do" in os.read(reader, 10000).decode()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_says_that_it_must_be_asked_again() -> None:
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    # The parent has printed nothing for the child's signal.
    assert result.stderr == (
        "rxwow: dump_on was called before this process was forked; call it in the child too\nthe child has ended\n"
    )


def test_a_program_that_hangs_is_asked_from_outside() -> None:
    program = """
    import signal, threading
    from rxwow import Flowable, KeyedExecutor, keyed_dispatch
    from rxwow.execution.dump import dump_on

    def charge(payment):
        print("begun", flush=True)
        threading.Event().wait()

    dump_on(signal.SIGUSR1)
    executor = KeyedExecutor(1, name="till")
    Flowable.from_iterable(["ann"]).pipe(keyed_dispatch(str, charge, executor=executor)).run()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGUSR1)
        lines = [child.stderr.readline() for _ in range(3)]
        child.kill()
    assert lines[1] == "executor 'till' is open\n"
    assert lines[2].startswith("  dispatch 'charge': the handler of key 'ann' has been running for ")
    # Only newer Pythons know the text of a program that was given as an argument.
    assert " at <string>:8 (" in lines[2]
    assert lines[2].endswith("); it has 1 message, 1 of 256 are in flight\n")
