"""Lines of CSV into records."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.lines import LONGEST_LINE, Line
from rxwow.cli.wording import count_of

__all__ = ["CsvRecords"]


class CsvRecords:
    """The records of a CSV file: a comma between fields, names in the first line, double quotes around what needs them.

    Iterating yields the number of the line that a record begins on, and the record as a dict of strings. Blank lines
    are passed over.

    Attributes:
        fields: the names in the header; empty for a file without a line.
    """

    def __init__(self, lines: Iterator[Line], name: str) -> None:
        # The default of 128 KiB is smaller than what people put into a field; our own bound is that of a line.
        csv.field_size_limit(LONGEST_LINE)
        self._name = name
        self._last_line = 0
        self._rows = csv.reader(self._texts(lines), strict=True)
        header = next(self._numbered_rows(), None)
        self.fields: list[str] = [] if header is None else header[1]
        repeated = {field for field in self.fields if self.fields.count(field) > 1}
        if repeated:
            raise BadInputError(f"{name}: line {self._last_line}: the header names {min(repeated)!r} twice")

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]]]:
        fields = self.fields
        width = len(fields)
        for line, row in self._numbered_rows():
            if len(row) != width:
                raise BadInputError(
                    f"{self._name}: line {line}: {count_of(len(row), 'column')}, but the header has {width}"
                )
            yield line, dict(zip(fields, row, strict=True))

    def _texts(self, lines: Iterator[Line]) -> Iterator[str]:
        for self._last_line, text in lines:
            yield text

    def _numbered_rows(self) -> Iterator[tuple[int, list[str]]]:
        rows = self._rows
        while True:
            line = self._last_line + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                what = "a quoted field is never closed" if str(error) == "unexpected end of data" else str(error)
                raise BadInputError(f"{self._name}: line {line}: {what}") from error
            if row is None:
                return
            if row:
                yield line, row
