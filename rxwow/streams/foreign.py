"""The objects of another Reactive Streams library, known by their methods."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["ForeignPublisher", "ForeignSubscriber", "ForeignSubscription"]


class ForeignSubscription(Protocol):
    """What a foreign publisher gives to its subscriber, and `to_publisher` to a foreign one."""

    def request(self, n: int, /) -> Any: ...

    def cancel(self) -> Any: ...


class ForeignSubscriber(Protocol):
    """What a foreign publisher calls, and `to_publisher` calls."""

    def on_subscribe(self, subscription: Any, /) -> Any: ...

    def on_next(self, value: Any, is_complete: bool = False, /) -> Any: ...

    def on_error(self, exception: Exception, /) -> Any: ...

    def on_complete(self) -> Any: ...


class ForeignPublisher(Protocol):
    """What `from_publisher` takes, and `to_publisher` makes."""

    def subscribe(self, subscriber: Any, /) -> Any: ...
