"""Four faults of concurrent code, planted in small models: each is found, and the model without it holds.

The models are written as the library is: locks, events and loops of the platform, plain attributes between marked
points.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import pytest

from rxwow.testing import ControlledPlatform, explore, find_failure

SEEDS = 1_000
SOAK_SEEDS = 10_000


def start_loop(platform: ControlledPlatform, name: str) -> tuple[asyncio.AbstractEventLoop, Callable[[], None]]:
    """Start a worker; return its loop and a function that stops it when its queued calls are done."""
    loop = platform.event_loop()

    def work() -> None:
        loop.run_forever()
        loop.close()

    thread = platform.thread(work, name)
    thread.start()

    def stop() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    return loop, stop


class Mailbox:
    """The queue of one key."""

    def __init__(self, platform: ControlledPlatform) -> None:
        self.lock = platform.lock()
        self.queue: deque[int] = deque()


class Mailboxes:
    """Planted: a mailbox is found empty and removed in two steps; what comes in between goes to an orphan (F24)."""

    def __init__(self, platform: ControlledPlatform, loop: asyncio.AbstractEventLoop, faulty: bool) -> None:
        self.platform = platform
        self.loop = loop
        self.faulty = faulty
        self.lock = platform.lock()
        self.table: dict[str, Mailbox] = {}
        self.handled: list[int] = []

    def offer(self, key: str, message: int) -> None:
        with self.lock:
            mailbox = self.table.get(key)
            is_new = mailbox is None
            if mailbox is None:
                mailbox = self.table[key] = Mailbox(self.platform)
            if not self.faulty:
                mailbox.queue.append(message)
        if self.faulty:
            with mailbox.lock:
                mailbox.queue.append(message)
        if is_new:
            self.loop.call_soon_threadsafe(self.turn, key, mailbox)

    def turn(self, key: str, mailbox: Mailbox) -> None:
        while True:
            with mailbox.lock if self.faulty else self.lock:
                message = mailbox.queue.popleft() if mailbox.queue else None
                if message is None and not self.faulty:
                    del self.table[key]
            if message is None:
                break
            self.handled.append(message)
        if self.faulty:
            with self.lock:
                del self.table[key]


def offer_to_a_mailbox_that_is_being_removed(platform: ControlledPlatform, faulty: bool) -> None:
    loop, stop = start_loop(platform, "worker")
    mailboxes = Mailboxes(platform, loop, faulty)
    for message in range(3):
        mailboxes.offer("key", message)
    stop()
    assert mailboxes.handled == [0, 1, 2]
    assert not mailboxes.table


class ScheduledMailbox:
    """Planted: the queue is checked first, the mailbox set idle after; what comes in between waits (F32)."""

    def __init__(self, platform: ControlledPlatform, loop: asyncio.AbstractEventLoop, faulty: bool) -> None:
        self.platform = platform
        self.loop = loop
        self.faulty = faulty
        self.lock = platform.lock()
        self.queue: deque[int] = deque()
        self.is_scheduled = False
        self.handled: list[int] = []

    def offer(self, message: int) -> None:
        self.queue.append(message)
        self.platform.point("appended")
        self.schedule()

    def schedule(self) -> None:
        with self.lock:
            if self.is_scheduled:
                return
            self.is_scheduled = True
        self.loop.call_soon_threadsafe(self.turn)

    def turn(self) -> None:
        while self.queue:
            self.handled.append(self.queue.popleft())
            self.platform.point("handled")
        self.platform.point("checked")
        with self.lock:
            self.is_scheduled = False
        if self.queue and not self.faulty:
            self.schedule()


def check_then_set_idle(platform: ControlledPlatform, faulty: bool) -> None:
    loop, stop = start_loop(platform, "worker")
    mailbox = ScheduledMailbox(platform, loop, faulty)
    for message in range(3):
        mailbox.offer(message)
    stop()
    assert mailbox.handled == [0, 1, 2]


class ParkingWorker:
    """Planted: the worker doesn't look again between telling that it parks and parking; a wake-up is lost (F32)."""

    def __init__(self, platform: ControlledPlatform, faulty: bool) -> None:
        self.platform = platform
        self.faulty = faulty
        self.wake_up = platform.event()
        self.is_parked = False
        self.queue: deque[int | None] = deque()
        self.handled: list[int] = []

    def offer(self, message: int | None) -> None:
        self.queue.append(message)
        self.platform.point("appended")
        if self.is_parked:
            self.wake_up.set()

    def work(self) -> None:
        while True:
            while self.queue:
                message = self.queue.popleft()
                if message is None:
                    return
                self.handled.append(message)
            self.platform.point("last look")
            self.is_parked = True
            self.platform.point("parks")
            if self.faulty or not self.queue:
                self.wake_up.wait()
                self.wake_up.clear()
            self.is_parked = False


def wake_up_between_last_look_and_parking(platform: ControlledPlatform, faulty: bool) -> None:
    worker = ParkingWorker(platform, faulty)
    thread = platform.thread(worker.work, "worker")
    thread.start()
    for message in (0, 1, None):
        worker.offer(message)
    thread.join()
    assert worker.handled == [0, 1]


class Window:
    """Planted: a failing handler's credit is given back without the lock, so one of two may be lost (F08)."""

    def __init__(self, platform: ControlledPlatform, size: int, faulty: bool) -> None:
        self.platform = platform
        self.faulty = faulty
        self.lock = platform.lock()
        self.has_credit = platform.event()
        self.credit = size

    def take(self) -> None:
        while True:
            with self.lock:
                if self.credit:
                    self.credit -= 1
                    return
                self.has_credit.clear()
            self.has_credit.wait()

    def give_back(self) -> None:
        with self.lock:
            self.credit += 1
        self.has_credit.set()

    def give_back_after_failure(self) -> None:
        if self.faulty:
            credit = self.credit
            self.platform.point("credit read")
            self.credit = credit + 1
            self.has_credit.set()
        else:
            self.give_back()

    async def handle(self, message: int) -> None:
        try:
            await asyncio.sleep(0.1)
            if message % 2:
                raise ValueError(message)
        except ValueError:
            self.give_back_after_failure()
        else:
            self.give_back()


def credit_of_a_failing_handler(platform: ControlledPlatform, faulty: bool) -> None:
    workers = [start_loop(platform, name) for name in ("left", "right")]
    window = Window(platform, 2, faulty)
    for message in range(4):
        window.take()
        loop, _ = workers[message % 2]
        asyncio.run_coroutine_threadsafe(window.handle(message), loop)
    for _ in range(2):
        window.take()
    for _, stop in workers:
        stop()
    assert window.credit == 0
    assert platform.monotonic() == 0.2


MODELS = [
    offer_to_a_mailbox_that_is_being_removed,
    check_then_set_idle,
    wake_up_between_last_look_and_parking,
    credit_of_a_failing_handler,
]


@pytest.mark.parametrize("model", MODELS)
def test_the_fault_is_found(model: Callable[[ControlledPlatform, bool], None]) -> None:
    failure = find_failure(lambda platform: model(platform, True), range(SEEDS))
    assert failure is not None
    assert isinstance(failure.__cause__, AssertionError)


@pytest.mark.parametrize("model", MODELS)
def test_the_model_without_the_fault_holds(
    model: Callable[[ControlledPlatform, bool], None], request: pytest.FixtureRequest
) -> None:
    explore(
        lambda platform: model(platform, False),
        range(SOAK_SEEDS if request.config.getoption("--soak", False) else SEEDS),
    )
