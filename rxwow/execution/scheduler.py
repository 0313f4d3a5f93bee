"""KeyedScheduler: the workers of an executor as a scheduler of RxPY."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from datetime import datetime
from operator import attrgetter, methodcaller
from typing import Any, TypeVar

from reactivex import abc, typing
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from rxwow.errors import ExecutorClosedError, InvalidArgumentError
from rxwow.execution.actions import Action, ActionSource
from rxwow.execution.executor import KeyedExecutor
from rxwow.execution.failure import SKIP, FailurePolicy
from rxwow.execution.keyed_dispatch import begin_dispatch
from rxwow.execution.options import DispatchOptions
from rxwow.streams.flowable import Flowable
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription

__all__ = ["KeyedScheduler"]

_State = TypeVar("_State")


class _Scheduler(PeriodicScheduler):
    """What both forms do alike: they differ in the key of an action, and so in the mailbox that it waits in."""

    def __init__(self, actions: _Actions) -> None:
        super().__init__()
        self._actions = actions

    @property
    def now(self) -> datetime:
        """The time of day, in UTC; by the clock of the test in a test."""
        return self._actions.platform.now()

    @abstractmethod
    def _key(self) -> Hashable:
        """Return the key of the next action."""

    def schedule(self, action: abc.ScheduledAction[_State], state: _State | None = None) -> abc.DisposableBase:
        """Run `action` as soon as its mailbox has its turn.

        Args:
            action: called with this scheduler and `state`, on a worker, in a copy of the calling context.
            state: passed to the action.

        Returns:
            A disposable that keeps the action from running, if it has not begun.

        Raises:
            ExecutorClosedError: the executor is closed.
        """
        return self._actions.enter(Action(self, self._key(), action, state))

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: abc.ScheduledAction[_State], state: _State | None = None
    ) -> abc.DisposableBase:
        """Run `action` no sooner than in `duetime` (seconds or a timedelta); see `schedule`."""
        return self._actions.enter(Action(self, self._key(), action, state), self.to_seconds(duetime))

    def schedule_absolute(
        self, duetime: typing.AbsoluteTime, action: abc.ScheduledAction[_State], state: _State | None = None
    ) -> abc.DisposableBase:
        """Run `action` no sooner than at `duetime` (a datetime, or seconds since 1970); see `schedule`."""
        seconds = (self.to_datetime(duetime) - self.now).total_seconds()
        return self._actions.enter(Action(self, self._key(), action, state), seconds)


class KeyedScheduler(_Scheduler):
    """A scheduler of RxPY whose actions run on the workers of an executor.

    Its own actions are independent of each other and run side by side. Those of `for_key(key)` run one at a time, in
    the order in which they became due, as the messages of one key do: `throughput` of them a turn, and on one worker as
    long as there are any. Actions that were scheduled for later wait on a worker's loop; none runs early, and those
    that are due at the same time run in the order in which they were scheduled.

    An action that raises is logged, and reported to the executor's hooks as a skipped message; RxPY's `CatchScheduler`
    sees the error before. A drain of the executor ends the scheduler after all dispatches: actions that are due finish,
    those for later are dropped.

    Args:
        executor: whose workers run the actions; `KeyedExecutor.shared()` if None.

    >>> import reactivex
    >>> from reactivex import operators as ops
    >>> with KeyedExecutor(workers=2) as executor:
    ...     scheduler = KeyedScheduler(executor)
    ...     reactivex.timer(0.001, scheduler=scheduler.for_key("ann")).pipe(ops.map(lambda _: "done")).run()
    'done'
    """

    def __init__(self, executor: KeyedExecutor | None = None) -> None:
        if executor is not None and not isinstance(executor, KeyedExecutor):
            raise InvalidArgumentError("executor", executor, "a KeyedExecutor, or None for the shared one")
        self.executor = executor or KeyedExecutor.shared()
        super().__init__(_Actions(self.executor))

    def for_key(self, key: Hashable) -> PeriodicScheduler:
        """Return a scheduler whose actions run one at a time, with all others of an equal key.

        Args:
            key: any hashable.

        Raises:
            InvalidArgumentError: `key` can't be hashed.
        """
        try:
            hash(key)
        except TypeError as error:
            raise InvalidArgumentError("key", key, "hashable") from error
        return _KeyScheduler(self._actions, key)

    def _key(self) -> Hashable:
        # Equal to no other, so the action has a mailbox of its own.
        return object()


class _KeyScheduler(_Scheduler):
    """The actions of one key."""

    def __init__(self, actions: _Actions, key: Hashable) -> None:
        super().__init__(actions)
        self._own_key = key

    def _key(self) -> Hashable:
        return self._own_key


class _Actions:
    """The dispatch that runs the actions of a scheduler, begun with the first of them; `_lock` guards `_source`."""

    def __init__(self, executor: KeyedExecutor) -> None:
        self.platform = executor.platform
        self._executor = executor
        self._lock = self.platform.lock()
        self._source: ActionSource | None = None

    def enter(self, action: Action, seconds: float = 0.0) -> abc.DisposableBase:
        source = self._source or self._begin()
        if not source.enter(action, seconds):
            raise ExecutorClosedError(self._executor.name, "schedule while it is open, or on another")
        return action

    def _begin(self) -> ActionSource:
        with self._lock:
            if self._source is not None:
                return self._source
            source: ActionSource | None = None

            def publish(subscriber: Subscriber[Action], _: abc.SchedulerBase | None) -> Subscription:
                nonlocal source
                source = ActionSource(subscriber, self.platform, self._executor)
                source.start()
                return source

            options = DispatchOptions(
                key=attrgetter("key"),
                handler=methodcaller("run"),
                max_in_flight=UNBOUNDED,
                throughput=self._executor.throughput,
                on_failure=FailurePolicy(SKIP),
                on_discard=None,
                name="KeyedScheduler",
                serves=True,
            )
            begin_dispatch(options, self._executor, Flowable(publish), _Nothing(), None)
            if source is None:
                raise ExecutorClosedError(self._executor.name, "schedule while it is open, or on another")
            self._source = source
            return source


class _Nothing(BatchSubscriber[Any]):
    """Takes the results of actions, which are none."""

    __slots__ = ()

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(UNBOUNDED)

    def on_next(self, value: Any) -> None:
        pass

    def on_next_batch(self, items: Sequence[Any]) -> None:
        pass

    def on_error(self, error: Exception) -> None:
        # The executor was disposed; whoever schedules next is told.
        pass

    def on_completed(self) -> None:
        pass
