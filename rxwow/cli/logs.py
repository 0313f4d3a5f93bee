"""What the library logs as an error, told as everything else is: in one line."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from rxwow.cli.console import say
from rxwow.cli.wording import describe_error

__all__ = ["telling_errors"]


class _Teller(logging.Handler):
    def __init__(self, prefix: str) -> None:
        super().__init__(logging.ERROR)
        self._prefix = prefix

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        say(f"{self._prefix}: {record.getMessage()}" + (f": {describe_error(error)}" if error is not None else ""))


@contextmanager
def telling_errors(prefix: str) -> Generator[None]:
    """Tell the library's errors on standard error while the block runs.

    Its warnings are for whoever writes a program, such as the one for each message that is skipped, which the report
    counts. What the user's own code logs is the user's to configure.
    """
    teller = _Teller(prefix)
    logger = logging.getLogger("rxwow")
    logger.addHandler(teller)
    try:
        yield
    finally:
        logger.removeHandler(teller)
