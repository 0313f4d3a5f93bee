import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from rxwow.platform import PRODUCTION, Platform
from rxwow.streams.emitter import Emitter
from rxwow.streams.protocols import UNBOUNDED, Subscriber
from tests.streams.probe import PATIENCE_S, Log, Probe
from tests.streams.sources import SourceError


class Queue(Emitter[Any]):
    """An emitter of what is put into it, which counts what becomes of everything."""

    def __init__(self, subscriber: Subscriber[Any], platform: Platform = PRODUCTION) -> None:
        super().__init__(subscriber, platform)
        self._ready: deque[Any] = deque()
        self.discarded: list[Any] = []
        self.releases = self.stops = 0
        self.emitting = False

    def put(self, item: Any) -> None:
        with self._lock:
            if not self._ended:
                self._ready.append(item)
                item = None
        if item is not None:
            self.discarded.append(item)
        self.wake()

    def _has_items(self) -> bool:
        return bool(self._ready)

    def _emit(self, limit: int) -> int:
        self.emitting = True
        emitted = 0
        try:
            while emitted < limit and self._ready and not self._ended and not self._at_once:
                emitted += self._deliver([self._ready.popleft()])
        finally:
            self.emitting = False
        return emitted

    def _stop(self) -> None:
        self.stops += 1

    def _release(self) -> None:
        assert not self.emitting, "released in the middle of an emission"
        self.releases += 1
        with self._lock:
            self.discarded += self._ready
            self._ready.clear()


def started(demand: int = 0, on_item: Any = None) -> tuple[Queue, Probe]:
    probe = Probe(demand, on_item)
    queue = Queue(probe)
    queue.start()
    return queue, probe


def test_nothing_is_emitted_before_on_subscribe_has_returned() -> None:
    """§1.9."""

    class Asking(Probe):
        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            queue.put(1)
            queue.complete()
            self.request(5)
            self.seen_inside = len(self.items)

    probe = Asking()
    queue = Queue(probe)
    queue.put(0)
    queue.start()
    assert probe.seen_inside == 0
    assert (probe.items, probe.completions) == ([0, 1], 1)


def test_end_waits_for_the_items_before_it() -> None:
    """F39."""
    queue, probe = started(1)
    for number in range(3):
        queue.put(number)
    queue.complete()
    assert (probe.items, probe.ended, queue.releases) == ([0], False, 0)
    probe.request(2)
    assert (probe.items, probe.completions, queue.releases, queue.stops) == ([0, 1, 2], 1, 1, 0)


def test_error_at_once_does_not_wait() -> None:
    error = SourceError()
    queue, probe = started(1)
    for number in range(3):
        queue.put(number)
    queue.fail(error, at_once=True)
    assert (probe.items, probe.errors, queue.discarded) == ([0], [error], [1, 2])
    assert (queue.releases, queue.stops) == (1, 1)


def test_first_end_counts() -> None:
    """§1.7."""
    first, second = SourceError(1), SourceError(2)
    queue, probe = started()
    queue.put(0)
    queue.fail(first)
    queue.fail(second)
    queue.complete()
    probe.request(1)
    assert (probe.errors, probe.completions) == ([first], 0)
    queue, probe = started()
    queue.put(0)
    queue.complete()
    queue.fail(second)
    probe.request(1)
    assert (probe.errors, probe.completions) == ([], 1)


def test_error_at_once_goes_before_an_end_that_waits() -> None:
    """§3.9: an invalid request is answered even when the source has ended and its items wait for demand."""
    for end in ("complete", "fail"):
        queue, probe = started()
        queue.put(0)
        queue.complete() if end == "complete" else queue.fail(SourceError())
        probe.subscription.request(0)
        probe.subscription.request(0)
        assert (probe.items, len(probe.errors), queue.stops, queue.releases) == ([], 1, 1, 1)
        assert "request(n)" in str(probe.errors[0])


def test_invalid_request_inside_the_last_on_next_that_was_asked_for_is_answered() -> None:
    """§3.9: the drainer has neither demand nor an end to look for, but a note that there is news."""

    def on_item(_: Any) -> None:
        probe.subscription.request(0)

    queue, probe = started(1, on_item)
    queue._ready.extend([0, 1, 2])
    queue.wake()
    assert (probe.items, len(probe.errors), queue.releases) == ([0], 1, 1)


@pytest.mark.parametrize("where", ["outside", "in on_next"])
def test_invalid_request_and_cancel_stop_once(where: str) -> None:
    def both(_: Any = None) -> None:
        probe.subscription.request(-1)
        probe.cancel()

    queue, probe = started(1, both if where == "in on_next" else None)
    queue.put(0)
    if where == "outside":
        both()
    assert (queue.stops, queue.releases) == (1, 1)


def test_cancel_releases_at_once_when_nobody_emits() -> None:
    """§3.5."""
    queue, probe = started()
    queue.put(0)
    probe.cancel()
    assert (queue.discarded, queue.stops, queue.releases) == ([0], 1, 1)
    queue.put(1)
    queue.complete()
    queue.fail(SourceError())
    probe.request(5)
    assert (probe.items, probe.ended, queue.discarded, queue.releases) == ([], False, [0, 1], 1)


def test_cancel_during_on_next_returns_and_releases_after_it() -> None:
    inside, cancelled = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        inside.set()
        assert cancelled.wait(PATIENCE_S)
        assert queue.releases == 0

    queue, probe = started(5, wait)
    for number in range(3):
        queue._ready.append(number)
    thread = threading.Thread(target=queue.wake)
    thread.start()
    assert inside.wait(PATIENCE_S)
    probe.cancel()
    assert (queue.stops, queue.releases) == (1, 0)
    cancelled.set()
    thread.join(PATIENCE_S)
    assert (probe.items, queue.discarded, queue.releases) == ([0], [1, 2], 1)


def test_everything_requested_while_a_part_is_emitted_stays_everything() -> None:
    """§3.17: UNBOUNDED is not used up by what was emitted meanwhile."""

    def on_item(item: int) -> None:
        if item == 1:
            probe.request(UNBOUNDED)

    queue, probe = started(3, on_item)
    for number in range(3):
        queue.put(number)
    assert queue._requested == UNBOUNDED


def test_demand_does_not_exceed_unbounded() -> None:
    queue, probe = started()
    probe.request(UNBOUNDED - 1)
    probe.request(UNBOUNDED - 1)
    assert queue._requested == UNBOUNDED


@pytest.mark.parametrize("signal", ["on_next", "on_error", "on_completed", "on_subscribe"])
def test_interrupt_in_a_signal_goes_up_and_leaves_nothing_behind(signal: str) -> None:
    class Interrupted(Probe):
        def interrupt(self, *_: Any) -> None:
            raise KeyboardInterrupt

    setattr(Interrupted, signal, Interrupted.interrupt)
    queue = Queue(Interrupted())
    causes: dict[str, Callable[[], object]] = {
        "on_subscribe": queue.start,
        "on_next": lambda: queue.put(1),
        "on_error": lambda: queue.fail(SourceError()),
        "on_completed": queue.complete,
    }
    if signal != "on_subscribe":
        queue.start()
        queue.request(5)
    with pytest.raises(KeyboardInterrupt):
        causes[signal]()
    assert queue.releases == 1
    queue.request(1)
    queue.put(2)
    assert (queue.ended, queue.releases) == (True, 1)


def test_interrupt_in_the_release_does_not_release_again() -> None:
    class Interrupted(Queue):
        def _release(self) -> None:
            super()._release()
            raise KeyboardInterrupt

    queue = Interrupted(Probe())
    queue.start()
    with pytest.raises(KeyboardInterrupt):
        queue.cancel()
    assert queue.releases == 1


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_observer_does_not_end_a_thread_that_is_not_the_main_one(raised: type[BaseException], log: Log) -> None:
    """F31: a worker emits, and lives."""

    def raise_it(_: Any) -> None:
        raise raised

    queue, _ = started(1, raise_it)
    survived = threading.Event()

    def work() -> None:
        queue.put(1)
        survived.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE_S)
    assert survived.is_set()
    assert (queue.releases, log.levels) == (1, ["ERROR"])


def test_races_with_real_threads_lose_nothing_and_release_once() -> None:
    """F50: each item is emitted or discarded, exactly once."""
    for round_number in range(300):
        probe = Probe()
        queue = Queue(probe)
        queue.start()
        start = threading.Barrier(4)

        def put(first: int, queue: Queue = queue, start: threading.Barrier = start) -> None:
            start.wait(PATIENCE_S)
            for number in range(first, first + 10):
                queue.put(number + 1)

        def ask(probe: Probe = probe, start: threading.Barrier = start) -> None:
            start.wait(PATIENCE_S)
            for _ in range(12):
                probe.request(1)

        def cancel(probe: Probe = probe, start: threading.Barrier = start, spin: int = round_number % 40) -> None:
            start.wait(PATIENCE_S)
            for _ in itertools.repeat(None, spin * 5):
                pass
            probe.cancel()

        targets: list[Any] = [lambda: put(0), lambda: put(10), ask, cancel]
        threads = [threading.Thread(target=target) for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert sorted([*probe.items, *queue.discarded]) == list(range(1, 21))
        assert (queue.releases, queue.stops) == (1, 1)
        probe.check()
