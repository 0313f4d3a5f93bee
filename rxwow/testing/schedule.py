"""The schedule of a run: which thread did what, when and where, in the one order in which it happened."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import NamedTuple

__all__ = ["CLOCK", "Place", "Resource", "Step", "caller", "render", "switches"]

CLOCK = "(clock)"
"""Stands for the thread in a step that no thread took: the clock moved."""

# Frames of these packages are never the place that a reader of a schedule looks for.
_PASSED_OVER = (
    *(str(Path(module).parent) for module in (__file__, asyncio.__file__, concurrent.futures.__file__)),
    threading.__file__,
)


class Place(NamedTuple):
    """A place in the code, without its frame, which would keep the code's objects alive."""

    code: CodeType
    offset: int

    @property
    def line(self) -> int:
        for start, end, line in self.code.co_lines():
            if start <= self.offset < end and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).name}:{self.line}"


def caller() -> Place | None:
    """Return the innermost place of the calling thread that is neither in this package nor in the library of Python."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PASSED_OVER):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return Place(frame.f_code, frame.f_lasti)


class Resource:
    """Something that a thread can wait for, named by its kind, its number within the run and the place that made it."""

    def __init__(self, kind: str, number: int) -> None:
        self._kind = kind
        self._number = number
        self._made_at = caller()

    def __str__(self) -> str:
        return f"{self._kind} {self._number}" + (f" ({self._made_at})" if self._made_at else "")

    def state(self) -> str:
        """Return what a waiting thread's line in a report says after the name; empty if there is nothing to say."""
        return ""


class Step(NamedTuple):
    """One step of a run.

    Attributes:
        nanoseconds: the virtual time at which it was taken.
        thread: the name of the thread that took it, or `CLOCK`.
        verb: what it did, such as `acquires`.
        subject: what it did it to; None if the verb says it all.
        place: where in the code.
    """

    nanoseconds: int
    thread: str
    verb: str
    subject: object
    place: Place | None

    @property
    def what(self) -> str:
        """What the thread did, in words: `acquires lock 1 (mailbox.py:41)`."""
        return self.verb if self.subject is None else f"{self.verb} {self.subject}"


def render(steps: Sequence[Step], first: int = 1) -> Iterator[str]:
    """Yield a line for each step, in columns: number, thread, what it did, place.

    The thread is named where it takes over, so that its steps up to the next name read as one block.

    Args:
        steps: some steps of a run that follow each other.
        first: the number of the first of them.
    """
    numbers = len(str(first + len(steps)))
    names = max((len(step.thread) for step in steps), default=0)
    deeds = max((len(step.what) for step in steps), default=0)
    before = ""
    for number, step in enumerate(steps, first):
        thread = "" if step.thread == before else step.thread
        place = f"{step.place} in {step.place.code.co_name}" if step.place else ""
        yield f"  {number:{numbers}}  {thread:{names}}  {step.what:{deeds}}  {place}".rstrip()
        before = step.thread


def switches(steps: Iterable[Step]) -> int:
    """Return how often another thread took over."""
    count = 0
    before = None
    for step in steps:
        if step.thread != CLOCK:
            count += before is not None and step.thread != before
            before = step.thread
    return count
