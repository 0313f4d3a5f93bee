"""How a message names what a user has passed."""

from __future__ import annotations

import reprlib
from typing import Any

__all__ = ["describe"]

_representation = reprlib.Repr()
_representation.maxother = _representation.maxstring = 120


def describe(source: object) -> str:
    """Name a source in a line: a function by its name, anything else by a representation that is cut where it is long.

    >>> describe(describe)
    'rxwow.streams.description.describe'
    >>> describe(list(range(1000)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    name: Any = getattr(source, "__qualname__", None)
    if isinstance(name, str):
        return f"{getattr(source, '__module__', None)}.{name}"
    return _representation.repr(source)
