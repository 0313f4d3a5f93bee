"""Which dispatch another one feeds or belongs to: what a drain must know to end them in the right order.

A drain stops the intake of a dispatch. One whose source is another dispatch would lose what that one has accepted, so
it goes on until that one has ended; and one that a handler has started as its result goes on until the message has.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch

__all__ = ["belonging_to", "feeding", "in_place_of", "lineage", "to_quiesce"]


class _Scope(threading.local):
    """What is being subscribed on one thread; a context variable would leak into the handlers that start meanwhile."""

    feeds: Dispatch | None = None
    within: Dispatch | None = None


_scope = _Scope()


@contextmanager
def feeding(dispatch: Dispatch) -> Generator[None]:
    """Note, for the dispatches that are subscribed meanwhile on this thread, that they are the source of `dispatch`."""
    before, _scope.feeds = _scope.feeds, dispatch
    try:
        yield
    finally:
        _scope.feeds = before


@contextmanager
def belonging_to(dispatch: Dispatch) -> Generator[None]:
    """Note, for those that are subscribed meanwhile on this thread, that they are the result of one of its messages."""
    before = _scope.feeds, _scope.within
    _scope.feeds, _scope.within = None, dispatch
    try:
        yield
    finally:
        _scope.feeds, _scope.within = before


@contextmanager
def in_place_of(dispatch: Dispatch) -> Generator[None]:
    """Note, for those that are subscribed meanwhile on this thread, that they come after `dispatch`, which has ended.

    `concat` and `repeat` subscribe again when they are told of an end, on whatever thread that is.
    """
    before = _scope.feeds, _scope.within
    _scope.feeds, _scope.within = dispatch.feeds, dispatch.within
    try:
        yield
    finally:
        _scope.feeds, _scope.within = before


def lineage() -> tuple[Dispatch | None, Dispatch | None]:
    """Return which dispatch one that is subscribed now feeds, and which it belongs to."""
    return _scope.feeds, _scope.within


def to_quiesce(dispatches: Collection[Dispatch]) -> list[Dispatch]:
    """Return those of the dispatches that have not ended whose intake a drain should stop now."""
    fed = {dispatch.feeds for dispatch in dispatches}
    served = any(not dispatch.options.serves for dispatch in dispatches)
    return [
        dispatch
        for dispatch in dispatches
        if dispatch not in fed and dispatch.within not in dispatches and not (served and dispatch.options.serves)
    ]
