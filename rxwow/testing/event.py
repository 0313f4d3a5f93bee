"""An event under control: its waits take virtual time."""

from __future__ import annotations

from rxwow.testing.baton import Baton
from rxwow.testing.clock import nanoseconds
from rxwow.testing.schedule import Resource
from rxwow.testing.strand import Strand

__all__ = ["ControlledEvent"]


class ControlledEvent(Resource):
    """A `threading.Event` whose every call is a step."""

    def __init__(self, baton: Baton, number: int) -> None:
        super().__init__("event", number)
        self._baton = baton
        self._is_set = False
        self._waiting: list[Strand] = []

    def is_set(self) -> bool:
        """Return whether the event is set."""
        self._baton.before("looks at", self)
        return self._is_set

    def set(self) -> None:
        """Set the event and wake all that wait for it."""
        self._baton.before("sets", self)
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        self._baton.roster.wake(waiting)
        # What the caller does next may come after what the woken do.
        self._baton.give_way()

    def clear(self) -> None:
        """Unset the event."""
        self._baton.before("clears", self)
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set.

        Args:
            timeout: seconds of virtual time to wait at most; None to wait without end.

        Returns:
            Whether the event was set; False means that the time was up.
        """
        self._baton.approach("waits for", self)
        if self._is_set or (timeout is not None and timeout <= 0):
            self._baton.note("finds set" if self._is_set else "finds unset", self)
            return self._is_set
        me = self._baton.holder()
        due = None if timeout is None else self._baton.clock.nanoseconds + nanoseconds(timeout)
        self._waiting.append(me)
        woken = self._baton.block("waits for", self, due)
        if not woken:
            self._waiting.remove(me)
        return woken
