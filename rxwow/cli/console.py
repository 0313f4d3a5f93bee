"""The two output streams of the process, either of which may be missing, or closed by whoever read it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import NoReturn, TextIO

__all__ = ["abandon_standard_output", "flush_standard_output", "is_terminal", "leave_at_once", "reader_has_gone", "say"]


def say(text: str) -> None:
    """Write a line to standard error; where nobody reads it, nobody misses it."""
    # None where the process was started without one, by `2>&-`; print would take standard output in its place.
    stream: TextIO | None = sys.stderr
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=stream, flush=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at a stream, which may be missing."""
    return stream is not None and not stream.closed and stream.isatty()


def flush_standard_output() -> None:
    """Write what is buffered; raises BrokenPipeError when whoever read it has gone."""
    stream: TextIO | None = sys.stdout
    if stream is not None:
        stream.flush()


def reader_has_gone() -> bool:
    """Whether whoever read our standard output has gone.

    Asked when a write has failed, for not every broken pipe is this one; the write itself may have left nothing behind
    to try again.
    """
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):  # no poll on this system; or no standard output to ask about
        return False


def abandon_standard_output() -> None:
    """Send what is still buffered nowhere, or the interpreter would complain at its end that it can't be written."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def leave_at_once(status: int) -> NoReturn:
    """End the process without waiting for any thread: a handler that doesn't return can't be ended in another way.

    That goes for threads of the user's own too, such as those of a pool, which the interpreter would wait for.
    """
    with contextlib.suppress(OSError, ValueError):
        flush_standard_output()
    os._exit(status)
