"""A correct subscriber written by hand, and subscribers that break one rule each, on purpose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rxwow.streams.protocols import BatchSubscriber, Subscriber, Subscription


class Asking(Subscriber[Any]):
    """Asks for two items at first and for one for each that it got; cancels on `stop`. `lock` guards all fields."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.subscription: Subscription | None = None
        self.items: list[Any] = []

    def on_subscribe(self, subscription: Subscription) -> None:
        with self.lock:
            first = self.subscription is None
            if first:
                self.subscription = subscription
        if first:
            self.ask(2)
        else:
            self.refuse(subscription)

    def refuse(self, subscription: Subscription) -> None:
        subscription.cancel()

    def ask(self, n: int) -> None:
        with self.lock:
            subscription = self.subscription
        if subscription is not None:
            subscription.request(n)

    def on_next(self, value: Any) -> None:
        self.take(value)
        self.ask(1)

    def take(self, value: Any) -> None:
        with self.lock:
            self.items.append(value)

    def on_error(self, error: Exception) -> None:
        self.end()

    def on_completed(self) -> None:
        self.end()

    def end(self) -> None:
        with self.lock:
            self.subscription = None

    def stop(self) -> None:
        with self.lock:
            subscription, self.subscription = self.subscription, None
        if subscription is not None:
            subscription.cancel()


class AskingForBatches(Asking, BatchSubscriber[Any]):
    def on_next_batch(self, items: Sequence[Any]) -> None:
        for item in items:
            self.take(item)
        self.ask(len(items))


class AskingByHand(Asking):
    """Asks only when it is told to; on a thread of its own."""

    def ask(self, n: int) -> None: ...

    def ask_by_hand(self) -> None:
        thread = threading.Thread(target=super().ask, args=(1,))
        thread.start()
        thread.join()


@dataclass(frozen=True)
class Broken:
    """A subscriber, the rule that it breaks, and those whose tests must fail with it; "*" is all."""

    rule: str
    subscriber: type[Asking]
    also: frozenset[str]

    def __str__(self) -> str:
        return f"{self.rule} {self.subscriber.__name__}"


ALL: list[Broken] = []


def breaks(rule: str, *also: str) -> Callable[[type[Asking]], type[Asking]]:
    """List a subscriber as one that breaks a rule."""

    def add(broken: type[Asking]) -> type[Asking]:
        ALL.append(Broken(rule, broken, frozenset(also)))
        return broken

    return add


@breaks("2.1", "*")
class NeverAsks(Asking):
    def ask(self, n: int) -> None: ...


@breaks("2.1", "2_07", "2_13", "3_09", "3_10")
class AsksOnlyOnce(Asking):
    def ask(self, n: int) -> None:
        if not self.items:
            super().ask(n)


@breaks("2.3")
class CancelsAtTheEnd(Asking):
    def on_completed(self) -> None:
        self.stop()


@breaks("2.3")
class AsksAgainAtAnError(Asking):
    def on_error(self, error: Exception) -> None:
        self.ask(1)
        super().on_error(error)


@breaks("2.4")
class KeepsAskingAfterTheEnd(Asking):
    def end(self) -> None: ...


@breaks("2.5")
class TakesASecondSubscription(Asking):
    def refuse(self, subscription: Subscription) -> None: ...


@breaks("2.5")
class UsesASecondSubscription(Asking):
    def refuse(self, subscription: Subscription) -> None:
        subscription.request(1)
        subscription.cancel()


@breaks("2.5")
class CancelsBoth(Asking):
    def refuse(self, subscription: Subscription) -> None:
        subscription.cancel()
        self.stop()


@breaks("2.6", "2_08")
class NeverCancels(Asking):
    def stop(self) -> None:
        self.end()


@breaks("2.7")
class AsksOnManyThreads(Asking):
    def ask(self, n: int) -> None:
        ask = super().ask
        threads = [threading.Thread(target=ask, args=(1,)) for _ in range(n + 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@breaks("2.8")
class RaisesAfterItsCancel(Asking):
    def take(self, value: Any) -> None:
        if self.subscription is None:
            raise RuntimeError("I cancelled")
        super().take(value)


@breaks("2.8")
class AsksAfterItsCancel(Asking):
    cancelled: Subscription | None = None

    def stop(self) -> None:
        self.cancelled = self.subscription
        super().stop()

    def take(self, value: Any) -> None:
        super().take(value)
        if self.cancelled is not None:
            self.cancelled.request(1)


@breaks("2.9", "2_04", "3_11")
class NeedsAnItemBeforeTheEnd(Asking):
    def on_completed(self) -> None:
        super().on_completed()
        self.items[-1]


@breaks("2.10", "2_04")
class NeedsAnItemBeforeAnError(Asking):
    def on_error(self, error: Exception) -> None:
        super().on_error(error)
        self.items[-1]


@breaks("2.13", "3_09")
class RaisesInOnNext(Asking):
    def take(self, value: Any) -> None:
        super().take(value)
        if value == 30:
            raise ValueError(value)


@breaks("2.13")
class RaisesInOnError(Asking):
    def on_error(self, error: Exception) -> None:
        super().on_error(error)
        if len(self.items) == 50:
            raise error


@breaks("2.13", "3_09")
class RaisesForABatch(AskingForBatches):
    def on_next_batch(self, items: Sequence[Any]) -> None:
        super().on_next_batch(items)
        if len(self.items) > 40:
            raise ValueError(items)


@breaks("3.9")
class AsksForNothing(Asking):
    def ask(self, n: int) -> None:
        if len(self.items) == 3:
            super().ask(0)
        super().ask(n)


@breaks("3.9")
class AsksForAFraction(Asking):
    def ask(self, n: int) -> None:
        super().ask(n)
        if len(self.items) == 3:
            super().ask(0.5)  # type: ignore[arg-type]


class HoldingItsLock(Asking):
    """Waits for a while only: a deadlock would leave a thread behind."""

    def __init__(self) -> None:
        super().__init__()
        self.asking = threading.Lock()

    def ask(self, n: int) -> None:
        with self.not_asking():
            super().ask(n)

    @contextmanager
    def not_asking(self) -> Generator[None]:
        if not self.asking.acquire(timeout=1):
            raise TimeoutError("it would wait for ever")
        try:
            yield
        finally:
            self.asking.release()


@breaks("3.10")
class HoldsItsLockWhileItAsks(HoldingItsLock): ...


@breaks("3.11")
class HoldsItsLockUntilTheEnd(HoldingItsLock):
    def on_next(self, value: Any) -> None:
        self.take(value)

    def end(self) -> None:
        with self.not_asking():
            super().end()
