import threading

import pytest
from reactivex.scheduler import NewThreadScheduler

from rxwow.errors import InvalidArgumentError
from rxwow.streams.flowable import Flowable
from tests.streams.probe import PATIENCE_S, Probe
from tests.streams.sources import SourceError


def test_empty_completes_without_a_request() -> None:
    probe = Probe()
    Flowable.empty().subscribe(probe)
    assert (probe.items, probe.errors, probe.completions) == ([], [], 1)
    probe.check()


def test_throw_fails_without_a_request() -> None:
    error = SourceError()
    probe = Probe()
    Flowable.throw(error).subscribe(probe)
    assert (probe.items, probe.errors, probe.completions) == ([], [error], 0)
    probe.check()


def test_never_says_nothing() -> None:
    probe = Probe(5)
    Flowable.never().subscribe(probe)
    probe.cancel()
    assert (probe.items, probe.ended) == ([], False)


def test_never_refuses_an_invalid_request() -> None:
    probe = Probe()
    Flowable.never().subscribe(probe)
    probe.subscription.request(0)
    assert len(probe.errors) == 1


def test_cancel_inside_on_subscribe_comes_before_the_end() -> None:
    class Cancelling(Probe):
        def on_subscribe(self, subscription: object) -> None:
            super().on_subscribe(subscription)  # type: ignore[arg-type]
            self.cancel()

    for flowable in (Flowable.empty(), Flowable.throw(SourceError())):
        probe = Cancelling()
        flowable.subscribe(probe)
        assert not probe.ended


def test_throw_takes_an_exception_only() -> None:
    with pytest.raises(InvalidArgumentError, match="error must be an Exception, not 'no'"):
        Flowable.throw("no")  # type: ignore[arg-type]


def test_end_comes_on_the_subscribe_time_scheduler() -> None:
    ended = threading.Event()
    threads: list[int] = []

    def end() -> None:
        threads.append(threading.get_ident())
        ended.set()

    Flowable.empty().subscribe(on_completed=end, scheduler=NewThreadScheduler())
    assert ended.wait(PATIENCE_S)
    assert threads != [threading.get_ident()]
