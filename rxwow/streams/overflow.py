"""What to do with an item that nobody asked for."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from rxwow.errors import InvalidArgumentError

__all__ = ["OverflowStrategy", "OverflowStrategyName", "overflow_strategy"]

OverflowStrategyName: TypeAlias = Literal["block", "buffer", "drop_latest", "drop_oldest", "error"]


class OverflowStrategy(StrEnum):
    """What `from_observable` does when a source that can't be slowed sends more than was requested.

    All but `ERROR` keep up to `capacity` items beyond the demand first; then:
    """

    BLOCK = "block"
    """The emitting thread waits for demand. A worker, or a thread that runs an event loop, can't: there as `BUFFER`."""

    BUFFER = "buffer"
    """The stream fails with `MissingBackpressureError`, after the items that were kept."""

    DROP_LATEST = "drop_latest"
    """The new item is dropped, and counted."""

    DROP_OLDEST = "drop_oldest"
    """The oldest item that is kept is dropped, and counted; the new one is kept."""

    ERROR = "error"
    """Nothing is kept: the first item beyond the demand fails the stream with `MissingBackpressureError`."""


def overflow_strategy(value: object) -> OverflowStrategy:
    """Return the strategy that `value` names.

    Raises:
        InvalidArgumentError: there is none of that name.

    >>> overflow_strategy("drop_oldest")
    <OverflowStrategy.DROP_OLDEST: 'drop_oldest'>
    >>> overflow_strategy("wait")
    Traceback (most recent call last):
    rxwow.errors.InvalidArgumentError: on_overflow must be one of 'block', ..., not 'wait'
    """
    try:
        return OverflowStrategy(str(value))
    except ValueError:
        allowed = ", ".join(repr(strategy.value) for strategy in OverflowStrategy)
        raise InvalidArgumentError("on_overflow", value, f"one of {allowed}") from None
