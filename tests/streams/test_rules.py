"""The rules of Reactive Streams §1-§3, of each source."""

import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.errors import InvalidRequestError
from rxwow.streams.protocols import UNBOUNDED, Subscription
from tests.streams.probe import Log, Probe, is_gone
from tests.streams.sources import Source, SourceError, every_pulled_source, every_source, probe_for

both_ways = pytest.mark.parametrize("batches", [False, True], ids=["singly", "in batches"])


@every_source
@both_ways
@given(length=st.integers(0, 40), requests=st.lists(st.integers(1, 9), max_size=12))
def test_emits_exactly_what_was_requested_in_order(
    source: Source, batches: bool, length: int, requests: list[int]
) -> None:
    """§1.1, §1.2, §3.8; F05 (no more than asked for), F39 (what was ready while there was no demand still comes)."""
    with probe_for(source, batches=batches) as probe:
        source.of(range(length)).subscribe(probe)
        for n in requests:
            probe.request(n)
            probe.wait_for_items(min(probe.requested, length))
        assert probe.items == list(range(min(sum(requests), length)))
        if sum(requests) < length:
            assert not probe.ended
            probe.request(UNBOUNDED)
        elif length == 0 or sum(requests) == length:
            # Those that can't see their end need to be asked once more.
            probe.request(1)
        probe.wait_for_end()
        assert probe.items == list(range(length))
        assert (probe.completions, probe.errors) == (1, [])


@every_source
@both_ways
@given(length=st.integers(0, 30), request=st.integers(1, 40))
def test_error_comes_after_the_items_before_it(source: Source, batches: bool, length: int, request: int) -> None:
    """§1.4."""
    error = SourceError()
    with probe_for(source, batches=batches) as probe:
        source.of(range(length), error).subscribe(probe)
        probe.request(request)
        probe.wait_for_items(min(request, length))
        probe.request(UNBOUNDED)
        probe.wait_for_end()
        assert (probe.items, probe.errors, probe.completions) == (list(range(length)), [error], 0)


@every_source
@both_ways
@given(data=st.data())
def test_nothing_is_emitted_after_cancel_inside_on_next(source: Source, batches: bool, data: st.DataObject) -> None:
    """§2.8, §3.12, and §3.7: a cancel may be repeated."""
    last = data.draw(st.integers(0, 20), label="last")
    after_cancel: list[Any] = []

    def on_item(item: int) -> None:
        if item == last:
            probe.cancel()
            probe.cancel()
            probe.request(5)
        elif item > last and not batches:
            after_cancel.append(item)

    with probe_for(source, 100, on_item, batches=batches) as probe:
        source.of(range(50)).subscribe(probe)
        probe.wait_for_items(last + 1)
        assert after_cancel == []
        assert not probe.ended


@every_source
def test_request_after_cancel_does_nothing(source: Source) -> None:
    """§3.6; even one that is not valid."""
    with probe_for(source) as probe:
        source.of(range(3)).subscribe(probe)
        probe.cancel()
        probe.request(3)
        probe.subscription.request(0)
        assert (probe.items, probe.errors, probe.completions) == ([], [], 0)


@every_source
@pytest.mark.parametrize("n", [0, -1, -(2**63), True, None, 1.0, "1"], ids=repr)
def test_invalid_request_ends_the_stream(source: Source, n: Any) -> None:
    """§3.9; F73: zero is refused, not taken for nothing."""
    with probe_for(source) as probe:
        source.of(range(3)).subscribe(probe)
        probe.subscription.request(n)
        probe.request(2)
        probe.wait_for_end()
        assert probe.items == []
        assert [type(error) for error in probe.errors] == [InvalidRequestError]
        assert repr(n) in str(probe.errors[0])


@every_source
def test_invalid_request_inside_on_next_ends_the_stream_there(source: Source) -> None:
    def on_item(_: Any) -> None:
        probe.subscription.request(0)
        probe.subscription.request(0)

    with probe_for(source, 10, on_item) as probe:
        source.of(range(10)).subscribe(probe)
        probe.wait_for_end()
        assert probe.items == [0]
        assert [type(error) for error in probe.errors] == [InvalidRequestError]


@every_source
@both_ways
def test_stack_stays_flat_when_each_item_requests_the_next(source: Source, batches: bool) -> None:
    """§3.3; F93: 1e5 items under the default recursion limit (fewer where an item wakes a thread)."""
    length = 100_000 if source.on_calling_thread else 9_000
    with probe_for(source, 1, lambda _: probe.request(1), batches=batches) as probe:
        source.of(range(length)).subscribe(probe)
        probe.wait_for_end()
        assert len(probe.items) == length
        assert probe.errors == []


@every_source
def test_demand_adds_up_to_unbounded_and_stays_there(source: Source) -> None:
    """§3.17."""

    def on_item(item: int) -> None:
        if item == 0:
            probe.request(UNBOUNDED)
            probe.request(UNBOUNDED)

    with probe_for(source, 1, on_item) as probe:
        source.of(range(100)).subscribe(probe)
        probe.wait_for_end()
        assert probe.items == list(range(100))


@every_pulled_source
def test_nothing_is_pulled_before_a_request_nor_beyond_it(source: Source) -> None:
    """F05: the log of what the source was asked for is that of the requests."""
    pulled: list[int] = []

    def iterate() -> Iterator[int]:
        for number in itertools.count():
            pulled.append(number)
            yield number

    with probe_for(source) as probe:
        source.make(iterate).subscribe(probe)
        assert pulled == []
        for n in (1, 3):
            probe.request(n)
            probe.wait_for_items(probe.requested)
            assert len(pulled) == probe.requested


@every_source
@both_ways
def test_observer_that_raises_is_logged_once_and_cancelled(source: Source, batches: bool, log: Log) -> None:
    """§2.13; F90, F91: one route, never silence, and no on_error on top."""
    error = SourceError("in on_next")

    def on_item(item: int) -> None:
        if item == 3:
            raise error

    with probe_for(source, 10, on_item, batches=batches) as probe:
        source.of(range(20)).subscribe(probe)
        log.wait_for(1)
        probe.request(10)
    assert [record.exc_info[1] for record in log.records if record.exc_info] == [error]
    assert log.levels == ["ERROR"]
    assert "on_next" in log.messages[0]
    assert len(probe.items) == 4
    assert not probe.ended


@every_source
def test_last_signal_that_raises_is_logged_once(source: Source, log: Log) -> None:
    class Raising(Probe):
        def on_completed(self) -> None:
            super().on_completed()
            raise SourceError

    probe = Raising(UNBOUNDED)
    with probe_for(source) as helper:
        probe.offered_loop = helper.offered_loop
        source.of(range(3)).subscribe(probe)
        log.wait_for(1)
        probe.request(1)
    assert (probe.completions, probe.errors, probe.breaches) == (1, [], [])
    assert log.levels == ["ERROR"]


@every_source
def test_on_subscribe_that_raises_is_logged_and_cancels(source: Source, log: Log) -> None:
    class Raising(Probe):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            raise SourceError

    probe = Raising(5)
    with probe_for(source) as helper:
        probe.offered_loop = helper.offered_loop
        source.of(range(3)).subscribe(probe)
    assert (probe.items, probe.ended) == ([], False)
    assert log.levels == ["ERROR"]


@every_source
@pytest.mark.parametrize("cancels", [False, True], ids=["ends", "is cancelled"])
def test_source_forgets_its_subscriber(source: Source, cancels: bool) -> None:
    """§3.13; F101: nothing of a subscription is left, though its handle is."""
    gone = threading.Event()
    with probe_for(source) as helper:
        probe = Probe(2 if cancels else UNBOUNDED)
        probe.offered_loop = helper.offered_loop
        weakref.finalize(probe, gone.set)
        handle = source.of(range(3)).subscribe(probe)
        subscription = probe.subscription
        if cancels:
            probe.wait_for_items(2)
            handle.dispose()
        else:
            probe.wait_for_end()
        del probe
        assert is_gone(gone)
        subscription.request(1)


@every_source
def test_subscriptions_are_independent(source: Source) -> None:
    flowable = source.of(range(10))
    with probe_for(source, 3) as first, probe_for(source, UNBOUNDED) as second:
        flowable.subscribe(first)
        flowable.subscribe(second)
        second.wait_for_end()
        first.wait_for_items(3)
        assert (len(first.items), len(second.items)) == (3, 10)
