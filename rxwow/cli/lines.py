"""Bytes into numbered lines of text."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Final

from rxwow.cli.bad_input import BadInputError

__all__ = ["LONGEST_LINE", "Line", "numbered_lines"]

LONGEST_LINE: Final = 64 << 20
"""Bytes; a file without line ends would otherwise fill the memory before anything could be said about it."""

Line = tuple[int, str]


def numbered_lines(stream: io.BufferedIOBase, name: str) -> Iterator[Line]:
    """Yield each line with its number, counted from 1; it keeps its line end.

    Raises:
        BadInputError: the stream can't be read any further, is cut short, or isn't UTF-8.
    """
    number = 0
    while line := _read_line(stream, name, number):
        number += 1
        if len(line) > LONGEST_LINE:
            raise BadInputError(f"{name}: line {number}: longer than {LONGEST_LINE >> 20} MiB")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"{name}: line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1})"
            ) from error
        yield number, (text.removeprefix("\ufeff") if number == 1 else text)


def _read_line(stream: io.BufferedIOBase, name: str, number: int) -> bytes:
    try:
        return stream.readline(LONGEST_LINE + 1)
    except EOFError as error:
        raise BadInputError(f"{name}: line {number + 1}: the gzip data ends here, cut short") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadInputError(f"{name}: line {number + 1}: the gzip data is damaged ({error})") from error
    except OSError as error:
        raise BadInputError(f"{name}: line {number + 1}: {(error.strerror or str(error)).lower()}") from error
