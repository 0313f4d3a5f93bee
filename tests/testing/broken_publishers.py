"""Publishers that break one rule each, on purpose."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Subscriber, Subscription
from tests.testing.hand_written import HandWritten, HandWrittenPublisher


@dataclass(frozen=True)
class Broken:
    """A publisher, the rule that it breaks, and those whose tests must fail with it, or wait in vain; "*" is all."""

    rule: str
    publisher: type[HandWrittenPublisher]
    also: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        return f"{self.rule} {self.publisher.__name__}"


ALL: list[Broken] = []


def breaks(rule: str, *also: str) -> Callable[[type[Any]], type[Any]]:
    """List a publisher, or a publisher with this subscription, as one that breaks a rule."""

    def add(broken: type[Any]) -> type[Any]:
        publisher: type[Any] = broken
        if issubclass(broken, Subscription):
            publisher = type(broken.__name__, (HandWrittenPublisher,), {"subscription": broken})
        ALL.append(Broken(rule, publisher, frozenset(also)))
        return broken

    return add


# §1.


@breaks("1.1", "1_11", "3_04", "3_05", "3_08")
class EmitsBeforeARequest(HandWritten):
    def start(self) -> None:
        self.demand = min(1, self.count)
        super().start()


@breaks("1.1", "1_11", "3_08")
class EmitsOneTooMany(HandWritten):
    def add(self, n: int) -> None:
        # Once, so that the others add up.
        super().add(n + (self.given == 0))


@breaks("1.1", "1_11", "3_08")
class FillsItsBatches(HandWritten):
    def give(self, subscriber: Subscriber[Any]) -> None:
        if isinstance(subscriber, BatchSubscriber):
            self.demand = max(self.demand, 2)
        super().give(subscriber)


@breaks("1.1", "*")
class EmitsWithoutEnd(HandWritten):
    def emit_all(self) -> None:
        if self.demand and self.count:
            while self.subscriber is not None:
                self.subscriber.on_next(0)


@breaks("1.2")
class WaitsForMoreThanItHas(HandWritten):
    def end(self, error: Exception | None) -> None:
        # It counts down to its end, and does not expect to be asked for more than one beyond it.
        if self.demand <= 1 or self.demand > 5:
            super().end(error)
        else:
            self.subscriber = None


@breaks("1.3", "3_04")
class EmitsOnEachThreadThatAsks(HandWritten):
    def look(self) -> None:
        if self.drainer == threading.get_ident():
            self.news = True
        else:
            self.drainer = threading.get_ident()
            self.drain()


@breaks("1.3", "3_11")
class CompletesBesideTheLastItem(HandWritten):
    def give(self, subscriber: Subscriber[Any]) -> None:
        if self.given + 1 < self.count or self.error is not None:
            super().give(subscriber)
            return
        thread = threading.Thread(target=self.complete_soon, args=(subscriber,))
        thread.start()
        super().give(subscriber)
        thread.join()

    def complete_soon(self, subscriber: Subscriber[Any]) -> None:
        # Not before the last item.
        threading.Event().wait(0.002)
        self.done = self.ended = True
        subscriber.on_completed()


@breaks("1.4")
class CompletesInsteadOfFailing(HandWritten):
    def end(self, error: Exception | None) -> None:
        super().end(None if isinstance(error, LookupError) else error)


@breaks("1.4", "1_06", "1_07", "1_09")
class RaisesInsteadOfFailing(HandWritten):
    def end(self, error: Exception | None) -> None:
        if isinstance(error, LookupError):
            self.done = True
            raise error
        super().end(error)


@breaks("1.4", "1_06", "1_07", "1_09")
class FailsSilently(HandWritten):
    def end(self, error: Exception | None) -> None:
        if isinstance(error, LookupError):
            self.subscriber = None
        else:
            super().end(error)


@breaks("1.4")
class FailsWithAWord(HandWritten):
    def end(self, error: Exception | None) -> None:
        super().end("failed" if isinstance(error, LookupError) else error)  # type: ignore[arg-type]


@breaks("1.5", "1_02", "1_03", "2_12", "3_15", "1_06", "1_07", "1_09", "3_02", "3_11", "3_13", "3_17")
class NeverCompletes(HandWritten):
    def end(self, error: Exception | None) -> None:
        if error is None:
            self.subscriber = None
        else:
            super().end(error)


@breaks("1.5", "1_02", "3_02", "3_17")
class FailsAtItsEnd(HandWritten):
    def end(self, error: Exception | None) -> None:
        super().end(error or RuntimeError("no more items"))


@breaks("1.6")
class RefusesRequestsAfterTheEnd(HandWritten):
    def request(self, n: int) -> None:
        last = self.last()
        if n < 1 and self.ended and self.refused is None and last is not None:
            last.on_error(ValueError(n))
        super().request(n)


@breaks("1.7")
class CompletesTwice(HandWritten):
    def end(self, error: Exception | None) -> None:
        super().end(error)
        if error is None and self.subscriber is not None:
            self.subscriber.on_completed()


@breaks("1.7", "1_04")
class CompletesAfterAnError(HandWritten):
    def end(self, error: Exception | None) -> None:
        super().end(error)
        if error is not None and self.subscriber is not None:
            self.subscriber.on_completed()


@breaks("1.7")
class EmitsAfterTheEnd(HandWritten):
    def request(self, n: int) -> None:
        last = self.last()
        if n == UNBOUNDED and self.ended and last is not None:
            last.on_next(-1)
        super().request(n)


@breaks("1.8")
class IgnoresACancelInsideASignal(HandWritten):
    def cancel(self) -> None:
        if self.drainer != threading.get_ident() or self.given == 0:
            super().cancel()

    def subscriber_failed(self) -> None:
        super().cancel()


@breaks("1.9", "1_07")
class SubscribesLate(HandWritten):
    def start(self) -> None:
        if self.count == 0 and self.subscriber is not None:
            self.subscriber.on_completed()
        super().start()


@breaks("1.9", "1_05", "1_06", "1_07")
class SubscribesNobodyToNothing(HandWritten):
    def start(self) -> None:
        assert self.subscriber is not None
        if self.count:
            super().start()
        else:
            self.subscriber.on_completed()


@breaks("1.9", "1_04", "1_05", "1_06", "1_07")
class RaisesFromSubscribe(HandWrittenPublisher):
    def subscribe(self, subscriber: Subscriber[Any], /) -> object:
        if self.error is not None or self.count == 0:
            raise RuntimeError("it would fail, or be empty, anyway")
        return super().subscribe(subscriber)


@breaks("1.10", "1_11")
class IgnoresASecondSubscriber(HandWrittenPublisher):
    taken = False

    def subscribe(self, subscriber: Subscriber[Any], /) -> object:
        if self.taken:
            return None
        self.taken = True
        return super().subscribe(subscriber)


@breaks("1.10", "1_11")
class RaisesAtASecondSubscriber(HandWrittenPublisher):
    taken = False

    def subscribe(self, subscriber: Subscriber[Any], /) -> object:
        if self.taken:
            raise RuntimeError("one is enough")
        self.taken = True
        return super().subscribe(subscriber)


class Shared(HandWrittenPublisher):
    def connect(self, subscriber: Subscriber[Any]) -> HandWritten:
        self.active.append(super().connect(subscriber))
        return self.active[-1]


class CancelsTheOthers(HandWritten):
    def cancel(self) -> None:
        super().cancel()
        others = [other for other in self.publisher.active if not other.done]
        for other in others:
            other.error = RuntimeError("another subscriber cancelled")
            other.count = other.given
            other.look()


@breaks("1.11")
class OneCancelsAll(Shared):
    subscription = CancelsTheOthers


class AsksForTheOthers(HandWritten):
    def request(self, n: int) -> None:
        super().request(n)
        for other in self.publisher.active:
            if other is not self and n >= 1:
                HandWritten.request(other, n)


@breaks("1.11")
class SharesDemand(Shared):
    subscription = AsksForTheOthers


# §2, as far as it binds publishers.


@breaks("2.12")
class SubscribesTwice(HandWritten):
    def start(self) -> None:
        self.drainer = threading.get_ident()
        assert self.subscriber is not None
        self.subscriber.on_subscribe(self)
        self.subscriber.on_subscribe(Nothing())
        self.drain()


class Nothing(Subscription):
    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...


@breaks("2.13")
class GoesOnAfterASubscriberFailed(HandWritten):
    def subscriber_failed(self) -> None: ...


@breaks("2.13")
class SendsASubscriberItsOwnError(HandWritten):
    def subscriber_failed(self) -> None:
        self.count = self.given
        self.error = RuntimeError("you raised")


# §3.


@breaks("3.2")
class LosesRequestsInsideOnSubscribe(HandWritten):
    started = False

    def start(self) -> None:
        super().start()
        self.started = True

    def add(self, n: int) -> None:
        # The initial one, as a field that is set after on_subscribe would.
        if self.started or n > 1:
            super().add(n)


@breaks("3.2", "3_03", "3_16")
class RaisesAtRequestsInsideOnNext(HandWritten):
    def request(self, n: int) -> None:
        if self.drainer == threading.get_ident() and self.given == 2:
            raise RuntimeError("request is not reentrant")
        super().request(n)


@breaks("3.3")
class CallsItself(HandWritten):
    def look(self) -> None:
        if self.drainer == threading.get_ident() and self.given:
            self.emit_all()
        else:
            super().look()


@breaks("3.3")
class GrowsItsStack(HandWritten):
    def emit_all(self) -> None:
        if not self.done and self.subscriber is not None and self.demand and self.given < self.count:
            self.give(self.subscriber)
            if self.given < 250:
                self.emit_all()
            else:
                super().emit_all()
        else:
            super().emit_all()


@breaks("3.4")
class HoldsUpRequestsDuringASignal(HandWritten):
    def __init__(self, publisher: HandWrittenPublisher, subscriber: Subscriber[Any]) -> None:
        super().__init__(publisher, subscriber)
        self.emitting = threading.RLock()

    def request(self, n: int) -> None:
        with self.emitting:
            super().request(n)


@breaks("3.5", "3_12")
class HoldsUpCancelsDuringASignal(HandWritten):
    def __init__(self, publisher: HandWrittenPublisher, subscriber: Subscriber[Any]) -> None:
        super().__init__(publisher, subscriber)
        self.emitting = threading.RLock()

    def give(self, subscriber: Subscriber[Any]) -> None:
        with self.emitting:
            super().give(subscriber)

    def cancel(self) -> None:
        # The cancel of §3.12 comes in the middle of a signal too.
        with self.emitting:
            super().cancel()


@breaks("3.5")
class RaisesAtACancelOfAnotherThread(HandWritten):
    def cancel(self) -> None:
        if self.drainer not in {None, threading.get_ident()} and self.given == 1:
            raise RuntimeError("not your thread")
        super().cancel()


@breaks("3.6")
class EmitsAfterACancel(HandWritten):
    def request(self, n: int) -> None:
        last = self.last()
        if self.done and self.given == 0 and n == 1 and not self.ended and last is not None:
            last.on_next(-1)
        super().request(n)


@breaks("3.6")
class RefusesRequestsAfterACancel(HandWritten):
    def request(self, n: int) -> None:
        last = self.last()
        if n < 1 and self.done and not self.ended and last is not None:
            last.on_error(ValueError(n))
        super().request(n)


@breaks("3.7")
class CompletesAtASecondCancel(HandWritten):
    def cancel(self) -> None:
        last = self.last()
        if self.done and not self.ended and last is not None and self.given == 0:
            last.on_completed()
        super().cancel()


@breaks("3.8", "3_17")
class ForgetsEarlierRequests(HandWritten):
    def add(self, n: int) -> None:
        self.demand = n


@breaks("3.8", "3_03", "3_17")
class LosesRequestsOfThreads(HandWritten):
    def request(self, n: int) -> None:
        if n < 1:
            super().request(n)
            return
        demand = self.given + self.demand
        # As long as another thread needs to come between.
        threading.Event().wait(0.001)
        self.demand = demand + n - self.given
        self.look()


@breaks("3.8")
class RoundsRequests(HandWritten):
    def add(self, n: int) -> None:
        super().add(5 if n == 6 else n)


@breaks("3.9")
class IgnoresInvalidRequests(HandWritten):
    def refuse(self, n: int) -> None: ...


@breaks("3.9")
class IgnoresRequestsOfZero(HandWritten):
    def refuse(self, n: int) -> None:
        if n:
            super().refuse(n)


@breaks("3.9")
class RefusesWithAnotherError(HandWritten):
    def end(self, error: Exception | None) -> None:
        super().end(RuntimeError("bad request") if self.refused is not None else error)


@breaks("3.9")
class IgnoresInvalidRequestsInsideSignals(HandWritten):
    def refuse(self, n: int) -> None:
        if self.drainer is None:
            super().refuse(n)


@breaks("3.12")
class IgnoresACancelFromOutside(HandWritten):
    def cancel(self) -> None:
        if self.drainer in {None, threading.get_ident()} or self.given < 5:
            super().cancel()


@breaks("3.13")
class KeepsSubscribersThatCancelled(HandWritten):
    def let_go(self) -> None:
        if self.ended:
            super().let_go()


@breaks("3.13")
class KeepsSubscribersForEver(HandWrittenPublisher):
    def __init__(self, count: int, error: Exception | None = None) -> None:
        super().__init__(count, error)
        self.everyone: list[Subscriber[Any]] = []

    def connect(self, subscriber: Subscriber[Any]) -> HandWritten:
        self.everyone.append(subscriber)
        return super().connect(subscriber)


@breaks("3.15")
class RaisesAtACancelOfTheCancelled(HandWritten):
    def cancel(self) -> None:
        if self.ended and self.drainer is None and self.given == 10:
            raise RuntimeError("there is nothing to cancel")
        super().cancel()


@breaks("3.15")
class RaisesAtACancelInsideOnSubscribe(HandWritten):
    started = False

    def start(self) -> None:
        super().start()
        self.started = True

    def cancel(self) -> None:
        super().cancel()
        if not self.started:
            raise RuntimeError("not yet")


@breaks("3.16")
class RaisesAtInvalidRequests(HandWritten):
    def request(self, n: int) -> None:
        super().request(n)
        if n == 0 and self.given == 10:
            raise ValueError(n)


@breaks("3.16", "3_06", "2_13")
class RaisesAtRequestsAfterACancel(HandWritten):
    def request(self, n: int) -> None:
        if self.done and not self.ended:
            raise RuntimeError("cancelled")
        super().request(n)


@breaks("3.17")
class OverflowsBeyondUnbounded(HandWritten):
    def add(self, n: int) -> None:
        super().add(n)
        if self.demand > UNBOUNDED:
            self.demand -= 2 * UNBOUNDED + 2
        self.demand = max(self.demand, 0)


@breaks("3.17", "3_03")
class TakesFewRequests(HandWritten):
    asked = 0

    def add(self, n: int) -> None:
        self.asked += 1
        if self.asked <= 64:
            super().add(n)


class HangsAtRequests(HandWritten):
    """Until `go_on` is set."""

    go_on: ClassVar[threading.Event]

    def request(self, n: int) -> None:
        self.go_on.wait(60)
        super().request(n)
