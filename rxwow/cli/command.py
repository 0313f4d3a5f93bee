"""From the command line to an exit status, whatever happens between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rxwow.cli.arguments import DemoOptions, DispatchOptions, parse
from rxwow.cli.bad_input import BadInputError
from rxwow.cli.console import abandon_standard_output, flush_standard_output, say
from rxwow.cli.results import StandardOutputClosedError

__all__ = ["run_command"]

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
OUTPUT_CLOSED: Final = 141


def run_command(arguments: Sequence[str] | None) -> int:
    """Run the command line and return the exit status."""
    try:
        status = _run(arguments)
        flush_standard_output()
    except (StandardOutputClosedError, BrokenPipeError):
        # What `head` does to the command before it; nobody wants to read of that.
        abandon_standard_output()
        return OUTPUT_CLOSED
    return status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = parse(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT
    name = "demo" if isinstance(options, DemoOptions) else "dispatch"
    try:
        return _run_options(options)
    except BadInputError as error:
        say(f"rxwow {name}: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        say(f"rxwow {name}: stopped")
        return INTERRUPTED


def _run_options(options: DemoOptions | DispatchOptions) -> int:
    # Each imports what it needs; --help needs none of it.
    if isinstance(options, DemoOptions):
        from rxwow.cli.demo import run_demo

        return run_demo(options)
    from rxwow.cli.dispatch import run_dispatch

    return run_dispatch(options)
