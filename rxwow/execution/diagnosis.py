"""Find out why nothing moves in a dispatch, or in all of an executor.

A message that waits for its turn waits for whatever holds its worker; so what is counted for each cause are the
messages that would move if it were gone.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rxwow.execution.cause import Cause
from rxwow.execution.explanation import DispatchExplanation, ExecutorExplanation, ThreadExplanation
from rxwow.execution.key_diagnosis import KeyState
from rxwow.execution.statistics import WindowStatistics
from rxwow.execution.thread_diagnosis import Threads
from rxwow.platform import Lock

if TYPE_CHECKING:
    from rxwow.execution.dispatch import Dispatch
    from rxwow.execution.worker import Worker

__all__ = ["explain_dispatch", "explain_executor"]

LOCK_PATIENCE: Final = 1.0
"""Seconds after which a dispatch is told of without its lock: the comparison of two keys may hang with it held."""
MOST_KEYS: Final = 10


def explain_executor(
    name: str, state: str, workers: Sequence[Worker], dispatches: Sequence[Dispatch], asked_for: str | None
) -> ExecutorExplanation:
    """Return why nothing moves in an executor; see `KeyedExecutor.explain`."""
    told = [explain_dispatch(one) for one in dispatches if asked_for is None or one.options.name == asked_for]
    told.sort(key=lambda one: (-one.in_flight, one.name))
    # One that is started has a thread, or works on a loop that runs; both have an `ident`.
    running = [worker for worker in workers if worker.ident is not None]
    threads = Threads(workers[0].platform)
    return ExecutorExplanation(name, state, tuple(threads.worker(worker) for worker in running), tuple(told), asked_for)


def explain_dispatch(dispatch: Dispatch) -> DispatchExplanation:
    """Return why nothing moves in a dispatch."""
    seen = _look_at(dispatch)
    threads = Threads(dispatch.platform)
    if seen is None:
        return _explain_locked(dispatch, threads)
    return _Diagnosis(dispatch, seen, threads).explain()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is guarded by the lock of a dispatch."""

    window: WindowStatistics
    room: bool
    untaken: int
    keys: list[KeyState]
    closed: bool
    subscribed: bool
    source_done: bool
    asked_by: tuple[int, float] | None


def _look_at(dispatch: Dispatch) -> _Seen | None:
    """Look at what the lock guards, all at one moment; None if the lock was not to be had."""
    if not _acquire(dispatch.lock):
        return None
    try:
        return _Seen(
            window=dispatch.window.statistics(),
            room=dispatch.window.has_batch(),
            untaken=dispatch.outlet.untaken,
            keys=[KeyState(*state) for state in dispatch.mailboxes.states()],
            closed=dispatch.closed,
            subscribed=dispatch._upstream is not None,
            source_done=dispatch._upstream_done,
            asked_by=dispatch.asked_by,
        )
    finally:
        dispatch.lock.release()


def _acquire(lock: Lock) -> bool:
    if isinstance(lock, LockType):
        return lock.acquire(timeout=LOCK_PATIENCE)
    # In a test's virtual time a lock that is never released is an error of its own.
    return lock.acquire()


def _explain_locked(dispatch: Dispatch, threads: Threads) -> DispatchExplanation:
    return DispatchExplanation(
        name=dispatch.options.name,
        causes=(Cause.LOCK,),
        window=None,
        full=False,
        source_done=False,
        demand=dispatch.outlet._requested,
        untaken=0,
        keys=(),
        key_count=0,
        likewise=0,
        lock_holder=threads.key_comparison(),
    )


class _Diagnosis:
    """What is found out of one dispatch."""

    def __init__(self, dispatch: Dispatch, seen: _Seen, threads: Threads) -> None:
        self._dispatch = dispatch
        self._seen = seen
        self._threads = threads
        # Read without the outlet's lock: it is one field, and that of a dispatch that is stuck does not change.
        self._demand = dispatch.outlet._requested
        self._subscriber = threads.subscriber(dispatch)
        self._source, self._asks = self._find_source()
        self._causes = {state: self._cause(state) for state in seen.keys if state.messages}
        self._held = {state.worker for state, cause in self._causes.items() if cause is Cause.HANDLER}

    def explain(self) -> DispatchExplanation:
        seen = self._seen
        causes = self._rank()
        reported = self._report(causes[0])
        lead = self._causes[reported[0]] if reported else None
        pools = [state.pool for state in self._causes if state.pool is not None]
        return DispatchExplanation(
            name=self._dispatch.options.name,
            causes=causes,
            window=seen.window,
            full=self._is_full(),
            source_done=seen.source_done,
            demand=self._demand,
            untaken=seen.untaken,
            keys=tuple(state.explain(self._causes[state], self._threads) for state in reported),
            key_count=len(self._causes),
            likewise=max(0, sum(cause is lead for cause in self._causes.values()) - 1),
            subscriber=self._subscriber,
            source=self._source,
            feeders=self._feeders(),
            pool=pools[0].statistics() if pools else None,
        )

    def _find_source(self) -> tuple[ThreadExplanation | None, int | None]:
        """Return the thread that is in a call of the source, which has not returned, and that thread's `ident`.

        A source that sends its items while it is subscribed to may be held up there by the window.
        """
        asked_by, subscribed_by = self._seen.asked_by, self._dispatch.subscribed_by
        asks = self._threads.asks(asked_by)
        if asked_by is not None and asks is not None:
            return asks, asked_by[0]
        owes = self._seen.window.requested > 0 or not self._seen.subscribed
        subscribes = self._threads.subscribes(subscribed_by) if owes else None
        if subscribed_by is not None and subscribes is not None:
            return subscribes, subscribed_by[0]
        return None, None

    def _is_full(self) -> bool:
        seen = self._seen
        return seen.window.in_flight > 0 and seen.window.requested <= 0 and not seen.room and not seen.source_done

    def _cause(self, state: KeyState) -> Cause:
        """Return what the messages of one key wait for, as far as it can be seen from them and their worker."""
        cause = state.cause()
        if cause is Cause.TURN and state.worker is not None and self._threads.worker(state.worker).busy:
            return Cause.WORKER
        if cause is Cause.HANDLER and self._in_subscriber(state):
            # The results of its turn are emitted before it waits.
            return Cause.SUBSCRIBER
        if cause is Cause.NO_DEMAND and self._demand:
            # Its items are being taken.
            return Cause.OBSERVABLE if self._subscriber is None else Cause.SUBSCRIBER
        return cause

    def _root(self, state: KeyState) -> Cause:
        """Return what would have to end for a key to go on."""
        cause = self._causes[state]
        if cause in (Cause.WORKER, Cause.TURN):
            if self._in_subscriber(state):
                return Cause.SUBSCRIBER
            if self._holds(self._asks, state):
                return Cause.SOURCE
            if state.worker in self._held:
                return Cause.HANDLER
        return cause

    def _in_subscriber(self, state: KeyState) -> bool:
        return self._subscriber is not None and self._holds(self._dispatch.outlet.emitting, state)

    @staticmethod
    def _holds(ident: int | None, state: KeyState) -> bool:
        return ident is not None and state.worker is not None and state.worker.ident == ident

    def _rank(self) -> tuple[Cause, ...]:
        """Return the causes, that of most messages first, then that of the longest wait."""
        if self._seen.closed:
            return (Cause.ENDED,)
        if not self._seen.window.in_flight:
            return self._causes_without_messages()
        held = self._count()
        ranked = sorted(held, key=lambda cause: held[cause], reverse=True) or [Cause.TURN]
        if self._source is not None and Cause.SOURCE not in ranked:
            ranked.append(Cause.SOURCE)
        return tuple(ranked)

    def _count(self) -> dict[Cause, tuple[int, float]]:
        """Return how many messages each cause holds up, and for how long the longest wait has lasted."""
        held: dict[Cause, tuple[int, float]] = {}

        def add(cause: Cause, messages: int, seconds: float) -> None:
            before = held.get(cause, (0, 0.0))
            held[cause] = (before[0] + messages, max(before[1], seconds))

        for state in self._causes:
            add(self._root(state), state.messages, state.seconds(self._threads.now) or 0.0)
        seen = self._seen
        if seen.untaken and self._subscriber is not None:
            add(Cause.SUBSCRIBER, seen.untaken, self._subscriber.seconds or 0.0)
        elif seen.untaken and not self._demand:
            add(Cause.NO_DEMAND, seen.untaken, 0.0)
        if Cause.HANDLER in held:
            # Done, and settled together with the handler that runs.
            elsewhere = seen.untaken + sum(state.messages for state in self._causes)
            add(Cause.HANDLER, seen.window.in_flight - elsewhere, 0.0)
        if Cause.POOL_FULL in held:
            add(Cause.POOL_FULL, *held.pop(Cause.POOL_THREAD, (0, 0.0)))
        return held

    def _causes_without_messages(self) -> tuple[Cause, ...]:
        seen = self._seen
        if not self._dispatch.outlet.opened:
            return (Cause.NOTHING_REQUESTED,)
        if self._subscriber is not None:
            return (Cause.SUBSCRIBER,)
        if seen.source_done:
            return (Cause.NOTHING,)
        if not seen.subscribed:
            return (Cause.SOURCE_NOT_SUBSCRIBED,)
        if self._dispatch.options.serves:
            return (Cause.NOTHING,)
        if self._source is not None:
            source = Cause.SOURCE
        else:
            source = Cause.SOURCE_SILENT if seen.window.requested > 0 else Cause.TURN
        return (source,) if self._demand else (Cause.NO_DEMAND, source)

    def _report(self, cause: Cause) -> list[KeyState]:
        """Return the keys to tell of: first one that the cause is about, among them the one that waits longest."""
        holders = (Cause.POOL_FULL, Cause.POOL_THREAD) if cause is Cause.POOL_FULL else (cause,)
        now = self._threads.now

        def rank(state: KeyState) -> tuple[bool, int, float]:
            return (self._causes[state] in holders, state.messages, state.seconds(now) or 0.0)

        states = sorted(self._causes, key=rank, reverse=True)
        longest = max(states, key=lambda state: state.seconds(now) or 0.0, default=None)
        reported = states[:MOST_KEYS]
        if longest is not None and longest not in reported:
            reported[-1] = longest
        return reported

    def _feeders(self) -> tuple[str, ...]:
        executor = self._dispatch._executor
        with executor._lock:
            dispatches = list(executor._dispatches)
        return tuple(one.options.name for one in dispatches if one.feeds is self._dispatch)
