"""An end takes effect at once: while `on_next` still runs, and for results that nobody has taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.probe import PATIENCE_S, Probe

ENDS: dict[str, Callable[[KeyedExecutor, Probe], object]] = {
    "cancel": lambda executor, probe: probe.cancel(),
    "dispose": lambda executor, probe: executor.dispose(),
    "drain": lambda executor, probe: executor.drain(timeout=0.01),
}


def same(number: int) -> int:
    return number


@pytest.mark.parametrize("end", ["cancel", "dispose"])
def test_an_end_does_not_wait_for_on_next(end: str) -> None:
    # F43
    inside, goes_on = threading.Event(), threading.Event()
    discarded: list[int] = []
    threads: list[int] = []

    def on_item(_: int) -> None:
        inside.set()
        assert goes_on.wait(PATIENCE_S)

    def numbers() -> Iterator[int]:
        yield 0
        # The first result is being taken, so the worker is busy and these two stay where they are.
        assert inside.wait(PATIENCE_S)
        yield from (1, 2)
        queued.set()
        assert goes_on.wait(PATIENCE_S)

    def on_discard(number: int) -> None:
        discarded.append(number)
        threads.append(threading.get_ident())

    queued = threading.Event()
    probe = Probe(demand=UNBOUNDED, on_item=on_item)
    with KeyedExecutor(workers=1) as executor:
        Flowable.from_iterable(numbers, blocking=True).pipe(
            keyed_dispatch(same, same, executor=executor, on_discard=on_discard)
        ).subscribe(probe)
        assert queued.wait(PATIENCE_S)
        ENDS[end](executor, probe)
        assert discarded == [1, 2]
        assert set(threads) == {threading.get_ident()}
        goes_on.set()
    assert probe.items == [0]
    probe.check()


@pytest.mark.parametrize("end", ENDS)
def test_results_that_nobody_took_leave_the_window(end: str) -> None:
    probe = Probe(demand=1)
    handled = threading.Semaphore(0)

    def handler(number: int) -> int:
        handled.release()
        return number

    with KeyedExecutor(workers=1) as executor:
        Flowable.from_iterable(range(3)).pipe(keyed_dispatch(same, handler, executor=executor)).subscribe(probe)
        (dispatch,) = executor._dispatches
        for _ in range(3):
            assert handled.acquire(timeout=PATIENCE_S)
        ENDS[end](executor, probe)
    assert executor.wait_closed(timeout=PATIENCE_S)
    window = dispatch.statistics().window
    assert (window.admitted, window.succeeded, window.in_flight) == (3, 3, 0)
    assert dispatch.statistics().untaken == 0
    probe.check()
