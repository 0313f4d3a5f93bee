"""The outlet: the results of a dispatch that wait to be taken downstream."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rxwow.execution.lineage import in_place_of
from rxwow.streams.emitter import Emitter

if TYPE_CHECKING:
    from rxwow.execution.completion import InnerResults
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.explanation import DispatchExplanation
    from rxwow.streams.protocols import Subscriber

__all__ = ["Outlet"]


class Outlet(Emitter[Any]):
    """Emits the results of all workers one at a time, within the subscriber's demand.

    A result counts as taken, and its message leaves the window, when the subscriber's `on_next` has returned. What
    waits here is bounded by the window therefore.

    `_ready` holds batches of results: what a worker's turns brought, each the only result of a message, or items of one
    handler's Observable together with that Observable's `InnerResults`. Any thread appends; only the drainer takes, but
    for `drop` at the end. A deque guards itself.

    `untaken` is how many messages have their result here, or in `on_next`; the dispatch's lock guards it, as it does
    the window.
    """

    __slots__ = ("_dispatch", "_ready", "emitting", "opened", "untaken")

    def __init__(self, subscriber: Subscriber[Any], dispatch: Dispatch) -> None:
        super().__init__(subscriber, dispatch.platform)
        self._dispatch = dispatch
        self.opened = False
        """Whether anything was requested; before that, nothing is asked of the source."""
        self.untaken = 0
        self.emitting: int | None = None
        """The thread that has called the subscriber last; told by `explain`, and may be stale."""
        self._ready: deque[tuple[Sequence[Any], InnerResults | None]] = deque()

    def request(self, n: int) -> None:
        self.opened = True
        super().request(n)

    def explain(self) -> DispatchExplanation:
        """Return why nothing moves, if nothing moves; see `KeyedExecutor.explain`."""
        return self._dispatch.explain()

    def put(self, results: Sequence[Any]) -> None:
        """Add the results of as many messages; `wake` must follow.

        Two steps, because this one is made under the dispatch's lock, together with the retirement of the mailboxes
        that the results came from: whoever then finds no mailbox left and completes can't overtake a result.
        """
        self.untaken += len(results)
        self._ready.append((results, None))

    def offer_inner(self, items: Sequence[Any], inner: InnerResults) -> None:
        """Add items of a handler's Observable, and emit what may be emitted."""
        self._ready.append((items, inner))
        if self.ended:
            self.drop()
        self.wake()

    def drop(self) -> None:
        """Forget the results that will not be taken any more; their messages have succeeded."""
        while True:
            try:
                results, inner = self._ready.popleft()
            except IndexError:
                return
            if inner is None:
                self._let_go(len(results))

    def _let_go(self, count: int) -> None:
        with self._dispatch.lock:
            self.untaken -= count
            self._dispatch.window.succeed(count)

    def _has_items(self) -> bool:
        return bool(self._ready)

    def _emit(self, limit: int) -> int:
        try:
            results, inner = self._ready.popleft()
        except IndexError:
            # Dropped by the dispatch's end between two looks.
            return 0
        if len(results) > limit:
            self._ready.appendleft((results[limit:], inner))
            results = results[:limit]
        self.emitting = threading.get_ident()
        try:
            self._deliver(results)
        finally:
            # Also if an exit comes out of the subscriber: these results are nowhere else any more.
            if inner is None:
                self._let_go(len(results))
        if inner is not None:
            inner.taken(len(results))
        return len(results)

    def _signal_end(self) -> None:
        self.emitting = threading.get_ident()
        with in_place_of(self._dispatch):
            super()._signal_end()

    def _stop(self) -> None:
        self._dispatch.close()

    def _release(self) -> None:
        self._dispatch.close()
        self.drop()

    def _drained(self) -> None:
        self._dispatch.replenish()
