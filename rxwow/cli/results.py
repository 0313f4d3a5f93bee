"""What the handlers returned, one JSON value a line."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self

from rxwow.cli.bad_input import BadInputError

__all__ = ["STANDARD_OUTPUT", "Results", "StandardOutputClosedError", "encode_result"]

STANDARD_OUTPUT: Final = "-"


class StandardOutputClosedError(Exception):
    """Whoever read our standard output has gone, as `head` does when it has seen enough."""


def encode_result(result: Any) -> str:
    r"""Make the line for a result.

    Raises:
        TypeError: it holds something that JSON doesn't know.
        ValueError: it holds a number that JSON doesn't know, or itself.

    >>> encode_result({"key": "é", "total": 3})
    '{"key": "é", "total": 3}\n'
    """
    text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can write
            text = json.dumps(result, allow_nan=False)
    return f"{text}\n"


class _Writer(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Results:
    """Counts the results and, if asked to, writes them.

    Attributes:
        count: results other than None.
        destination: how the report calls the place where they went; empty when they are only counted.
        writing: whether a write is under way, which may never end when nobody reads at the other end of a pipe.
    """

    def __init__(self, path: str | None, *, at_once: bool = False) -> None:
        """Open the output, which loses what it held.

        Args:
            path: a file (gzipped if it ends in .gz), `-` for standard output, or None.
            at_once: write each result through, because somebody waits for it.
        """
        self.count = 0
        self.writing = False
        self._at_once = at_once
        self._writer: _Writer | None = None
        self._standard = path == STANDARD_OUTPUT
        self.destination = "standard output" if self._standard else path or ""
        if path is None:
            return
        try:
            self._writer = _standard_output() if self._standard else _open(path)
        except OSError as error:
            raise BadInputError(self._reason(error)) from error

    def take(self, line: str | None) -> None:
        """Count a result that is not None, and write it.

        Raises:
            StandardOutputClosedError: nobody reads it any more.
            BadInputError: it can't be written.
        """
        if line is None:
            return
        self.count += 1
        if self._writer is not None:
            self.writing = True
            try:
                self._writer.write(line)
                if self._at_once:
                    self._writer.flush()
            except OSError as error:
                self._raise(error)
            finally:
                self.writing = False

    def close(self) -> None:
        """Write what is still buffered, unless a write hangs; raises as `take` does."""
        writer, self._writer = self._writer, None
        if writer is None or self.writing:
            return
        try:
            if self._standard:
                writer.flush()
            else:
                writer.close()
        except OSError as error:
            self._raise(error)

    def _raise(self, error: OSError) -> NoReturn:
        writer, self._writer = self._writer, None
        if writer is not None and not self._standard:
            with contextlib.suppress(OSError):
                writer.close()
        if self._standard and isinstance(error, BrokenPipeError):
            raise StandardOutputClosedError from error
        raise BadInputError(self._reason(error)) from error

    def _reason(self, error: OSError) -> str:
        return f"--output {self.destination}: {(error.strerror or str(error)).lower()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # The error that is under way tells more than one of closing could.
        with contextlib.suppress(BadInputError, StandardOutputClosedError):
            self.close()


def _standard_output() -> _Writer:
    output: Any = sys.stdout
    if output is None:  # the process was started without one, by `>&-`
        raise OSError(errno.EBADF, "standard output is closed")
    reconfigure = getattr(output, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8")
    writer: _Writer = output
    return writer


def _open(path: str) -> _Writer:
    if path.endswith(".gz"):
        return gzip.open(path, "wt", encoding="utf-8", newline="\n")
    return Path(path).open("w", encoding="utf-8", newline="\n")
