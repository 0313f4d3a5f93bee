"""What the tests of a publisher are made of: how to make one, and subscribers that end what goes on and on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final, TypeAlias

from rxwow.streams.protocols import Publisher
from rxwow.testing.contracts.calls import Abandoned, Call
from rxwow.testing.contracts.contract import Contract, Unless, require
from rxwow.testing.probe import BatchSubscriberProbe, SubscriberProbe

__all__ = ["MANY", "Action", "BatchContractProbe", "ContractProbe", "Kind", "PublisherTests", "needs"]

MANY: Final = 2**31
"""How many items a publisher is made with that is never to come to its end."""

_MOST_SURPLUS: Final = 1000
"""Items beyond the demand after which a publisher is ended."""

_MOST_AFTER_CANCEL: Final = 10_000
"""Items after the cancel that may be under way; a publisher that emits more does not stop."""


def needs(count: int) -> Unless:
    """Leave a test out where the publisher can't have so many items."""

    def unless(contract: type[PublisherTests]) -> str:
        most = contract.max_count
        return "" if most is None or most >= count else f"it needs {count} items, and max_count is {most}"

    return unless


Action: TypeAlias = Callable[["ContractProbe"], object]


class ContractProbe(SubscriberProbe[Any]):
    """A probe that ends a publisher which floods it.

    Args:
        on_item: called with the probe, for each item, inside the signal that brought it.
        first: called with the probe inside `on_subscribe`.
        patience: see `SubscriberProbe`.
    """

    def __init__(self, *, on_item: Action | None, first: Action | None, patience: float) -> None:
        super().__init__(on_item=on_item and (lambda _: on_item(self)), patience=patience)
        self.abandoned = ""
        """Why the publisher is ended at its next signal; empty while it is not."""
        self._first = first
        self._most_after_cancel: float = _MOST_AFTER_CANCEL
        self._got_at_cancel: int | None = None

    @property
    def received(self) -> int:
        """How many signals came from the publisher."""
        return sum(signal.name.startswith("on_") for signal in self.signals)

    @property
    def satisfied(self) -> bool:
        """Whether all that was requested has come, or the end."""
        return self.ended or len(self.items) >= self.requested

    def abandon(self, reason: str) -> None:
        """End the publisher at its next signal, and what waits for this probe now."""
        self.abandoned = self.abandoned or reason
        self._news.tell()

    def allow_after_cancel(self, count: int) -> None:
        """Set how many items may come after a cancel; a publisher of few items could give all of them."""
        self._most_after_cancel = min(_MOST_AFTER_CANCEL, count)

    def cancel(self) -> None:
        super().cancel()
        if self._got_at_cancel is None:
            self._got_at_cancel = len(self.items)

    def breaches_of(self, rule: str) -> Sequence[str]:
        """Return what was noted of one rule."""
        return [str(breach) for breach in self.breaches if breach.rule == rule]

    def _ask_first(self) -> None:
        if self._first is not None:
            self._first(self)

    def _begin(self, name: str, value: Any, items: Sequence[Any] = ()) -> None:
        if self.abandoned:
            raise Abandoned(self.abandoned)
        super()._begin(name, value, items)
        if len(self.items) > self.requested + _MOST_SURPLUS:
            self.abandoned = f"the publisher goes on and on: {len(self.items)} items for a demand of {self.requested}"
        at_cancel = self._got_at_cancel
        if at_cancel is not None and len(self.items) > at_cancel + self._most_after_cancel:
            self.abandoned = f"the publisher does not stop: {len(self.items) - at_cancel} items came after the cancel"


class BatchContractProbe(ContractProbe, BatchSubscriberProbe[Any]):
    """The same, for batches."""


Kind: TypeAlias = type[ContractProbe]


class PublisherTests(Contract, abstract=True):
    """See `PublisherContract`."""

    max_count: ClassVar[int | None] = None
    emits_asynchronously: ClassVar[bool] = True
    _made: list[ContractProbe] | None = None

    @abstractmethod
    def create_publisher(self, count: int) -> Publisher[Any]:
        """Make a publisher of exactly `count` items, from 0 to `max_count`, that then completes.

        Args:
            count: how many; 2**31 where a test wants one that never comes to its end.
        """

    def create_failed_publisher(self) -> Publisher[Any]:
        """Make a publisher that ends with `on_error`, after any number of items; not given, §1.4 is left out."""
        raise NotImplementedError

    @classmethod
    def _can_fail(cls) -> bool:
        return cls.create_failed_publisher is not PublisherTests.create_failed_publisher

    # What a test does.

    def _variants(self) -> Iterable[Kind]:
        return (ContractProbe, BatchContractProbe)

    def _described(self, variant: Kind) -> str:
        return f"with a subscriber that takes {'batches' if variant is BatchContractProbe else 'single items'}"

    def _abandon(self) -> None:
        for probe in tuple(self._probes()):
            probe.abandon("the test is over")
            if probe.subscribed:
                # Whatever it answers, and if it hangs: the test has failed already.
                Call(self._platform, probe.cancel).returned_within(self.patience)

    def _probes(self) -> list[ContractProbe]:
        # No __init__: a test runner makes the instances, and makes none of a class with an __init__.
        if self._made is None:
            self._made = []
        return self._made

    def _count(self, wanted: int) -> int:
        return wanted if self.max_count is None else min(wanted, self.max_count)

    @contextmanager
    def _subscribed(
        self,
        kind: Kind,
        count: int,
        *,
        on_item: Action | None = None,
        first: Action | None = None,
        publisher: Publisher[Any] | None = None,
    ) -> Generator[ContractProbe]:
        """Subscribe a probe, by default to a new publisher, and cancel it at the end."""
        probe = self._probe(kind, on_item=on_item, first=first)
        self._probes().append(probe)
        try:
            self._subscribe(self.create_publisher(count) if publisher is None else publisher, probe)
            yield probe
        finally:
            self._probes().remove(probe)
            if probe.subscribed:
                # That cancel works is for its own tests to say.
                with suppress(Exception):
                    probe.cancel()

    def _probe(self, kind: Kind, *, on_item: Action | None = None, first: Action | None = None) -> ContractProbe:
        return kind(on_item=on_item, first=first, patience=self.patience)

    def _subscribe(self, publisher: Publisher[Any], probe: ContractProbe) -> None:
        publisher.subscribe(probe)
        require(self._comes(probe, lambda: probe.subscribed), "on_subscribe was not called")

    def _comes(self, probe: ContractProbe, condition: Callable[[], object]) -> bool:
        """Wait until a condition on what came holds; return whether it does."""
        probe._news.wait_until(lambda: probe.abandoned or condition(), self.patience)
        return bool(condition())

    def _ends(self, probe: ContractProbe) -> None:
        require(self._comes(probe, lambda: probe.ended), f"neither on_completed nor on_error came; {probe}")

    def _completes(self, probe: ContractProbe, count: int) -> None:
        self._ends(probe)
        require(probe.completions and not probe.errors, f"it should have completed; {probe}")
        require(len(probe.items) == count, f"{count} items were to come; {probe}")

    def _settle(self) -> None:
        if self.emits_asynchronously:
            self._pause()

    def _stops(self, probe: ContractProbe) -> None:
        """Wait until no more signals come."""
        due = self._platform.monotonic() + self.patience
        while not probe.abandoned:
            before = probe.received
            self._settle()
            if probe.received == before:
                return
            require(self._platform.monotonic() < due, f"signals still come; {probe}")
        raise AssertionError(probe.abandoned)

    def _kept(self, rule: str, *probes: ContractProbe) -> None:
        """Fail if a probe has noted a breach of the rule."""
        for probe in probes:
            breaches = probe.breaches_of(rule)
            require(not breaches, f"{'; '.join(breaches)}; {probe}")
