"""Publisher, Subscriber and Subscription: the three interfaces of Reactive Streams, with RxPY's method names."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from reactivex import abc

__all__ = ["UNBOUNDED", "BatchSubscriber", "Publisher", "Subscriber", "Subscription"]

T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

UNBOUNDED: Final = sys.maxsize
"""A demand that is never used up: `request(UNBOUNDED)` asks for everything (Reactive Streams §3.17)."""


class Subscription(ABC):
    """The way back from a subscriber to its source: it asks for items, or for no more of them.

    Both methods may be called from any thread, and from inside `on_subscribe` and `on_next`; neither raises.
    """

    __slots__ = ()

    @abstractmethod
    def request(self, n: int) -> None:
        """Ask for `n` more items.

        A source that emits on the asking thread does so before this returns, unless it is emitting already. `n < 1`
        ends the stream with `on_error(InvalidRequestError)` (§3.9); after the end or a cancel nothing happens (§3.6).

        Args:
            n: how many more items may be emitted; demand adds up.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ask for nothing more; the source lets go of what it holds. Idempotent, and prompt (§3.5, §3.7, §3.12)."""


class Subscriber(abc.ObserverBase[T_contra]):
    """An RxPY observer that asks for what it gets.

    The calls come one at a time: `on_subscribe` first, then `on_next` at most as often as was requested, then at most
    one of `on_error` and `on_completed`.

    A subscriber may also have a method `event_loop()`, which returns an event loop for a source that needs one and was
    not subscribed on a thread that runs one.
    """

    __slots__ = ()

    @abstractmethod
    def on_subscribe(self, subscription: Subscription) -> None:
        """Take the subscription; nothing comes before its `request` is called (§1.9), but an end may."""


class BatchSubscriber(Subscriber[T_contra]):
    """A subscriber that takes what a source has ready in one call.

    A source calls `on_next_batch` with one or more items, never more than the demand, in place of as many `on_next`. A
    message may cost a microsecond in all; a call for each at each station would cost more than that.
    """

    __slots__ = ()

    @abstractmethod
    def on_next_batch(self, items: Sequence[T_contra]) -> None:
        """Take `items`, in their order; the sequence belongs to the subscriber from then on."""


class Publisher(Protocol[T_co]):
    """Anything that a `Subscriber` can be subscribed to, such as a `Flowable`."""

    def subscribe(self, on_next: Subscriber[Any], /) -> object: ...
