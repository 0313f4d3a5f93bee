"""The command `rxwow`: `rxwow demo` and `rxwow dispatch`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: what follows the command's name; by default those of the process.

    Returns:
        The exit status; `rxwow dispatch --help` lists them.
    """
    # Only here, so that what imports the package for its own purposes pays nothing.
    from rxwow.cli.command import run_command

    return run_command(arguments)
