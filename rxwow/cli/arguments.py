"""The command line: what can be asked for, and how a mistake is told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import rxwow
from rxwow.cli.records import Format

__all__ = ["DemoOptions", "DispatchOptions", "parse"]

DISPATCH_EPILOG = """\
The handler gets each record as a dict (all values are strings for CSV). Records with the same value in the key field
are handled one at a time, in the order of the file; those of different keys side by side. It may be a plain function,
or an async one, which holds no thread while it waits:

  # planes.py
  flights = {}
  def record(row):
      flights[row["tailnum"]] = flights.get(row["tailnum"], 0) + 1

  rxwow dispatch flights.csv --key tailnum --handler planes:record

With --output, each result other than None becomes one line of JSON; results of one key stay in their order.
In NDJSON, keys that Python holds equal are one key: 1, 1.0 and true, but not "1".

exit status:
  0    all was read and handled; with --on-failure skip there may have been failures, which the report counts
  1    a handler failed (--on-failure fail), or the order was not kept
  2    the command line, the input or the output can't be used; what came before a bad line was handled
  130  stopped by Ctrl-C: nothing more was read, what had been read was handled
  131  stopped by a second Ctrl-C: what had been read was left where it was
  141  whoever read the standard output has gone
"""


@dataclass(frozen=True)
class DispatchOptions:
    """What `rxwow dispatch` was asked for; without a number of workers there is one for each processor."""

    file: str
    key: str
    handler: str
    file_format: Format | None = None
    workers: int | None = None
    max_in_flight: int = 256
    throughput: int = 16
    on_failure: Literal["fail", "skip"] = "fail"
    output: str | None = None
    app_dir: str = "."


@dataclass(frozen=True)
class DemoOptions:
    """What `rxwow demo` was asked for."""

    workers: int | None = None


class _Parser(argparse.ArgumentParser):
    """Tells a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parse(arguments: Sequence[str] | None) -> DispatchOptions | DemoOptions:
    """Read the command line.

    Raises:
        SystemExit: after --help and --version (status 0), or for a mistake (status 2, one line on standard error).
    """
    parser = _Parser(prog="rxwow", description="Keyed, ordered, backpressured message dispatch.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"rxwow {rxwow.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{demo,dispatch}")
    _add_demo(commands)
    _add_dispatch(commands)
    values = vars(parser.parse_args(arguments))
    if values.pop("command") == "demo":
        return DemoOptions(**values)
    return DispatchOptions(**values)


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "follow the aircraft that left New York in 2013, 336,776 flights, and check the outcome against a plain loop"
    demo = commands.add_parser("demo", help=text, description=text, allow_abbrev=False)
    demo.add_argument("--workers", type=_count, metavar="N", help="threads (default: one for each processor)")


def _add_dispatch(commands: argparse._SubParsersAction[_Parser]) -> None:
    dispatch = commands.add_parser(
        "dispatch",
        help="run a handler over the records of a file, in order for each key",
        description="Run a handler over the records of a CSV or NDJSON file: in order for each key, side by side for\n"
        "different keys.",
        epilog=DISPATCH_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = dispatch.add_argument
    add("file", metavar="FILE", help="CSV or NDJSON, gzipped or not; - for standard input")
    add("--key", required=True, metavar="FIELD", help="the field that records are ordered by")
    add("--handler", required=True, metavar="MODULE:FUNCTION", help="what is called with each record")
    add(
        "--format",
        dest="file_format",
        choices=("csv", "ndjson"),
        help="what FILE holds (default: by its suffix, .csv, .ndjson or .jsonl, else by its first character)",
    )
    add("--workers", type=_count, metavar="N", help="threads (default: one for each processor)")
    add(
        "--max-in-flight",
        type=_count,
        default=DispatchOptions.max_in_flight,
        metavar="N",
        help="most records read and not yet handled (default: %(default)s)",
    )
    add(
        "--throughput",
        type=_count,
        default=DispatchOptions.throughput,
        metavar="N",
        help="most records of one key before others get their turn (default: %(default)s)",
    )
    add(
        "--on-failure",
        choices=("fail", "skip"),
        default="fail",
        help="when the handler raises: stop, or count it and go on (default: fail)",
    )
    add("--output", metavar="FILE", help="write results to FILE as NDJSON (gzipped if it ends in .gz); - for stdout")
    add("--app-dir", default=".", metavar="DIR", help="where to look for MODULE first (default: the current directory)")


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return number
