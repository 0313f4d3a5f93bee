"""detect_blocking: a handler that would hold up its worker's event loop gets an error in place of the wait.

The extra `debug` brings blockbuster, which replaces the functions that may block, in the whole process, by wrappers. A
wrapper asks a predicate whether this call may block; ours says no only to a handler on a worker that is watched.
"""

from __future__ import annotations

import importlib
import sys
import threading
import types
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any, Final

from rxwow.errors import BlockingCallError, UsageError
from rxwow.execution.whereabouts import place_of_thread

__all__ = ["BlockingCalls", "check_can_detect", "mark_handlers"]

_OWN: Final = str(Path(__file__).parent.parent)
_LIBRARY: Final = str(Path(threading.__file__).parent)
_MAY_BLOCK: Final = (("/logging/__init__.py", ("emit", "handle")), ("/linecache.py", ("updatecache", "checkcache")))
"""Where a handler may do what blocks: log, and have a traceback formatted; with the functions of these files."""

_handled_by: ContextVar[str] = ContextVar("rxwow.handled_by")
"""The name of the dispatch whose handler runs in this context, if its executor detects blocking calls.

Set once in the context that each message gets a copy of, so it costs a message nothing; tasks that a handler starts
have it too.
"""


def check_can_detect() -> None:
    """Raise `UsageError` if blockbuster is missing."""
    try:
        importlib.import_module("blockbuster")
    except ImportError as error:
        raise UsageError(
            'detect_blocking=True uses blockbuster, which is missing; get it with: pip install "rxwow[debug]"'
        ) from error


def mark_handlers(context: Context, dispatch: str) -> None:
    """Have blocking calls detected in the handlers that run in copies of `context`."""
    context.run(_handled_by.set, dispatch)


class BlockingCalls:
    """The calls that are detected in this process, while any worker is watched; `_lock` guards the fields.

    `_watched` is replaced as a whole, and so is read without the lock.
    """

    def __init__(self) -> None:
        # Not the platform's: blockbuster is the whole process's.
        self._lock = threading.Lock()
        self._watched: frozenset[int] = frozenset()
        self._active: Any = None

    def watch(self, ident: int) -> None:
        """Detect calls in handlers on a thread; the first has the functions replaced."""
        with self._lock:
            if not self._watched:
                # Made anew each time, since what it finds is what it puts back.
                active = importlib.import_module("blockbuster").BlockBuster()
                for function in active.functions.values():
                    function.can_block_predicate = self._predicate(function)
                active.activate()
                self._active = active
            self._watched |= {ident}

    def unwatch(self, ident: int) -> None:
        """Undo `watch`; after the last, the functions are what they were."""
        with self._lock:
            if ident not in self._watched:
                return
            self._watched -= {ident}
            if not self._watched:
                self._active.deactivate()
                self._active = None

    def _predicate(self, function: Any) -> Callable[..., bool]:
        call: str = function.full_name
        cannot_block: Callable[..., bool] = function.can_block_predicate
        elsewhere: Sequence[tuple[str, Iterable[str]]] = [*function.can_block_functions, *_MAY_BLOCK]

        def may_block(*arguments: Any, **options: Any) -> bool:
            if threading.get_ident() not in self._watched:
                return True
            dispatch = _handled_by.get(None)
            # The frames: of this function, of blockbuster's wrapper, of the call.
            frame = sys._getframe(2)
            if dispatch is None or cannot_block(*arguments, **options) or _is_let_through(frame, elsewhere):
                return True
            place = place_of_thread(frame, {})[0]
            raise BlockingCallError(
                call,
                f"the worker of {dispatch}'s handler, at {place}",
                "mark the handler @blocking, give it a pool with run_in, or await a call that doesn't block",
            )

        return may_block


def _is_let_through(frame: types.FrameType, elsewhere: Sequence[tuple[str, Iterable[str]]]) -> bool:
    """Whether the call is made by rxwow itself, or where it is known to do no harm."""
    told = False
    inside: types.FrameType | None = frame
    while inside is not None:
        file = inside.f_code.co_filename
        if not told:
            if file.startswith(_OWN):
                return True
            # Packages may be installed inside the standard library's directory.
            told = not file.startswith((_LIBRARY, "<frozen")) or "-packages" in file
        file = file.replace("\\", "/")
        if any(file.endswith(ending) and inside.f_code.co_name in functions for ending, functions in elsewhere):
            return True
        inside = inside.f_back
    return False


blocking_calls: Final = BlockingCalls()
