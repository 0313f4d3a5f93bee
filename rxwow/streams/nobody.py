"""The subscriber that is gone."""

from __future__ import annotations

from typing import Any, Final

from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["NOBODY"]


class _Nobody(Subscriber[Any]):
    """Stands in for a subscriber that is gone."""

    __slots__ = ()

    def on_subscribe(self, subscription: Subscription) -> None:
        pass

    def on_next(self, value: Any) -> None:
        pass

    def on_error(self, error: Exception) -> None:
        pass

    def on_completed(self) -> None:
        pass


NOBODY: Final = _Nobody()
"""Takes the place of a subscriber after its last signal, so that a source doesn't keep it alive (§3.13)."""
