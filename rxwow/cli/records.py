"""A file's records, by its format."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from pathlib import PurePath
from typing import Any, Literal

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.csv_records import CsvRecords
from rxwow.cli.lines import Line, numbered_lines
from rxwow.cli.ndjson_records import ndjson_records
from rxwow.cli.source import STANDARD_INPUT, Source
from rxwow.cli.wording import did_you_mean, list_names

__all__ = ["Format", "Record", "format_of", "open_records"]

Format = Literal["csv", "ndjson"]

Record = tuple[int, dict[str, Any]]
"""The line on which a record begins, and its fields."""

SUFFIXES: dict[str, Format] = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"}


def open_records(source: Source, path: str, key: str, file_format: Format | None = None) -> Iterator[Record]:
    """Read the records of `source`.

    The first record is read at once, so that a wrong field or format shows before anything is done.

    Args:
        source: where the bytes come from.
        path: the name that the user gave; its suffix tells the format.
        key: the field that each record must have, with a value that can be a key.
        file_format: what the format is, whatever the suffix says.

    Raises:
        BadInputError: here or while iterating; it names the line.
    """
    lines = numbered_lines(source.stream, source.name)
    lines, chosen = _sniff(lines, file_format or format_of(path))
    if chosen == "csv":
        rows = CsvRecords(lines, source.name)
        if rows.fields and key not in rows.fields:
            raise BadInputError(_unknown_field(source.name, key, rows.fields))
        records: Iterator[Record] = iter(rows)
    else:
        records = _with_key(ndjson_records(lines, source.name), source.name, key)
    first = list(itertools.islice(records, 1))
    return itertools.chain(first, records)


def format_of(path: str) -> Format | None:
    """Tell the format from a file's name, if that tells it.

    >>> format_of("flights.csv.gz"), format_of("events.jsonl"), format_of("events.json")
    ('csv', 'ndjson', None)
    """
    if path == STANDARD_INPUT:
        return None
    return SUFFIXES.get(PurePath(path.lower().removesuffix(".gz")).suffix)


def _sniff(lines: Iterator[Line], known: Format | None) -> tuple[Iterator[Line], Format]:
    """Tell the format from the first character that isn't blank, unless it is known."""
    if known is not None:
        return lines, known
    seen: list[Line] = []
    for line in lines:
        seen.append(line)
        start = line[1].lstrip()[:1]
        if start:
            # A header that begins with a bracket is rarer than somebody's JSON array, which is refused by its line.
            return itertools.chain(seen, lines), "ndjson" if start in "{[" else "csv"
    return iter(seen), "csv"


def _with_key(records: Iterator[Record], name: str, key: str) -> Iterator[Record]:
    for line, record in records:
        if key not in record:
            raise BadInputError(_unknown_field(f"{name}: line {line}", key, list(record)))
        if not isinstance(record[key], Hashable):
            kind = "an array" if isinstance(record[key], list) else "an object"
            raise BadInputError(f"{name}: line {line}: the field {key!r} is {kind}, which can't be a key")
        yield line, record


def _unknown_field(where: str, key: str, fields: list[str]) -> str:
    return f"{where}: no field {key!r}; the fields are: {list_names(fields) or 'none'}{did_you_mean(key, fields)}"
