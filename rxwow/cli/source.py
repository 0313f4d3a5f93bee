"""The bytes of a file or of standard input, decompressed if they are gzipped."""

from __future__ import annotations

import gzip
import io
import os
import stat
from types import TracebackType
from typing import Final, Self

from rxwow.cli.bad_input import BadInputError

__all__ = ["STANDARD_INPUT", "Source"]

STANDARD_INPUT: Final = "-"

GZIP_MAGIC: Final = b"\x1f\x8b"
OTHER_MAGIC: Final = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
LONGEST_MAGIC: Final = 5
STANDARD_INPUT_DESCRIPTOR: Final = 0


class Source:
    """An open input.

    Whether it is gzipped is seen from its first bytes and not from its name, since both `data.gz` that a browser has
    unpacked already and a gzip file by another name are met.

    Attributes:
        name: how messages call it.
        waits: whether reading may have to wait for somebody to write (anything but a regular file).
        size: bytes in the file, where that is known.
        stream: the bytes, decompressed.
    """

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == STANDARD_INPUT else path
        try:
            self._raw = _Raw(_open(path))
        except OSError as error:
            raise BadInputError(f"{self.name}: {_reason(error)}") from error
        try:
            self._status = os.fstat(self._raw.fileno())
            magic = self._raw.prefix(LONGEST_MAGIC)
        except OSError as error:
            self.close()
            raise BadInputError(f"{self.name}: {_reason(error)}") from error
        for other, kind in OTHER_MAGIC.items():
            if magic.startswith(other):
                self.close()
                raise BadInputError(f"{self.name}: compressed with {kind}; only gzip can be read")
        regular = stat.S_ISREG(self._status.st_mode)
        self.waits = not regular
        self.size = self._status.st_size if regular else None
        buffered = io.BufferedReader(self._raw, 1 << 16)
        self.stream: io.BufferedIOBase = gzip.GzipFile(fileobj=buffered) if magic.startswith(GZIP_MAGIC) else buffered

    @property
    def position(self) -> int:
        """How many bytes of the file were read; may be asked by any thread, also while another one reads."""
        return self._raw.position

    def is_file(self, other: str | int) -> bool:
        """Whether a path or a descriptor leads to the same regular file, by whatever links."""
        try:
            return stat.S_ISREG(self._status.st_mode) and os.path.samestat(self._status, os.stat(other))  # noqa: PTH116 - a descriptor
        except OSError:
            return False

    def close(self) -> None:
        """Close the file; standard input stays open for the rest of the process."""
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _open(path: str) -> io.FileIO:
    if path == STANDARD_INPUT:
        # Not sys.stdin: a thread that waits in its read at the end of the process would make the interpreter abort.
        return io.FileIO(STANDARD_INPUT_DESCRIPTOR, "rb", closefd=False)
    return io.FileIO(path, "rb")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class _Raw(io.RawIOBase):
    """A file whose first bytes can be looked at, and which counts what was read; works for pipes too."""

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self._prefix = b""
        self.position = 0

    def prefix(self, count: int) -> bytes:
        """Return the first bytes, which are read again afterwards; fewer than `count` at the end of the file."""
        while len(self._prefix) < count:
            # A pipe may give a byte at a time.
            more = self._file.read(count - len(self._prefix))
            if not more:
                break
            self._prefix += more
        return self._prefix

    def fileno(self) -> int:
        return self._file.fileno()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if self._prefix:
            count = min(len(buffer), len(self._prefix))
            buffer[:count] = self._prefix[:count]
            self._prefix = self._prefix[count:]
        else:
            count = self._file.readinto(buffer) or 0
        self.position += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
