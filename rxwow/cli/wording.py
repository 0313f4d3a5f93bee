"""How errors, names and numbers are put into one line of text."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

from rxwow.errors import HandlerExit

__all__ = ["count_of", "describe_error", "did_you_mean", "list_names"]

LONGEST_ERROR = 300
MOST_NAMES = 20


def describe_error(error: BaseException, folder: Path | None = None) -> str:
    r"""Say an error in one line: its type, its message, and where in the user's own code it arose.

    Args:
        error: any exception; of a HandlerExit its cause is told.
        folder: where the user's code is; the last line of it that the error passed is named.

    >>> describe_error(ValueError("two\nlines"))
    'ValueError: two lines'
    """
    if isinstance(error, HandlerExit) and error.__cause__ is not None:
        error = error.__cause__
    kind = type(error).__name__
    message = " ".join(str(error).split())
    if len(message) > LONGEST_ERROR:
        message = message[:LONGEST_ERROR] + "..."
    place = _place(error, folder) if folder is not None else ""
    return (f"{kind}: {message}" if message else kind) + place


def _place(error: BaseException, folder: Path) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(folder):
            return f" ({path.relative_to(folder)}, line {frame.lineno})"
    return ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Offer the known name that is nearest to a wrong one, if there is one near.

    >>> did_you_mean("tailnumber", ["year", "tailnum"])
    "; did you mean 'tailnum'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def list_names(names: Iterable[str]) -> str:
    """Enumerate names, but not hundreds of them.

    >>> list_names(["a", "b"])
    'a, b'
    """
    # repr where a name would break the line; plain otherwise, as it has to be typed.
    shown = [name if name.isprintable() and name.strip() else repr(name) for name in names]
    more = len(shown) - MOST_NAMES
    return ", ".join(shown[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def count_of(number: int, thing: str) -> str:
    """Say how many.

    >>> count_of(1, "message"), count_of(1200, "message")
    ('1 message', '1,200 messages')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
