"""Why nothing moves, in words: the cause first, then what shows it."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

from rxwow.execution.cause import Cause

if TYPE_CHECKING:
    from rxwow.execution.explanation import (
        DispatchExplanation,
        ExecutorExplanation,
        KeyExplanation,
        ThreadExplanation,
    )
    from rxwow.execution.whereabouts import Place

__all__ = ["of_dispatch", "of_executor", "of_key", "of_thread"]

_representation = reprlib.Repr()
_representation.maxother = _representation.maxstring = 60


def of_executor(executor: ExecutorExplanation) -> str:
    """Return a line for the executor, and a few for each dispatch."""
    if executor.dispatches:
        lines = [_state(executor), *(_indented(of_dispatch(dispatch)) for dispatch in executor.dispatches)]
    elif executor.asked_for is not None:
        lines = [f"executor {executor.name!r} has no dispatch named {executor.asked_for!r}, or it has ended"]
    else:
        nothing = "is closed" if executor.state == "closed" else "has nothing to do: nothing is subscribed"
        lines = [f"executor {executor.name!r} {nothing}"]
    # What a dispatch says of a worker, it says itself; of others, nobody would.
    told = {dispatch.name for dispatch in executor.dispatches}
    lines += [f"  {of_thread(worker)}" for worker in executor.workers if worker.busy and worker.dispatch not in told]
    return "\n".join(lines)


def _state(executor: ExecutorExplanation) -> str:
    names = ", ".join(repr(dispatch.name) for dispatch in executor.dispatches)
    if executor.state == "open":
        return f"executor {executor.name!r} is open"
    if executor.state == "draining":
        return f"executor {executor.name!r} is draining, and waits for {names} to end"
    return f"executor {executor.name!r} is closed, and {names} has not ended yet"


def of_dispatch(dispatch: DispatchExplanation) -> str:
    """Return a sentence for the dispatch, and a line for each key that is told of if there is more than one."""
    lines = [f"dispatch {dispatch.name!r}: {_cause(dispatch)}"]
    lines += [f"  also: {_said(cause, dispatch)}" for cause in dispatch.causes[1:]]
    if dispatch.key_count > 1:
        lines += [f"  {of_key(key)}" for key in dispatch.keys]
        if dispatch.key_count > len(dispatch.keys):
            lines.append(f"  and {dispatch.key_count - len(dispatch.keys)} more keys")
    return "\n".join(lines)


def _cause(dispatch: DispatchExplanation) -> str:
    window = dispatch.window
    if window is None or not window.in_flight:
        return _said(dispatch.cause, dispatch)
    state = f"{window.in_flight} of {window.limit} in flight"
    if dispatch.keys and dispatch.keys[0].cause in _about_keys(dispatch.cause):
        return _about_key(dispatch, dispatch.keys[0], f"{window.in_flight} of {window.limit}")
    if dispatch.full:
        return f"{_said(dispatch.cause, dispatch)}; the window is full ({window.in_flight} of {window.limit})"
    return f"{_said(dispatch.cause, dispatch)}; {state}"


def _about_keys(cause: Cause) -> tuple[Cause, ...]:
    """Return the causes of keys that a cause of a dispatch is about."""
    if cause in (Cause.SUBSCRIBER, Cause.SOURCE, Cause.NO_DEMAND, Cause.POOL_FULL):
        return ()
    return (cause,)


def _about_key(dispatch: DispatchExplanation, key: KeyExplanation, filled: str) -> str:
    likewise = f"; {_count(dispatch.likewise, 'more key')} likewise" if dispatch.likewise else ""
    if dispatch.full:
        return (
            f"the window is full ({filled}); {key.messages} of its messages are of key {_shown(key.key)}, whose "
            f"{_doing(key)}{likewise}"
        )
    return f"the {_doing(key, of=True)}; it has {_count(key.messages, 'message')}, {filled} are in flight{likewise}"


def _said(cause: Cause, dispatch: DispatchExplanation) -> str:
    """Return what is known of a cause that is not about one key, or of one that is not the first."""
    window = dispatch.window
    requested = window.requested if window is not None else 0
    match cause:
        case Cause.SUBSCRIBER if dispatch.subscriber is not None:
            return f"the subscriber has not returned from a call: {_thread_at(dispatch.subscriber)}"
        case Cause.NO_DEMAND if dispatch.untaken:
            return f"the subscriber has asked for no more: {_count(dispatch.untaken, 'result')} not taken"
        case Cause.NO_DEMAND:
            return "the subscriber has got all that it asked for, and has asked for no more"
        case Cause.SOURCE if dispatch.source is not None:
            return f"the source has not returned from a call: {_thread_at(dispatch.source)}"
        case Cause.SOURCE_NOT_SUBSCRIBED if dispatch.source is not None:
            return f"the source has not called on_subscribe: {_thread_at(dispatch.source)}"
        case Cause.SOURCE_SILENT:
            return f"{_source(dispatch)} was asked for {requested} and has sent none of them"
        case Cause.POOL_FULL if dispatch.pool is not None:
            threads, _, calls = dispatch.pool
            holder = next((key for key in dispatch.keys if key.cause is Cause.POOL_THREAD), None)
            holds = "" if holder is None else f"; the {_doing(holder, of=True)}"
            return f"all {threads} threads for handlers that block are taken, and {_count(calls, 'call')} queued{holds}"
        case Cause.LOCK if dispatch.lock_holder is not None:
            return f"the lock is held in a comparison of keys: {_thread_at(dispatch.lock_holder)}"
        case _:
            key = next((key for key in dispatch.keys if key.cause is cause), None)
            return str(cause.value) if key is None else f"the {_doing(key, of=True)}"


def of_key(key: KeyExplanation) -> str:
    """Return a sentence for one key."""
    return f"key {_shown(key.key)}, {_count(key.messages, 'message')}: {_doing(key)}"


def _doing(key: KeyExplanation, *, of: bool = False) -> str:
    owner = f" of key {_shown(key.key)}" if of else ""
    lasted = "" if key.seconds is None else f" for {_seconds(key.seconds)}"
    handler = f"handler{owner}"
    match key.cause:
        case Cause.HANDLER:
            return f"{handler} has been running{lasted}{_at(key.place)}"
        case Cause.AWAITABLE:
            return f"{handler} has been waiting{lasted}{_at(key.place) or ' for an awaitable'}"
        case Cause.FUTURE:
            return f"{handler} has been waiting{lasted} for a future that is {key.detail}"
        case Cause.OBSERVABLE:
            return f"{handler} has been waiting{lasted} for its Observable to complete"
        case Cause.POOL_THREAD:
            return f"{handler} has been running{lasted} on a thread of the pool{_at(key.place)}"
        case Cause.POOL_FULL:
            return f"{handler} has been waiting{lasted} for a thread of the pool"
        case Cause.RETRY:
            due = _seconds(key.due or 0.0)
            return f"message{owner} failed at attempt {key.attempt}; the next attempt is due in {due}"
        case Cause.WORKER if key.worker is not None:
            return f"next turn{owner} waits for its worker: {of_thread(key.worker)}"
        case Cause.NO_DEMAND:
            return f"handler{owner} has been waiting{lasted} for the items of its Observable to be taken"
        case _:
            return f"next turn{owner} has not begun yet"


def of_thread(thread: ThreadExplanation) -> str:
    """Return a phrase for what a thread does."""
    if not thread.busy:
        return f"{thread.name} is ready"
    return _thread_at(thread)


def _thread_at(thread: ThreadExplanation) -> str:
    lasted = "" if thread.seconds is None else f" for {_seconds(thread.seconds)}"
    turn = "" if thread.dispatch is None else f" of dispatch {thread.dispatch!r}, key {_shown(thread.key)}"
    return f"{thread.name} has been in {thread.doing or 'a turn'}{turn}{lasted}{_at(thread.place)}"


def _source(dispatch: DispatchExplanation) -> str:
    if not dispatch.feeders:
        return "the source"
    return f"the source, dispatch {' and '.join(map(repr, dispatch.feeders))},"


def _at(place: Place | None) -> str:
    return "" if place is None else f" at {place}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _shown(key: object) -> str:
    # A key's own __repr__ may be long, or may raise; reprlib sees to both.
    return _representation.repr(key)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
