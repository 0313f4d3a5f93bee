"""The emitter of a source that needs no thread but the one that asks."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from reactivex import abc

from rxwow.streams.emitter import Emitter
from rxwow.streams.guard import emitting_scheduler

__all__ = ["InlineEmitter"]

T = TypeVar("T")


class InlineEmitter(Emitter[T]):
    """Drains on the thread that asks, but for what is asked while an RxPY observer is being subscribed.

    That is drained by the subscribe-time scheduler, or a little later on the same thread: an observer may dispose its
    subscription from inside `on_next`, so it must have that in its hands before.
    """

    __slots__ = ()

    @abstractmethod
    def _emit(self, limit: int) -> int: ...

    @abstractmethod
    def _has_items(self) -> bool: ...

    def _begin_drain(self) -> None:
        scheduler = emitting_scheduler()
        if scheduler is None:
            self._drain()
        else:
            scheduler.schedule(self._drain_scheduled)

    def _drain_scheduled(self, _: abc.SchedulerBase, __: object = None) -> None:
        self._drain()
