"""Why nothing moves, as data; `str()` of it as words."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from rxwow.execution import sentences
from rxwow.execution.cause import Cause
from rxwow.execution.statistics import WindowStatistics
from rxwow.execution.whereabouts import Place

__all__ = ["DispatchExplanation", "ExecutorExplanation", "KeyExplanation", "ThreadExplanation"]


@dataclass(frozen=True, slots=True)
class ThreadExplanation:
    """What one thread does for an executor."""

    name: str
    """The thread's name."""
    doing: str | None
    """What it is in, such as "the handler" or "the source's request"; None if it is in nothing of the user's."""
    place: Place | None
    """The innermost line of user code that it is at; None if there is none."""
    seconds: float | None
    """For how long; of a handler, since the batch of turns that it is in began. None if that is not known."""
    dispatch: str | None = None
    """The name of the dispatch whose turn it runs, if it runs one."""
    key: Hashable = None
    """The key whose turn it runs, if it runs one."""

    @property
    def busy(self) -> bool:
        """Whether it is held by something, and not ready for more."""
        return self.dispatch is not None or (self.doing is not None and self.place is not None)

    def __str__(self) -> str:
        return sentences.of_thread(self)


@dataclass(frozen=True, slots=True)
class KeyExplanation:
    """What the messages of one key wait for."""

    key: Hashable
    """The key."""
    messages: int
    """Its messages that are unfinished, the one that is handled included."""
    cause: Cause
    """What the first of them waits for."""
    seconds: float | None
    """For how long; None if that is not known."""
    place: Place | None = None
    """The innermost line of user code that its handler is at, or waits at; None if there is none."""
    due: float | None = None
    """Seconds until the next attempt, if it waits for one."""
    attempt: int = 1
    """Which attempt this is, or which has failed last."""
    worker: ThreadExplanation | None = None
    """What its worker does, if it waits for its turn."""
    detail: str = ""
    """What the handler has returned, in words, if it has returned something to wait for."""

    def __str__(self) -> str:
        return sentences.of_key(self)


@dataclass(frozen=True, slots=True)
class DispatchExplanation:
    """Why one dispatch doesn't move, if it doesn't; `str()` begins with the cause."""

    name: str
    """The dispatch's name."""
    causes: tuple[Cause, ...]
    """What it waits for, at least one; first what holds up most messages."""
    window: WindowStatistics | None
    """Its books; None if its lock was not to be had."""
    full: bool
    """Whether the window has no room for another batch, and nothing is asked of the source therefore."""
    source_done: bool
    """Whether nothing more comes from the source: it has completed, or a drain has stopped it."""
    demand: int
    """Results that the subscriber has asked for and not got."""
    untaken: int
    """Messages that are done and whose result was not taken yet, or is just being taken."""
    keys: tuple[KeyExplanation, ...]
    """The ten keys with the most messages; the one that the first cause is about, and the one that waits longest, are
    among them."""
    key_count: int
    """Keys that have unfinished messages, in all."""
    likewise: int
    """Keys that wait for the same as the first of `keys`."""
    subscriber: ThreadExplanation | None = None
    """The thread that is in a call of the subscriber, if one is."""
    source: ThreadExplanation | None = None
    """The thread that is in a call of the source, if one is: a request, or its subscription."""
    lock_holder: ThreadExplanation | None = None
    """The thread that compares keys, if the dispatch's lock was not to be had."""
    feeders: tuple[str, ...] = ()
    """The names of the dispatches that are its source."""
    pool: tuple[int, int, int] | None = None
    """The threads for handlers that block, how many of them are idle, and how many calls wait for one; None if no
    message is there."""

    @property
    def cause(self) -> Cause:
        """The first of `causes`."""
        return self.causes[0]

    @property
    def in_flight(self) -> int:
        """Messages received that have not left the window."""
        return 0 if self.window is None else self.window.in_flight

    def __str__(self) -> str:
        return sentences.of_dispatch(self)


@dataclass(frozen=True, slots=True)
class ExecutorExplanation:
    """Why nothing moves in an executor, if nothing does."""

    name: str
    """The executor's name."""
    state: str
    """`open`, `draining` or `closed`."""
    workers: tuple[ThreadExplanation, ...]
    """What its workers do: those that have a thread."""
    dispatches: tuple[DispatchExplanation, ...]
    """The dispatches that have not ended, those with messages in flight first."""
    asked_for: str | None = None
    """The name of the dispatches that it was asked to tell of; None for all."""

    def __str__(self) -> str:
        return sentences.of_executor(self)
