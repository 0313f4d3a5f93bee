"""What a user says of a dispatch or an executor, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rxwow.errors import InvalidArgumentError
from rxwow.execution.failure import FailurePolicy

__all__ = ["DispatchOptions", "check_callable", "check_count", "check_name", "is_async"]


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """What a dispatch does, with the executor's defaults filled in."""

    key: Callable[[Any], Hashable]
    handler: Callable[[Any], Any]
    max_in_flight: int
    throughput: int
    on_failure: FailurePolicy
    on_discard: Callable[[Any], object] | None
    name: str
    serves: bool = False
    """Whether other dispatches may need it to finish, so that a drain lets it go on until these have."""


def check_count(argument: str, value: object, least: int = 1) -> None:
    """Raise `InvalidArgumentError` unless `value` is a whole number of at least `least`; True is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgumentError(argument, value, f"a whole number of at least {least}")


def check_name(value: object) -> None:
    """Raise `InvalidArgumentError` unless `value` can be a name."""
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError("name", value, "a string that is not empty")


def check_callable(argument: str, value: object) -> None:
    """Raise `InvalidArgumentError` unless `value` can be called."""
    if not callable(value):
        raise InvalidArgumentError(argument, value, "a function or another callable")


def is_async(handler: Any) -> bool:
    """Return whether `handler` is an `async def`, or a partial or an object whose `__call__` is one."""
    while isinstance(handler, partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
