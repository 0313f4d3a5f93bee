"""A progress bar on a terminal, where rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec

from rxwow.cli.console import is_terminal
from rxwow.cli.source import Source

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(source: Source, messages: Callable[[], int]) -> Generator[Callable[[], None] | None]:
    """Show how far `source` was read while the block runs, if standard error is a terminal.

    Args:
        source: knows its size (unless it is a pipe) and its position.
        messages: how many were finished.

    Yields:
        A function that brings the display up to date; None where there is no display.
    """
    if not is_terminal(sys.stderr) or find_spec("rich") is None:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[messages]:,} messages"), TimeElapsedColumn())
    # What a handler prints goes above the bar; but what somebody reads through a pipe must not come this way.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=is_terminal(sys.stdout))
    with bar:
        task = bar.add_task("", total=source.size, messages=0)
        yield lambda: bar.update(task, completed=source.position, messages=messages())
