"""`rxwow dispatch`: a user's handler over the records of a file, in order for each key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

from rxwow import KeyedExecutor
from rxwow.cli.arguments import DispatchOptions
from rxwow.cli.bad_input import BadInputError
from rxwow.cli.console import leave_at_once, say
from rxwow.cli.handler import Handler, load_handler
from rxwow.cli.handling import CheckedHandler
from rxwow.cli.intake import Intake
from rxwow.cli.logs import telling_errors
from rxwow.cli.order import OrderChecker
from rxwow.cli.progress import progress_bar
from rxwow.cli.records import Record, open_records
from rxwow.cli.report import Report
from rxwow.cli.results import STANDARD_OUTPUT, Results, encode_result
from rxwow.cli.run import Ending, Failure, Run
from rxwow.cli.source import Source
from rxwow.cli.wording import count_of, describe_error

__all__ = ["run_dispatch"]

HOTTEST_TOLD: Final = 3
MOST_FAILURES_TOLD: Final = 5


def run_dispatch(options: DispatchOptions) -> int:
    """Do what the options say.

    Returns:
        The exit status.

    Raises:
        BadInputError: something that the user gave can't be used.
        StandardOutputClosedError: whoever read our standard output has gone.
    """
    handler = load_handler(options.handler, options.app_dir)
    with Source(options.file) as source:
        records = open_records(source, options.file, options.key, options.file_format)
        if options.output is not None and source.is_file(1 if options.output == STANDARD_OUTPUT else options.output):
            raise BadInputError(f"--output {options.output} is the input itself")
        with Results(options.output, at_once=source.waits) as results:
            dispatch = _Dispatch(options, handler, source, results, records)
            ending = dispatch.run()
        return dispatch.conclude(ending)


class _Dispatch:
    """The parts of one dispatch, and what is told of it."""

    def __init__(
        self, options: DispatchOptions, handler: Handler, source: Source, results: Results, records: Iterator[Record]
    ) -> None:
        self._options = options
        self._handler = handler
        self._source = source
        self._results = results
        self._checker = OrderChecker()
        self._intake = Intake(records, itemgetter(options.key), self._checker)
        self._executor = KeyedExecutor(
            options.workers,
            max_in_flight=options.max_in_flight,
            throughput=options.throughput,
            name="rxwow-dispatch",
        )
        self._run = Run(self._executor, results, self._tell_skipped if options.on_failure == "skip" else None)
        self._seconds = 0.0

    def run(self) -> Ending:
        writes = self._options.output is not None
        handler = CheckedHandler(self._handler.function, self._checker, _encode if writes else _count)
        began = time.perf_counter()
        try:
            with (
                telling_errors("rxwow dispatch"),
                progress_bar(self._source, lambda: self._checker.finished) as update,
            ):
                return self._run.execute(self._intake, handler, blocking=self._source.waits, update=update)
        finally:
            self._seconds = time.perf_counter() - began
            self._executor.dispose()

    def conclude(self, ending: Ending) -> int:
        """Tell how it ended and return the exit status."""
        run = self._run
        handled = count_of(self._checker.succeeded, "message")
        if ending is Ending.DISPOSED:
            left = self._intake.received - self._checker.succeeded - run.failures
            say(f"rxwow dispatch: stopped at once, {handled} handled; {left:,} more had been read and were left")
            leave_at_once(131)
        if run.failure is not None:
            say(f"rxwow dispatch: {self._describe(run.failure)}; {handled} handled before")
            return 1
        if run.output_error is not None:
            raise run.output_error
        if self._intake.error is not None:
            raise BadInputError(f"{self._intake.error}; {handled} handled before") from self._intake.error
        if ending is Ending.DRAINED:
            # What was accepted is a beginning of the file, and all of it is done.
            line = self._checker.last_line
            say(f"rxwow dispatch: stopped; {f'lines up to {line:,} were handled' if line else 'nothing was handled'}")
            say("\n".join(self._report(self._checker.finished).lines()))
            return 130
        report = self._report(self._intake.received)
        say("\n".join(report.lines()))
        return 0 if report.sound else 1

    def _report(self, received: int) -> Report:
        statistics = self._executor.statistics()
        return Report(
            title=f"rxwow dispatch: {self._source.name} by {self._options.key} to {self._handler.name}",
            received=received,
            keys=self._intake.keys,
            results=self._results.count,
            destination=self._results.destination,
            failures=self._run.failures,
            seconds=self._seconds,
            hottest=self._intake.hottest(HOTTEST_TOLD),
            most_in_flight=self._intake.most_in_flight,
            window=self._executor.max_in_flight,
            workers=len(statistics.workers),
            throughput=self._executor.throughput,
            checker=self._checker,
        )

    def _tell_skipped(self, count: int, failure: Failure) -> None:
        if count <= MOST_FAILURES_TOLD:
            say(f"rxwow dispatch: skipped {self._describe(failure)}")
        elif count == MOST_FAILURES_TOLD + 1:
            say("rxwow dispatch: further failures are counted only")

    def _describe(self, failure: Failure) -> str:
        message = failure.message
        what = describe_error(failure.error, self._handler.folder)
        return f"{self._source.name}: line {message.line}, key {message.key!r}: {what}"


def _encode(result: Any) -> str | None:
    return None if result is None else encode_result(result)


def _count(result: Any) -> str | None:
    return None if result is None else ""
