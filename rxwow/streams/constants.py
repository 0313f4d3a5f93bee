"""empty, never and throw: the sources without items."""

from __future__ import annotations

from typing import Any

from reactivex import abc

from rxwow.errors import InvalidArgumentError
from rxwow.platform import current_platform
from rxwow.streams.flowable import Flowable
from rxwow.streams.inline import InlineEmitter
from rxwow.streams.protocols import Subscriber, Subscription

__all__ = ["empty", "never", "throw"]


class _ItemlessEmitter(InlineEmitter[Any]):
    __slots__ = ()

    def _emit(self, limit: int) -> int:
        return 0

    def _has_items(self) -> bool:
        return False


def empty() -> Flowable[Any]:
    """Complete at once, without a request.

    >>> Flowable.empty().subscribe(on_completed=lambda: print("completed")) and None
    completed
    """

    def publish(subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
        emitter = _ItemlessEmitter(subscriber, current_platform())
        emitter.complete()
        emitter.start()
        return emitter

    return Flowable(publish)


def never() -> Flowable[Any]:
    """Emit nothing and never end.

    >>> Flowable.never().subscribe(print).dispose()
    """

    def publish(subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
        emitter = _ItemlessEmitter(subscriber, current_platform())
        emitter.start()
        return emitter

    return Flowable(publish)


def throw(error: Exception) -> Flowable[Any]:
    """End with `error` at once, without a request.

    >>> Flowable.throw(ValueError("no")).subscribe(on_error=print) and None
    no
    """
    if not isinstance(error, Exception):
        raise InvalidArgumentError("error", error, "an Exception")

    def publish(subscriber: Subscriber[Any], _: abc.SchedulerBase | None) -> Subscription:
        emitter = _ItemlessEmitter(subscriber, current_platform())
        emitter.fail(error)
        emitter.start()
        return emitter

    return Flowable(publish)
