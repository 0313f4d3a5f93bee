import threading
from typing import Any

import pytest

from rxwow.platform import PRODUCTION
from rxwow.streams.waiting import wait_for
from rxwow.testing import DeadlockError, find_failure
from tests.streams.probe import PATIENCE_S


class Recording(threading.Event):
    """An event that is set by the third wait, and knows how long each was to last at most."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.timeouts.append(timeout)
        if len(self.timeouts) == 3 or timeout is None:
            self.set()
        return self.is_set()


def test_main_thread_looks_up_now_and_then_for_a_signal_that_it_missed() -> None:
    event = Recording()
    wait_for(event, PRODUCTION)
    assert len(event.timeouts) == 3
    assert all(timeout is not None and timeout <= 1 for timeout in event.timeouts)


def test_other_threads_wait_once() -> None:
    event = Recording()
    thread = threading.Thread(target=wait_for, args=(event, PRODUCTION))
    thread.start()
    thread.join(PATIENCE_S)
    assert event.timeouts == [None]


def test_wait_that_never_ends_is_still_a_deadlock_in_virtual_time() -> None:
    def scenario(platform: Any) -> None:
        wait_for(platform.event(), platform)

    failure = find_failure(scenario, range(1))
    assert failure is not None
    assert isinstance(failure.__cause__, DeadlockError)


def test_interrupt_ends_the_wait() -> None:
    class Interrupted(Recording):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_for(Interrupted(), PRODUCTION)
