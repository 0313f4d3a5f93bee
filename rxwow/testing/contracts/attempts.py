"""Calls inside a signal: what they raise is kept, since whoever gave the signal may catch it."""

from __future__ import annotations

from collections.abc import Callable

from rxwow.testing.contracts.calls import Abandoned

__all__ = ["Attempts"]


class Attempts:
    """Makes calls and keeps what they raise; `check` raises the first. Signals are serial, so there is no lock.

    >>> attempts = Attempts()
    >>> attempts(lambda: 1 / 0)
    >>> attempts.check()
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    """

    def __init__(self) -> None:
        self.made: list[Callable[[], object]] = []
        self._raised: list[BaseException] = []

    def __call__(self, action: Callable[[], object]) -> None:
        self.made.append(action)
        try:
            action()
        except Abandoned:
            raise
        except BaseException as error:  # noqa: BLE001 - raised by `check`
            self._raised.append(error)

    def check(self) -> None:
        """Raise what the first of the calls that failed has raised."""
        if self._raised:
            raise self._raised[0]
