import itertools
import operator
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from rxwow import platform as platform_module
from rxwow.errors import InvalidArgumentError, RxwowError
from rxwow.platform import Platform
from rxwow.streams.flowable import Flowable
from rxwow.streams.iterables import MOST_ITEMS_A_PULL, from_iterable
from rxwow.streams.protocols import UNBOUNDED
from tests.streams.probe import PATIENCE_S, BatchProbe, Log, Probe, wait_until_ended
from tests.streams.sources import SourceError

both_threads = pytest.mark.parametrize("blocking", [False, True], ids=["inline", "blocking"])


class Recording:
    """An iterator that knows on which threads it was used, and how often it was closed."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self.pulled_by: list[int] = []
        self.closed_by: list[int] = []
        self.closed = threading.Event()

    def __iter__(self) -> "Recording":
        return self

    def __next__(self) -> Any:
        self.pulled_by.append(threading.get_ident())
        return next(self._items)

    def close(self) -> None:
        self.closed_by.append(threading.get_ident())
        self.closed.set()


@both_threads
@pytest.mark.parametrize("end", ["end", "cancel", "error", "invalid request"])
def test_what_was_made_for_the_subscription_is_closed_once(blocking: bool, end: str) -> None:
    def failing() -> Iterator[int]:
        yield 0
        raise SourceError

    made = Recording(failing() if end == "error" else range(3))
    probe = Probe(1)
    from_iterable(lambda: made, blocking=blocking).subscribe(probe)
    probe.wait_for_items(1)
    assert made.closed_by == []
    if end == "cancel":
        probe.cancel()
        probe.cancel()
    elif end == "invalid request":
        probe.subscription.request(0)
    else:
        probe.request(UNBOUNDED)
    assert made.closed.wait(PATIENCE_S)
    wait_until_ended(prefix="rxwow-source")
    assert len(made.closed_by) == 1
    # A database cursor may be bound to the thread that uses it.
    assert set(made.closed_by) == set(made.pulled_by)
    assert (made.closed_by[0] == threading.get_ident()) is not blocking


def test_iterator_of_the_user_is_not_closed() -> None:
    made = Recording(range(3))
    from_iterable(made).run()
    assert made.closed_by == []


def test_generator_is_closed_and_its_cleanup_may_raise(log: Log) -> None:
    def items() -> Iterator[int]:
        try:
            yield from range(3)
        finally:
            raise SourceError

    probe = Probe(1)
    from_iterable(items()).subscribe(probe)
    probe.cancel()
    assert log.levels == ["ERROR"]
    assert "closing" in log.messages[0]
    assert not probe.ended


def test_generator_may_cancel_its_own_subscription() -> None:
    def items() -> Iterator[int]:
        yield 0
        probe.cancel()
        yield 1

    probe = Probe(UNBOUNDED)
    from_iterable(items).subscribe(probe)
    assert (probe.items, probe.ended) == ([0], False)


@both_threads
def test_factory_makes_a_fresh_iterable_for_each_subscription(blocking: bool) -> None:
    flowable = from_iterable(lambda: iter([1, 2]), blocking=blocking)
    assert [flowable.run(), flowable.run()] == [2, 2]


@both_threads
@pytest.mark.parametrize("raised", [SourceError(), SystemExit(3), GeneratorExit(), KeyboardInterrupt()], ids=repr)
def test_what_opening_raises_is_the_error(blocking: bool, raised: BaseException) -> None:
    """F31: what would end a thread ends the stream alone; but on the main thread it may mean the process."""

    def factory() -> list[int]:
        raise raised

    probe = Probe()
    from_iterable(factory, blocking=blocking).subscribe(probe)
    if not blocking and isinstance(raised, SystemExit | KeyboardInterrupt):
        with pytest.raises(type(raised)):
            probe.request(1)
        assert not probe.ended
        return
    probe.request(1)
    probe.wait_for_end()
    if isinstance(raised, Exception):
        assert probe.errors == [raised]
    else:
        assert isinstance(probe.errors[0], RxwowError)
        assert probe.errors[0].__cause__ is raised


def test_interrupt_in_a_pull_releases_the_source_and_goes_on() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    made = Recording(items())
    probe = Probe()
    from_iterable(lambda: made).subscribe(probe)
    with pytest.raises(KeyboardInterrupt):
        probe.request(5)
    assert made.closed.is_set()
    probe.request(5)
    assert (probe.items, probe.ended) == ([0], False)


@pytest.mark.parametrize("items", [[], (), {}, "", b"", range(0)], ids=repr)
@both_threads
def test_empty_source_completes_without_a_request(items: Any, blocking: bool) -> None:
    """F73: nothing is still something: an empty collection is a source, not a missing one."""
    probe = Probe()
    from_iterable(items, blocking=blocking).subscribe(probe)
    probe.wait_for_end()
    assert probe.completions == 1


@both_threads
def test_source_of_known_length_completes_with_its_last_item(blocking: bool) -> None:
    probe = Probe(3)
    from_iterable([1, 2, 3], blocking=blocking).subscribe(probe)
    probe.wait_for_end()
    assert (probe.items, probe.completions) == ([1, 2, 3], 1)


def test_falsy_items_and_falsy_iterators_count() -> None:
    """F73."""

    class Falsy(Recording):
        def __len__(self) -> int:
            return 0

    opened: list[Falsy] = []

    def factory() -> Falsy:
        opened.append(Falsy([0, None, "", b"", 0.0, False]))
        return opened[-1]

    probe = Probe(2)
    from_iterable(factory).subscribe(probe)
    probe.request(UNBOUNDED)
    assert probe.items == [0, None, "", b"", 0.0, False]
    assert len(opened) == 1


@pytest.mark.parametrize("batches", [False, True])
def test_wrong_length_hint_loses_nothing(batches: bool) -> None:
    class Lying(Recording):
        def __length_hint__(self) -> int:
            return 0

    probe = (BatchProbe if batches else Probe)(2)
    from_iterable(lambda: Lying(range(5))).subscribe(probe)
    assert (probe.items, probe.ended) == ([0, 1], False)
    probe.request(3)
    assert (probe.items, probe.completions) == ([0, 1, 2, 3, 4], 1)
    probe.check()


@pytest.mark.parametrize("hint", [ValueError("no"), -1, "many"], ids=repr)
def test_broken_length_hint_is_passed_over(hint: Any) -> None:
    class Broken(Recording):
        def __length_hint__(self) -> int:
            if isinstance(hint, Exception):
                raise hint
            return hint  # type: ignore[no-any-return]

    with pytest.raises((ValueError, TypeError)):
        operator.length_hint(Broken([]))
    assert from_iterable(lambda: Broken([1, 2])).run() == 2


def test_iterable_that_fails_to_iterate_fails_the_stream() -> None:
    probe = Probe(1)
    from_iterable(lambda: 5).subscribe(probe)  # type: ignore[arg-type, return-value]
    assert [type(error) for error in probe.errors] == [TypeError]


@pytest.mark.parametrize("value", [5, None], ids=repr)
def test_other_arguments_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="iterable_or_factory must be an iterable or a function"):
        from_iterable(value)


def test_batches_grow_while_the_source_is_fast() -> None:
    """F10: what is there is handed on in batches, not one by one."""
    probe = BatchProbe(UNBOUNDED)
    from_iterable(itertools.repeat(0, 10_000)).subscribe(probe)
    assert probe.batches[0] == 1
    assert max(probe.batches) == MOST_ITEMS_A_PULL
    assert len(probe.batches) < 30
    assert sum(probe.batches) == 10_000


class SlowClock(Platform):
    """A platform whose time is what the test says."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def slow_clock() -> Iterator[SlowClock]:
    clock = SlowClock()
    token = platform_module._current.set(clock)
    yield clock
    platform_module._current.reset(token)


def test_items_of_a_slow_source_are_not_held_back(slow_clock: SlowClock, log: Log) -> None:
    seen_before_the_pull: list[int] = []

    def items() -> Iterator[int]:
        for number in range(20):
            seen_before_the_pull.append(len(probe.items))
            slow_clock.seconds += 1.0
            yield number

    probe = BatchProbe(20)
    from_iterable(items).subscribe(probe)
    assert seen_before_the_pull == list(range(20))
    # Said once, with what to do about it.
    assert log.levels == ["WARNING"]
    assert "blocking=True" in log.messages[0]


def test_source_that_becomes_slow_is_pulled_singly(slow_clock: SlowClock) -> None:
    def items() -> Iterator[int]:
        yield from range(1023)
        while True:
            slow_clock.seconds += 1.0
            yield 0

    probe = BatchProbe(3000)
    from_iterable(items).subscribe(probe)
    assert probe.batches[:10] == [2**power for power in range(10)]
    assert probe.batches[11:15] == [1, 1, 1, 1]


def test_blocking_source_is_not_advised(slow_clock: SlowClock, log: Log) -> None:
    def items() -> Iterator[int]:
        slow_clock.seconds += 1.0
        yield 1

    assert from_iterable(items, blocking=True).run() == 1
    assert log.records == []


def test_cancel_of_a_blocking_source_is_prompt_and_final() -> None:
    """What the source gives long after the cancel is not delivered any more."""
    waits, goes_on = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 0
        waits.set()
        assert goes_on.wait(PATIENCE_S)
        yield 1

    probe = BatchProbe(UNBOUNDED)
    from_iterable(items, blocking=True).subscribe(probe)
    assert waits.wait(PATIENCE_S)
    probe.cancel()
    goes_on.set()
    wait_until_ended(prefix="rxwow-source")
    assert (probe.items, probe.ended) == ([0], False)


def test_blocking_source_hands_on_each_item_before_it_waits_for_the_next() -> None:
    """F39: the last item does not wait for another."""
    goes_on = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for number in range(3):
            assert goes_on.acquire(timeout=PATIENCE_S)
            yield number

    probe = BatchProbe(UNBOUNDED)
    from_iterable(items, blocking=True).subscribe(probe)
    for count in (1, 2, 3):
        goes_on.release()
        probe.wait_for_items(count)
        assert len(probe.items) == count
    probe.wait_for_end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_subscriber_that_is_interrupted_leaves_no_thread(log: Log) -> None:
    class Interrupted(Probe):
        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            raise KeyboardInterrupt

    made = Recording(range(3))
    with pytest.raises(KeyboardInterrupt):
        from_iterable(lambda: made, blocking=True).subscribe(Interrupted(1))
    wait_until_ended(prefix="rxwow-source")
    assert made.pulled_by == []


def test_dispose_from_another_thread_stops_an_endless_source() -> None:
    """F51: within one item, though `request` never returns by itself."""
    probe = Probe()
    came = threading.Semaphore(0)
    probe.on_item = lambda _: came.release()
    handle = Flowable.from_iterable(itertools.count()).subscribe(probe)
    emitting = threading.Thread(target=probe.request, args=(UNBOUNDED,))
    emitting.start()
    for _ in range(10):
        assert came.acquire(timeout=PATIENCE_S)
    handle.dispose()
    emitting.join(PATIENCE_S)
    assert not emitting.is_alive()


@pytest.mark.parametrize("length", [0, 2])
def test_blocking_source_is_opened_on_its_own_thread(length: int) -> None:
    """A database cursor may be bound to the thread that makes it; also one whose length is known."""
    opened_by: list[int] = []

    class Sized(list[int]):
        def __iter__(self) -> Iterator[int]:
            opened_by.append(threading.get_ident())
            return super().__iter__()

    probe = Probe(UNBOUNDED)
    from_iterable(Sized(range(length)), blocking=True).subscribe(probe)
    probe.wait_for_end()
    assert len(opened_by) == 1
    assert opened_by != [threading.get_ident()]


def test_construction_is_inert() -> None:
    def factory() -> list[int]:
        raise AssertionError("opened")

    threads = set(threading.enumerate())
    from_iterable(factory)
    from_iterable(factory, blocking=True)
    assert set(threading.enumerate()) <= threads
