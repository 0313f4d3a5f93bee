"""Keys that share a mailbox: cheaper messages, and each promise as it is with mailboxes of their own."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.errors import ExecutorClosedError
from rxwow.execution import expectation
from rxwow.execution.dispatch import Dispatch
from rxwow.execution.expectation import FEWEST_SHARED, MOST_OF_A_KEY
from rxwow.execution.hooks import ExecutionHook
from rxwow.execution.mailbox_set import MailboxSet
from rxwow.execution.statistics import DispatchStatistics
from rxwow.streams import Inlet
from rxwow.streams.protocols import UNBOUNDED
from rxwow.testing import ControlledPlatform, run
from tests.execution import test_schedules
from tests.execution.books import books_of
from tests.execution.collecting import dispatched, results_of
from tests.streams.probe import Probe

MESSAGES = 120


@pytest.fixture
def shares_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let keys share from the second batch on, however few messages come together."""
    for name, value in (("FEWEST_SHARED", 1), ("MOST_OF_A_KEY", 1000), ("CHEAP_FROM", 1), ("CHEAP_UNTIL", 1)):
        monkeypatch.setattr(expectation, name, value)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each shared mailbox had at first."""
    sizes: list[int] = []
    share = MailboxSet._share

    def counted(self: MailboxSet, keys: Any, *args: Any) -> Any:
        sizes.append(len(keys))
        return share(self, keys, *args)

    monkeypatch.setattr(MailboxSet, "_share", counted)
    return sizes


def same(number: int) -> int:
    return number


# When keys share.


def run_plain(messages: list[int], handler: Any = same) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        with KeyedExecutor(2) as executor:
            assert sorted(results_of(dispatched(messages, handler, executor))) == sorted(messages)

    run(scenario, 0, step_limit=1_000_000)


def test_cheap_messages_of_many_keys_share_mailboxes(shared: list[int]) -> None:
    run_plain(list(range(5000)))
    # All but those of the beginning, when it isn't known yet what they cost.
    assert sum(shared) > 4000
    assert min(shared) >= FEWEST_SHARED


def test_hot_keys_share_no_mailbox(shared: list[int]) -> None:
    # With so few keys each has more messages in a batch than may go together.
    run_plain([number % (FEWEST_SHARED // MOST_OF_A_KEY) for number in range(5000)])
    assert shared == []


def test_handlers_that_wait_share_no_mailbox_for_long(shared: list[int]) -> None:
    async def handle(message: int) -> int:
        return message

    run_plain(list(range(5000)), handle)
    assert shared == []


def test_slow_handlers_share_no_mailbox(shared: list[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        def handle(message: int) -> None:
            platform.sleep(0.000_01)

        with KeyedExecutor(2) as executor:
            results_of(dispatched(range(2000), handle, executor))

    run(scenario, 0, step_limit=1_000_000)
    assert shared == []


def test_handlers_that_become_slow_are_spread_over_the_workers(shared: list[int]) -> None:
    def scenario(platform: ControlledPlatform) -> float:
        def handle(message: int) -> None:
            if message >= 2000:
                platform.sleep(0.01)

        with KeyedExecutor(2) as executor:
            results_of(dispatched(range(2400), handle, executor))
        return platform.monotonic()

    # With two workers half of it, but for those that had been given to one worker by then.
    assert run(scenario, 0, step_limit=1_000_000) < 0.7 * 0.01 * 400
    assert shared


def test_a_key_that_needs_not_wait_for_a_slow_message_goes_elsewhere(shares_early: None, shared: list[int]) -> None:
    def scenario(platform: ControlledPlatform) -> None:
        came: list[int] = []
        reached, goes_on = platform.event(), platform.event()

        def handle(message: int) -> int:
            if message == 1000:
                reached.set()
                goes_on.wait()
            came.append(message)
            return message

        def key(message: int) -> int:
            return 1000 if message == 1002 else message

        inlet: Inlet[int] = Inlet()
        with KeyedExecutor(2) as executor:
            probe = Probe(demand=UNBOUNDED)
            inlet.pipe(keyed_dispatch(key, handle, executor=executor)).subscribe(probe)

            def push(messages: range) -> None:
                for message in messages:
                    while not inlet.offer(message):
                        platform.sleep(0.001)

            push(range(1001))
            reached.wait()
            platform.sleep(1)
            push(range(1001, 1004))
            # That of the same key waits; and so do those that had come with it, whichever they were.
            platform.sleep(1)
            assert came[-2:] == [1001, 1003]
            goes_on.set()
            inlet.complete()
        assert came[-2:] == [1000, 1002]
        assert sorted(probe.items) == list(range(1004))

    run(scenario, 0, step_limit=1_000_000)
    assert shared


class Failures(ExecutionHook):
    """The keys of the messages that have failed."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []

    def message_failed(self, dispatch: str, key: Hashable, item: Any, error: Exception) -> None:
        self.keys.append((key, item))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_the_message_at_hand_goes_by_its_own_key(
    waits: bool, ends: bool, shares_early: None, shared: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")

    def scenario(platform: ControlledPlatform) -> None:
        async def fail(message: int) -> None:
            raise LookupError(message)

        def handle(message: int) -> Any:
            if message == 70:
                if ends:
                    probe.cancel()
                if waits:
                    return fail(message)
                raise LookupError(message)
            return message

        executor, failures, probe = KeyedExecutor(2), Failures(), Probe(demand=UNBOUNDED)
        executor.add_hook(failures)
        operator = keyed_dispatch(lambda message: message % 50, handle, executor=executor)
        Flowable.from_iterable(range(200)).pipe(operator).subscribe(probe)
        books = books_of(executor)
        while not books.closed:
            platform.point("waits")
        executor.drain()
        assert failures.keys == ([] if waits and ends else [(20, 70)])
        statistics = books.statistics()
        assert statistics.mailboxes == statistics.window.in_flight == 0

    run(scenario, 3, step_limit=1_000_000)
    assert shared


# What is promised, under random schedules.


@pytest.mark.seeds(400, soak=10_000)
def test_nothing_is_found_where_keys_share(seed: int, shares_early: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")
    run(test_schedules.scenario, seed)


class Handlers:
    """Plain but for six messages, which wait, fail, are slow or have no key; checks that none overtakes another."""

    def __init__(self, platform: ControlledPlatform, keys: int) -> None:
        self._platform = platform
        self._keys = keys
        kinds = platform.random.choices(["wait", "fail", "slow", "keyless"], k=6)
        self.rare = dict(zip(platform.random.sample(range(MESSAGES), 6), kinds, strict=True))
        self.begun: dict[int, list[int]] = defaultdict(list)
        self._active: set[int] = set()

    def key(self, message: int) -> int:
        if self.rare.get(message) == "keyless":
            raise LookupError(message)
        return message % self._keys

    def __call__(self, message: int) -> Any:
        key = message % self._keys
        assert key not in self._active, f"two handlers of key {key}"
        self._active.add(key)
        self.begun[key].append(message)
        self._platform.point("handler")
        kind = self.rare.get(message)
        if kind == "wait":
            return self._wait(message)
        if kind == "slow":
            self._platform.sleep(0.01)
        self._active.remove(key)
        if kind == "fail":
            raise ValueError(message)
        return message

    async def _wait(self, message: int) -> int:
        await asyncio.sleep(0.001)
        self._active.remove(message % self._keys)
        return message


class Pushes:
    """Pushes the messages, looks at the statistics, and perhaps disposes the executor on the way."""

    def __init__(self, platform: ControlledPlatform, executor: KeyedExecutor, keys: int) -> None:
        self._platform = platform
        self._executor = executor
        self._keys = keys
        self.inlet: Inlet[int] = Inlet(capacity=MESSAGES)
        self.disposes_at = platform.random.choice([None, None, platform.random.randrange(MESSAGES)])
        self.books: list[Dispatch] = []

    def __call__(self) -> None:
        for message in range(MESSAGES):
            self.inlet.offer(message)
            if self._platform.random.random() < 0.2:
                for _ in range(self._platform.random.randrange(20)):
                    self._platform.point("pushes")
            for statistics in self._executor.statistics().dispatches:
                self._check(statistics)
            if message == self.disposes_at:
                self.books = list(self._executor._dispatches)
                self._executor.dispose()
        self.inlet.complete()

    def _check(self, statistics: DispatchStatistics) -> None:
        assert statistics.window.in_flight <= self._executor.max_in_flight
        assert statistics.mailboxed + statistics.waiting + statistics.untaken <= statistics.window.in_flight
        assert statistics.mailboxes <= self._keys + 6
        if statistics.mailboxes <= len(statistics.deepest):
            assert sum(count for _, count in statistics.deepest) == statistics.mailboxed


def push_and_check(platform: ControlledPlatform) -> None:
    random = platform.random
    keys = random.randint(2, 9)
    handlers = Handlers(platform, keys)
    executor = KeyedExecutor(2, max_in_flight=random.choice([8, 32]), throughput=random.choice([1, 3, 16]))
    discarded: list[int] = []
    operator = keyed_dispatch(handlers.key, handlers, executor=executor, on_failure=SKIP, on_discard=discarded.append)
    pushes = Pushes(platform, executor, keys)
    pushing = platform.thread(pushes, "pushes")
    pushing.start()
    try:
        results = results_of(pushes.inlet.pipe(operator))
    except ExecutorClosedError:
        assert pushes.disposes_at is not None
    else:
        failed = [number for number, kind in handlers.rare.items() if kind in ("fail", "keyless")]
        assert sorted([*results, *failed]) == list(range(MESSAGES))
    pushing.join()
    executor.dispose()
    assert executor.wait_closed()
    for begun in handlers.begun.values():
        assert begun == sorted(set(begun))
    for books in pushes.books:
        window = books.statistics().window
        assert window.in_flight == books.statistics().mailboxes == 0
        assert window.admitted == window.succeeded + window.skipped + window.failed + window.discarded
        assert window.discarded == len(set(discarded)) == len(discarded)


@pytest.mark.seeds(400, soak=10_000)
def test_keys_leave_a_shared_mailbox_in_order(seed: int, shares_early: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")
    run(push_and_check, seed, step_limit=1_000_000)


def test_most_of_these_messages_share(shares_early: None, shared: list[int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, "rxwow")
    for seed in range(10):
        run(push_and_check, seed, step_limit=1_000_000)
    assert sum(shared) > 3 * MESSAGES
