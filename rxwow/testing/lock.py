"""A lock under control: who gets it next is drawn from the seed, and misuse ends the run."""

from __future__ import annotations

from types import TracebackType

from rxwow.testing.baton import Baton
from rxwow.testing.failures import DeadlockError, LockMisuseError
from rxwow.testing.schedule import Resource
from rxwow.testing.strand import Strand

__all__ = ["ControlledLock"]


class ControlledLock(Resource):
    """A `threading.Lock` whose acquire and release are steps; when it is released, any that waits may get it."""

    def __init__(self, baton: Baton, number: int) -> None:
        super().__init__("lock", number)
        self._baton = baton
        self._owner: Strand | None = None
        self._waiting: list[Strand] = []

    def acquire(self) -> bool:
        """Take the lock, waiting for it if need be.

        Raises:
            DeadlockError: in the main thread, if the caller holds it already.
        """
        self._baton.approach("acquires", self)
        me = self._baton.holder()
        if self._owner is me:
            self._baton.fail(DeadlockError(f"the thread {me} acquires {self}, which it holds already"))
        while self._owner is not None:
            self._waiting.append(me)
            self._baton.block("waits for", self, None)
        self._owner = me
        self._baton.note("acquires", self)
        return True

    def release(self) -> None:
        """Give the lock back.

        Raises:
            LockMisuseError: in the main thread, if the caller doesn't hold it.
        """
        me = self._baton.holder()
        if self._owner is not me:
            holder = f"{self._owner} holds" if self._owner else "nobody holds"
            self._baton.fail(LockMisuseError(f"the thread {me} releases {self}, which {holder}"))
        self._owner = None
        waiting, self._waiting = self._waiting, []
        self._baton.roster.wake(waiting)
        self._baton.after("releases", self)

    def locked(self) -> bool:
        """Return whether a thread holds the lock; not a step."""
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self.release()

    def state(self) -> str:
        if self._owner is None:
            return ""
        return f", held by {self._owner}" + (", which has ended" if self._owner.ended else "")
