"""A controlled thread as the baton sees it."""

from __future__ import annotations

import threading

from rxwow.testing.schedule import Resource, Step

__all__ = ["Strand"]


class Strand:
    """One thread of a run; it runs only while it holds the baton.

    No lock guards the fields: only the strand that holds the baton touches them, and each hand-over goes through the
    gate, a lock, which orders what was written before it ahead of what is read after it.
    """

    __slots__ = ("blocked", "due", "ended", "gate", "ident", "name", "pausing", "refusals", "step", "thread", "woken")

    def __init__(self, name: str, ident: int | None = None) -> None:
        self.name = name
        self.ident = ident
        self.gate = threading.Lock()
        self.gate.acquire()
        self.thread: threading.Thread | None = None
        self.step = Step(0, name, "begins", None, None)
        self.blocked = False
        self.due: int | None = None
        self.woken = False
        self.pausing = False
        self.ended = False
        self.refusals = 0

    def __str__(self) -> str:
        return self.name

    def rename(self, name: str) -> None:
        """Give the thread, which has not begun, a name of its own within the run."""
        self.name = name
        self.step = self.step._replace(thread=name)

    def describe(self) -> str:
        """Return what a report says of the thread: what it waits for or is about to do, and where."""
        step = self.step
        if self.ended:
            return "has ended"
        state = step.subject.state() if self.blocked and isinstance(step.subject, Resource) else ""
        until = f", until {self.due / 1e9:g} s" if self.blocked and self.due is not None else ""
        place = f"  at {step.place} in {step.place.code.co_name}" if step.place else ""
        return f"{step.what}{state}{until}{place}"
