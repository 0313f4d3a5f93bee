"""The actions of a scheduler, on their way to the mailbox of their key: at once, or when they are due."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from reactivex import abc
from reactivex.disposable import SingleAssignmentDisposable
from reactivex.scheduler.scheduler import Scheduler

from rxwow.platform import Platform
from rxwow.streams.emitter import Emitter
from rxwow.streams.protocols import Subscriber

if TYPE_CHECKING:
    from rxwow.execution.executor import KeyedExecutor
    from rxwow.execution.worker import Worker

__all__ = ["Action", "ActionSource"]

FEWEST_TO_SWEEP: Final = 64
"""Cancelled timers are swept out when there are as many, and as many as others; one by one would cost more."""


class Action(abc.DisposableBase):
    """An action that was scheduled; as a disposable, what the caller of `schedule` gets.

    `due` and `number` order those that wait, and are set before it is shared. When it is disposed it lets go of all
    that it refers to, wherever it waits. `_action` is taken by whoever sets it to None: `run` on the worker, or
    `dispose` on any thread; that both take it does no harm, as `disposed` tells `run` what came of it.
    """

    __slots__ = ("_action", "_context", "_result", "_scheduler", "_source", "_state", "due", "key", "number")

    def __init__(self, scheduler: Scheduler, key: Hashable, action: abc.ScheduledAction[Any], state: Any) -> None:
        self.key = key
        self.due = 0.0
        self.number = 0
        self._scheduler = scheduler
        self._action: abc.ScheduledAction[Any] | None = action
        self._state = state
        self._context = copy_context()
        self._result = SingleAssignmentDisposable()
        self._source: ActionSource | None = None

    def __lt__(self, other: Action) -> bool:
        return (self.due, self.number) < (other.due, other.number)

    @property
    def disposed(self) -> bool:
        return self._result.is_disposed

    def run(self) -> None:
        """Call the action, unless it was disposed; called once, on a worker."""
        action, state, context = self._action, self._state, self._context
        self._action = self._state = None
        if action is None or self._result.is_disposed:
            return
        self._result.disposable = context.run(self._scheduler.invoke_action, action, state)

    def wait_in(self, source: ActionSource) -> None:
        """Be told of by `source`, which counts those that were disposed while they wait."""
        self._source = source

    def dispose(self) -> None:
        self._result.dispose()
        self._action = self._state = None
        source, self._source = self._source, None
        if source is not None:
            source.timer_disposed()


class ActionSource(Emitter[Action]):
    """The source of the dispatch that runs the actions.

    That an action comes after the timers that were due before it is decided under one lock. The timers are a heap that
    one worker watches, with one timer of its loop for the first of them.

    `_lock` guards `_entered`, `_timers`, `_number`, `_disposed`, `_worker` and `_closed` too. `_handle` and `_watched`
    belong to the worker's thread.
    """

    __slots__ = (
        "_closed",
        "_disposed",
        "_entered",
        "_executor",
        "_handle",
        "_number",
        "_platform",
        "_timers",
        "_watched",
        "_worker",
    )

    def __init__(self, subscriber: Subscriber[Action], platform: Platform, executor: KeyedExecutor) -> None:
        super().__init__(subscriber, platform)
        self._platform = platform
        self._executor = executor
        self._entered: deque[Action] = deque()
        self._timers: list[Action] = []
        self._number = 0
        self._disposed = 0
        self._worker: Worker | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._watched = 0.0
        self._closed = False

    def enter(self, action: Action, seconds: float) -> bool:
        """Take an action that is due in `seconds`; return False if the executor is closed."""
        now = self._platform.monotonic()
        if seconds > 0:
            return self._wait(action, now + seconds)
        with self._lock:
            if self._ended or self._closed:
                return False
            self._take_due(now)
            self._entered.append(action)
            if not self._become_drainer():
                return True
        self._begin_drain()
        return True

    def quiesce(self) -> None:
        """Take no more actions, drop the timers, and complete after those actions that were taken."""
        with self._lock:
            self._closed = True
            _, self._timers = self._timers, []
        self.complete()

    def timer_disposed(self) -> None:
        """Count a timer that was disposed, and sweep such out when there are many."""
        with self._lock:
            self._disposed += 1
            if self._disposed >= max(FEWEST_TO_SWEEP, len(self._timers) // 2):
                self._timers = [action for action in self._timers if not action.disposed]
                heapq.heapify(self._timers)
                self._disposed = 0

    def _wait(self, action: Action, due: float) -> bool:
        worker = self._worker or self._executor.any_worker()
        with self._lock:
            if self._ended or self._closed:
                return False
            worker = self._worker = self._worker or worker
            self._number += 1
            action.due = due
            action.number = self._number
            action.wait_in(self)
            heapq.heappush(self._timers, action)
            first = self._timers[0] is action
        return not first or worker.call_soon(self._watch)

    def _take_due(self, now: float) -> None:
        """Move the timers that are due; called with the lock held."""
        while self._timers and (self._timers[0].due <= now or self._timers[0].disposed):
            action = heapq.heappop(self._timers)
            if action.disposed:
                self._disposed -= 1
            else:
                self._entered.append(action)

    # On the worker's thread.

    def _watch(self) -> None:
        """Have the loop wake this worker when the first timer is due."""
        with self._lock:
            first = self._timers[0].due if self._timers else None
        if self._handle is not None:
            if first is not None and self._watched <= first:
                return
            self._handle.cancel()
            self._handle = None
        if first is not None and self._worker is not None:
            self._watched = first
            self._handle = self._worker.loop.call_later(first - self._platform.monotonic(), self._due)

    def _due(self) -> None:
        self._handle = None
        with self._lock:
            # By our own clock: a loop may call its timers a little early.
            self._take_due(self._platform.monotonic())
            drains = bool(self._entered) and self._become_drainer()
        if drains:
            self._begin_drain()
        self._watch()

    # What the emitter asks.

    def _has_items(self) -> bool:
        return bool(self._entered)

    def _emit(self, limit: int) -> int:
        with self._lock:
            actions = [self._entered.popleft() for _ in range(min(limit, len(self._entered)))]
        return self._deliver(actions) if actions else 0

    def _stop(self) -> None:
        self._release()

    def _release(self) -> None:
        with self._lock:
            _, self._entered = self._entered, deque()
            _, self._timers = self._timers, []
            worker = self._worker
        if worker is not None:
            worker.call_soon(self._watch)
