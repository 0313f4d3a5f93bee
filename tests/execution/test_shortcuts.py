"""What is done for speed changes no order: with and without the shortcuts the trace of each key is the same (F17)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from rxwow import SKIP, Flowable, KeyedExecutor, keyed_dispatch
from rxwow.execution.placement import WAKE_UP
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription
from rxwow.testing import ControlledPlatform, run

MESSAGES = 80
Message = tuple[Any, int]


class Source(Subscription):
    """Answers a request with one batch, or with one signal for each item."""

    def __init__(self, subscriber: Subscriber[Message], messages: Sequence[Message], *, batches: bool) -> None:
        self._subscriber = subscriber
        self._messages = list(messages)
        self._batches = batches

    def request(self, n: int) -> None:
        messages, self._messages = self._messages[:n], self._messages[n:]
        if self._batches and isinstance(self._subscriber, BatchSubscriber):
            self._subscriber.on_next_batch(messages)
        else:
            for message in messages:
                self._subscriber.on_next(message)
        if messages and not self._messages:
            self._subscriber.on_completed()

    def cancel(self) -> None:
        self._messages = []


class Results(BatchSubscriber[Message]):
    """Takes everything, and notes how large the batches were."""

    def __init__(self, platform: ControlledPlatform) -> None:
        self.taken: list[Message] = []
        self.largest = 0
        self.ended = platform.event()

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(UNBOUNDED)

    def on_next(self, value: Message) -> None:
        self.on_next_batch([value])

    def on_next_batch(self, items: Sequence[Message]) -> None:
        self.taken += items
        self.largest = max(self.largest, len(items))

    def on_error(self, error: Exception) -> None:
        raise AssertionError from error

    def on_completed(self) -> None:
        self.ended.set()


@dataclass
class Trace:
    """What one run did."""

    handled: dict[Any, list[int]] = field(default_factory=lambda: defaultdict(list))
    emitted: dict[Any, list[int]] = field(default_factory=lambda: defaultdict(list))
    largest_batch: int = 0


def random_messages(seed: int, *, bad_keys: bool) -> list[Message]:
    random = Random(seed)
    return [([] if bad_keys and not number % 9 else random.randrange(6), number) for number in range(MESSAGES)]


def trace(seed: int, messages: Sequence[Message], *, slow: bool, batches: bool, window: int) -> Trace:
    """Run `messages` through a dispatch; a slow handler leaves it no shortcut."""
    seen = Trace()

    def scenario(platform: ControlledPlatform) -> None:
        def publish(subscriber: Subscriber[Message], _: object) -> Subscription:
            source = Source(subscriber, messages, batches=batches)
            subscriber.on_subscribe(source)
            return source

        def handler(message: Message) -> Message:
            seen.handled[message[0]].append(message[1])
            if slow:
                platform.sleep(10 * WAKE_UP)
            return message

        results = Results(platform)
        with KeyedExecutor(3, max_in_flight=window, throughput=3) as executor:
            dispatch = keyed_dispatch(
                lambda message: message[0], handler, executor=executor, on_failure=lambda *_: SKIP
            )
            Flowable(publish).pipe(dispatch).subscribe(results)
            results.ended.wait()
        for key, number in results.taken:
            seen.emitted[key].append(number)
        seen.largest_batch = results.largest

    run(scenario, seed)
    return seen


@pytest.mark.seeds(40, soak=2000)
@pytest.mark.parametrize("bad_keys", [False, True], ids=["good keys", "bad keys among them"])
def test_each_keys_trace_is_the_same_with_and_without_shortcuts(seed: int, bad_keys: bool) -> None:
    messages = random_messages(seed, bad_keys=bad_keys)
    expected: dict[Any, list[int]] = defaultdict(list)
    for key, number in messages:
        if key != []:
            expected[key].append(number)
    window = Random(seed).choice([1, 5, 32, MESSAGES])
    for batches in (False, True):
        fast = trace(seed, messages, slow=False, batches=batches, window=window)
        slow = trace(seed, messages, slow=True, batches=batches, window=window)
        assert fast.handled == slow.handled == fast.emitted == slow.emitted == expected
        # Or it would compare one way with itself. A message without a key takes no time to fail.
        assert slow.largest_batch == 1 or bad_keys
        assert fast.largest_batch > 1 or window == 1
