"""A pool of controlled threads, for code that hands work to a `concurrent.futures.Executor`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from rxwow.platform import Thread
from rxwow.testing.failures import StopThread

if TYPE_CHECKING:
    from rxwow.testing.controlled import ControlledPlatform

__all__ = ["ControlledFuture", "ControlledThreadPool"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class ControlledFuture(Future[_Result], Generic[_Result]):
    """A future whose `result` and `exception` wait in virtual time."""

    def __init__(self, platform: ControlledPlatform) -> None:
        super().__init__()
        self._platform = platform

    def result(self, timeout: float | None = None) -> _Result:
        self._platform.wait_for(self, timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._platform.wait_for(self, timeout)
        return super().exception(0)


class ControlledThreadPool(Executor):
    """Runs calls on controlled threads, which are started as calls come and end when there is none left.

    Needs no lock: it takes no step between looking at its queue and changing it.

    Args:
        platform: whose threads to use.
        max_workers: how many calls may run side by side.
        name: the threads are called `name-1`, `name-2` and so on.
    """

    def __init__(self, platform: ControlledPlatform, max_workers: int = 4, name: str = "pool") -> None:
        self._platform = platform
        self._max_workers = max_workers
        self._name = name
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: list[Thread] = []
        self._busy = 0
        self._closed = False

    def submit(
        self, fn: Callable[_Parameters, _Result], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> Future[_Result]:
        """Call a function on a controlled thread.

        Raises:
            RuntimeError: after `shutdown`.
        """
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = ControlledFuture[_Result](self._platform)
        self._queue.append((future, partial(fn, *args, **kwargs)))
        if self._busy < self._max_workers:
            self._busy += 1
            thread = self._platform.thread(self._work, f"{self._name}-{len(self._threads) + 1}")
            self._threads.append(thread)
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls.

        Args:
            wait: whether to wait until those taken have ended.
            cancel_futures: whether to cancel those that have not begun.
        """
        self._closed = True
        while cancel_futures and self._queue:
            self._queue.popleft()[0].cancel()
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while self._queue:
            _run(*self._queue.popleft())
        self._busy -= 1


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except StopThread:
        raise
    except BaseException as error:  # noqa: BLE001 - as concurrent.futures has it: whatever a call raises is its outcome
        future.set_exception(error)
    else:
        future.set_result(result)
