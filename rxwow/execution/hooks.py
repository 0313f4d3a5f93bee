"""Hooks: where an application hears of what can't be raised to anybody."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Any

from rxwow.platform import Lock, Platform

__all__ = ["ExecutionHook", "HookSet"]

logger = logging.getLogger("rxwow.execution")


class ExecutionHook:
    """Hears what happens to messages; subclass it, and `KeyedExecutor.add_hook` it.

    The methods are called on the thread where the thing happened, inside no lock, and should return soon. One that
    raises is logged, and its hook is taken out; the run goes on.

    >>> class Skipped(ExecutionHook):
    ...     def message_skipped(self, dispatch, key, item, error):
    ...         print(f"{dispatch}: gave up {item} of {key}: {error}")
    """

    def message_skipped(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
        """A handler failed and its failure policy said `SKIP`."""

    def message_failed(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
        """A handler failed and its failure ended the dispatch, or came after its end."""

    def message_retried(self, dispatch: str, key: Hashable, item: Any, error: Exception, delay: float) -> None:
        """A handler failed and will be called again in `delay` seconds."""


class HookSet:
    """The hooks of one executor; `_lock` guards changes, and readers use the tuple as it is."""

    __slots__ = ("_hooks", "_lock")

    def __init__(self, platform: Platform) -> None:
        self._lock: Lock = platform.lock()
        self._hooks: tuple[ExecutionHook, ...] = ()

    def add(self, hook: ExecutionHook) -> None:
        with self._lock:
            self._hooks = (*self._hooks, hook)

    def remove(self, hook: ExecutionHook) -> None:
        with self._lock:
            self._hooks = tuple(other for other in self._hooks if other is not hook)

    def report(self, event: str, *arguments: object) -> None:
        """Call the method `event` of each hook."""
        for hook in self._hooks:
            try:
                getattr(hook, event)(*arguments)
            except BaseException:
                # An exit too: it would take the turn with it that reports, and the messages of its mailbox.
                logger.exception("%s of %r raised; the hook is taken out", event, hook)
                self.remove(hook)
