"""The exceptions of rxwow, split by whose fault it is::

    RxwowError
    ├── UsageError                    the calling code asked for what can't work; change the call
    │   ├── InvalidArgumentError      an argument has a value that isn't allowed (also a ValueError)
    │   ├── InvalidRequestError       request(n) with n < 1 (also a ValueError; Reactive Streams §3.9)
    │   ├── InvalidKeyError           the key function raised or gave an unhashable key (also a TypeError)
    │   ├── StalledGroupsError        groups that nobody subscribed to hold up a group_by
    │   ├── BlockingCallError         a call that waits was made where waiting would hang (also a RuntimeError)
    │   └── ForeignLoopError          an awaitable belongs to another event loop (also a RuntimeError)
    ├── MissingBackpressureError      a source that can't be slowed sent more than the buffer holds
    ├── BlockingPoolFullError         too many handlers that block wait for a thread
    ├── ExecutorClosedError           the executor was disposed or drained; work was refused or left unfinished
    └── HandlerExit                   a handler raised SystemExit, KeyboardInterrupt, CancelledError or the like

Each message says what was wrong, what is allowed and what to do.
"""

from __future__ import annotations

import reprlib

__all__ = [
    "BlockingCallError",
    "BlockingPoolFullError",
    "ExecutorClosedError",
    "ForeignLoopError",
    "HandlerExit",
    "InvalidArgumentError",
    "InvalidKeyError",
    "InvalidRequestError",
    "MissingBackpressureError",
    "RxwowError",
    "StalledGroupsError",
    "UsageError",
]


class RxwowError(Exception):
    """Root of all exceptions that rxwow raises or emits on its own account."""


class UsageError(RxwowError):
    """The calling code asked for what can't work."""


class InvalidArgumentError(UsageError, ValueError):
    """An argument has a value that isn't allowed.

    >>> str(InvalidArgumentError("workers", 0, "a whole number of at least 1"))
    'workers must be a whole number of at least 1, not 0'
    """

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        super().__init__(f"{argument} must be {allowed}, not {value!r}")
        self.argument = argument
        self.value = value
        self.allowed = allowed


class InvalidRequestError(UsageError, ValueError):
    """A subscriber called `request(n)` with n < 1 (Reactive Streams §3.9)."""

    def __init__(self, requested: object) -> None:
        super().__init__(
            f"request(n) must be called with a whole number of at least 1, not {requested!r} (Reactive Streams §3.9)"
        )
        self.requested = requested


class InvalidKeyError(UsageError, TypeError):
    """The key function raised, or returned something that can't be hashed; `item` is the message."""

    def __init__(self, item: object, error: BaseException) -> None:
        super().__init__(
            f"no key for the message {_short(item)}: {_described(error)}; the key function must return "
            "something that can be hashed and compared"
        )
        self.item = item
        self.__cause__ = error


class StalledGroupsError(UsageError):
    """The items of groups that nobody has subscribed to use up the account of a `group_by`, and others wait."""

    def __init__(self, key: object, waiting: int, prefetch: int, patience: float) -> None:
        super().__init__(
            f"all {prefetch} items that group_by may hold (prefetch) are in groups that nobody has subscribed to for "
            f"{patience:g} s, {waiting} of them in the group {_short(key)}, while others wait for items; "
            "subscribe to every group at once (flat_map with a max_concurrency of at least the number of groups), "
            "cancel or drop the groups that are not wanted, or use keyed_dispatch, which is made for many keys"
        )
        self.key = key
        self.waiting = waiting
        self.prefetch = prefetch


class BlockingCallError(UsageError, RuntimeError):
    """A call that waits was made on a thread whose work it would wait for."""

    def __init__(self, call: str, where: str, instead: str) -> None:
        super().__init__(f"{call} would block {where}; {instead}")
        self.call = call


class ForeignLoopError(UsageError, RuntimeError):
    """A handler returned an awaitable that is bound to another event loop than its worker's."""

    def __init__(self, awaitable: object) -> None:
        super().__init__(
            f"the handler returned {_short(awaitable)}, which is bound to another event loop than its worker's; run "
            "the handlers on your own loop with executor=KeyedExecutor.on_running_loop(), or make the resource on the "
            "worker's loop"
        )


class MissingBackpressureError(RxwowError):
    """A source that can't be slowed sent more than its buffer holds."""

    def __init__(self, capacity: int, remedy: str, what: str = "the source") -> None:
        super().__init__(f"{what} sent more than the {capacity} items that the buffer behind it holds; {remedy}")
        self.capacity = capacity


class BlockingPoolFullError(RxwowError):
    """All threads for handlers that block are taken, and too many messages wait for one."""

    def __init__(self, executor: str, threads: int, queued: int) -> None:
        super().__init__(
            f"all {threads} threads of executor {executor!r} for handlers that block are taken, and {queued} messages "
            "wait for one; ask for fewer at a time (max_in_flight), or find out what the handlers wait for"
        )
        self.executor = executor


class ExecutorClosedError(RxwowError):
    """The executor was disposed or drained: work was refused, or left unfinished."""

    def __init__(self, executor: str, consequence: str) -> None:
        super().__init__(f"executor {executor!r} is closed; {consequence}")
        self.executor = executor


class HandlerExit(RxwowError):
    """A handler raised an exception that would have ended its thread or task; `__cause__` is that exception.

    It is the failure of that message alone: the worker goes on. The same holds for the other functions that the user
    gives; `raised_by` says which it was.
    """

    def __init__(self, error: BaseException, raised_by: str = "handler") -> None:
        super().__init__(
            f"the {raised_by} raised {_described(error)}; it fails by raising an Exception, and is stopped "
            "by disposing the subscription or the executor"
        )
        self.__cause__ = error


_representation = reprlib.Repr()
_representation.maxother = _representation.maxstring = 120


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the user's own __str__; an error is told even if it can't be put into words.
        return type(error).__name__


def _short(value: object) -> str:
    # reprlib, because a message's own __repr__ may be long, or may raise.
    return _representation.repr(value)
