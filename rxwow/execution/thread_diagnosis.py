"""What the threads are doing that run handlers, ask sources and call subscribers."""

from __future__ import annotations

import asyncio
import threading
import types
from typing import TYPE_CHECKING, Any, Final

from rxwow.execution.dispatch import Dispatch
from rxwow.execution.elastic_pool import _Call
from rxwow.execution.explanation import ThreadExplanation
from rxwow.execution.failure import FailurePolicy
from rxwow.execution.handling import Handling
from rxwow.execution.hooks import HookSet
from rxwow.execution.keyed_dispatch import begin_dispatch
from rxwow.execution.mailbox_set import MailboxSet
from rxwow.execution.outlet import Outlet
from rxwow.execution.turn import run_turns
from rxwow.execution.whereabouts import Place, frames_of_threads, place_of_thread
from rxwow.execution.worker_kinds import ThreadWorker

if TYPE_CHECKING:
    from rxwow.execution.worker import Worker
    from rxwow.platform import Platform

__all__ = ["Threads"]

Stations = dict[types.CodeType, str]

SUBSCRIBER: Final = "the subscriber"
SOURCE: Final = "the source's request"
SUBSCRIBE: Final = "the source's subscribe"
CALLBACK: Final = "a coroutine or a callback of its event loop"

_SUBSCRIBER_CALLS: Final[Stations] = dict.fromkeys((Outlet._emit.__code__, Outlet._signal_end.__code__), SUBSCRIBER)
_SOURCE_CALLS: Final[Stations] = {Dispatch.replenish.__code__: SOURCE}
_SUBSCRIBE_CALLS: Final[Stations] = {begin_dispatch.__code__: SUBSCRIBE}
_POOL_CALLS: Final[Stations] = {_Call.run.__code__: "a handler that blocks"}
_KEY_COMPARISONS: Final[Stations] = dict.fromkeys(
    (
        MailboxSet.put.__code__,
        MailboxSet.put_singly.__code__,
        MailboxSet._deliver_singly.__code__,
        MailboxSet.divide.__code__,
        MailboxSet.retire.__code__,
    ),
    "a comparison of keys",
)
_STATIONS: Final[Stations] = {
    **_SUBSCRIBER_CALLS,
    **_SOURCE_CALLS,
    **_SUBSCRIBE_CALLS,
    run_turns.__code__: "the handler",
    Handling._try.__code__: "the handler",
    FailurePolicy.decide.__code__: "on_failure",
    Dispatch.on_next_batch.__code__: "the key function",
    Dispatch._key_of.__code__: "the key function",
    Dispatch.discard.__code__: "on_discard",
    HookSet.report.__code__: "a hook",
    # The frames around these are those of whoever started the loop, which may be the user's main program.
    asyncio.BaseEventLoop.run_forever.__code__: CALLBACK,
    asyncio.BaseEventLoop.run_until_complete.__code__: CALLBACK,
    asyncio.Runner.run.__code__: CALLBACK,
    ThreadWorker._serve.__code__: CALLBACK,
}
"""Where user code is called, and which."""


class Threads:
    """The threads of this process, as they were at one moment; for one explanation."""

    def __init__(self, platform: Platform) -> None:
        self.now = platform.monotonic()
        self._frames = frames_of_threads()
        self._names = {thread.ident: thread.name for thread in threading.enumerate()}
        self._workers: dict[Worker, ThreadExplanation] = {}

    def worker(self, worker: Worker) -> ThreadExplanation:
        """Return what a worker does."""
        found = self._workers.get(worker)
        if found is None:
            found = self._workers[worker] = self._look_at(worker)
        return found

    def _look_at(self, worker: Worker) -> ThreadExplanation:
        mailbox = worker.turn_of
        place, doing = place_of_thread(self._frame(worker.ident), _STATIONS)
        in_batch = mailbox is not None or doing not in (None, CALLBACK, SOURCE, SUBSCRIBE)
        return ThreadExplanation(
            name=worker.name,
            doing=doing if place is not None or mailbox is not None else None,
            place=place,
            seconds=self.now - worker.turn_began if in_batch else None,
            dispatch=None if mailbox is None else mailbox.dispatch.options.name,
            key=None if mailbox is None else mailbox.key_at_hand,
        )

    def subscriber(self, dispatch: Dispatch) -> ThreadExplanation | None:
        """Return the thread that is in a call of a dispatch's subscriber, if one is."""
        ident = dispatch.outlet.emitting
        # Whoever was the last to call it may have returned long ago; an outlet that has ended keeps its drainer.
        if ident is None or not dispatch.outlet._draining or dispatch.closed:
            return None
        batches = [worker.turn_began for worker in dispatch._executor._workers if worker.ident == ident]
        return self._inside(ident, _SUBSCRIBER_CALLS, batches[0] if batches else None)

    def asks(self, asked_by: tuple[int, float] | None) -> ThreadExplanation | None:
        """Return the thread that asks the source of a dispatch, if one does."""
        return None if asked_by is None else self._inside(asked_by[0], _SOURCE_CALLS, asked_by[1])

    def subscribes(self, subscribed_by: tuple[int, float] | None) -> ThreadExplanation | None:
        """Return the thread that subscribes to the source of a dispatch, which may send its items meanwhile."""
        return None if subscribed_by is None else self._inside(subscribed_by[0], _SUBSCRIBE_CALLS, subscribed_by[1])

    def key_comparison(self) -> ThreadExplanation | None:
        """Return a thread that compares keys, in user code, which it does with the lock of a dispatch held."""
        for ident in self._frames:
            found = self._inside(ident, _KEY_COMPARISONS, None)
            if found is not None and found.place is not None:
                return found
        return None

    def pool_call(self, ident: int) -> Place | None:
        """Return where a thread of the pool is in its handler."""
        return place_of_thread(self._frame(ident), _POOL_CALLS)[0]

    def _inside(self, ident: int, stations: Stations, since: float | None) -> ThreadExplanation | None:
        place, doing = place_of_thread(self._frame(ident), stations)
        if doing is None:
            return None
        seconds = None if since is None else self.now - since
        return ThreadExplanation(self._names.get(ident, f"thread {ident}"), doing, place, seconds)

    def _frame(self, ident: int | None) -> Any:
        return None if ident is None else self._frames.get(ident)
