"""One message at a time: through rxwow with a source that is pushed, and through the two bare ways to wake a thread.

What is measured ends when the result is there, on whichever thread that is; waking the sender again is not part of it.
Between two messages the sender pauses, so that everything has become idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Condition, Event, Thread
from time import perf_counter, sleep

from benchmarks.evidence import Message
from benchmarks.workloads import Workload
from rxwow import KeyedExecutor, keyed_dispatch
from rxwow.streams import Inlet

__all__ = ["condition", "event_loop", "pushed", "pushed_spinning"]

_PAUSE = 0.0002
_SPIN = 0.001
_PATIENCE = 10.0


class _Answers:
    """Where results arrive. Fields are written before the event is set and read after it, never at the same time."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._arrived = Event()
        self._at = 0.0
        self._error: Exception | None = None

    def arrive(self, _: object) -> None:
        self._at = perf_counter()
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._arrived.set()

    def send_all(self, send: Callable[[Message], object]) -> None:
        """Send each message when the last one's result is there."""
        arrived, latencies = self._arrived, self._workload.latencies
        for message in self._workload.source:
            sleep(_PAUSE)
            arrived.clear()
            sent = perf_counter()
            send(message)
            if not arrived.wait(_PATIENCE):
                raise TimeoutError(f"no result of {message} after {_PATIENCE:.0f} s")
            if self._error is not None:
                raise self._error
            latencies.append(self._at - sent)


def pushed(workload: Workload) -> None:
    """Push into an Inlet; the workers park when they have nothing to do."""
    _push(workload, spin=0.0)


def pushed_spinning(workload: Workload) -> None:
    """Push into an Inlet; the workers poll for a millisecond before they park."""
    _push(workload, spin=_SPIN)


def _push(workload: Workload, spin: float) -> None:
    answers, inlet = _Answers(workload), Inlet[Message]()
    with KeyedExecutor(workload.workers, max_in_flight=workload.window, spin=spin) as executor:
        dispatch = keyed_dispatch(workload.key, workload.handle, executor=executor)
        inlet.pipe(dispatch).subscribe(answers.arrive, answers.fail)
        answers.send_all(inlet.offer)
        inlet.complete()


def event_loop(workload: Workload) -> None:
    """Call soon on a loop that sleeps in another thread."""
    answers, loop = _Answers(workload), asyncio.new_event_loop()

    def handle(message: Message) -> None:
        answers.arrive(workload.handle(message))

    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        answers.send_all(lambda message: loop.call_soon_threadsafe(handle, message))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def condition(workload: Workload) -> None:
    """Leave the message where a thread waits for it on a Condition."""
    answers, changed, box = _Answers(workload), Condition(), list[Message | None]()

    def consume() -> None:
        while True:
            with changed:
                while not box:
                    changed.wait()
                message = box.pop()
            if message is None:
                return
            answers.arrive(workload.handle(message))

    def send(message: Message | None) -> None:
        with changed:
            box.append(message)
            changed.notify()

    thread = Thread(target=consume)
    thread.start()
    try:
        answers.send_all(send)
    finally:
        send(None)
        thread.join()
