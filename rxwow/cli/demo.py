"""`rxwow demo`: a year of flights, in order for each aircraft, compared with a plain loop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

from rxwow import Flowable, KeyedExecutor, keyed_dispatch
from rxwow.cli.aircraft import Tracker
from rxwow.cli.arguments import DemoOptions
from rxwow.cli.flights import Leg, find_flights, read_flights
from rxwow.cli.handling import CheckedHandler
from rxwow.cli.intake import Intake
from rxwow.cli.order import OrderChecker

__all__ = ["run_demo"]

Legs = list[tuple[int, Leg]]


def run_demo(options: DemoOptions) -> int:
    """Dispatch the flights, handle them once more in a plain loop, and compare.

    Returns:
        0 if both found the same for every aircraft and the order was kept, else 1.

    Raises:
        BadInputError: the flights aren't there.
    """
    path = find_flights()
    print(
        "rxwow demo: the flights that left New York in 2013; the handler follows each aircraft from airport to airport"
    )
    began = time.perf_counter()
    legs = read_flights(path)
    _tell("read", f"{len(legs):,} flights in {time.perf_counter() - began:.1f} s, put in the order of departure")
    dispatched = _dispatch(legs, options.workers)
    plain, seconds = _plain_loop(legs)
    _tell("plain loop", f"the same handler without dispatch: {_speed(len(legs), seconds)}")
    different = sum(
        dispatched.tracker.aircraft.get(tailnum) != plain.aircraft.get(tailnum)
        for tailnum in dispatched.tracker.aircraft.keys() | plain.aircraft.keys()
    )
    _tell_outcome(dispatched, different)
    return 0 if dispatched.kept_order and not different else 1


@dataclass(frozen=True, slots=True)
class _Dispatched:
    tracker: Tracker
    intake: Intake[Leg]
    kept_order: bool


def _dispatch(legs: Legs, workers: int | None) -> _Dispatched:
    tracker = Tracker()
    checker = OrderChecker()
    intake = Intake(iter(legs), attrgetter("tailnum"), checker)
    handler = CheckedHandler(tracker.record, checker, lambda result: result)
    with KeyedExecutor(workers, name="rxwow-demo") as executor:
        threads = len(executor.statistics().workers)
        began = time.perf_counter()
        Flowable.from_iterable(intake.messages).pipe(
            keyed_dispatch(attrgetter("key"), handler, executor=executor)
        ).run()
        seconds = time.perf_counter() - began
    _tell("dispatched", f"by tail number to {threads} workers: {_speed(len(legs), seconds)}")
    _tell("in flight", f"{intake.most_in_flight:,} at most, of {executor.max_in_flight:,} allowed")
    _tell("order kept", checker.verdict())
    return _Dispatched(tracker, intake, checker.violations == 0 and checker.succeeded == len(legs))


def _plain_loop(legs: Legs) -> tuple[Tracker, float]:
    tracker = Tracker()
    record = tracker.record
    began = time.perf_counter()
    for _, leg in legs:
        record(leg)
    return tracker, time.perf_counter() - began


def _tell_outcome(dispatched: _Dispatched, different: int) -> None:
    totals = dispatched.tracker.totals()
    verdict = f"NO, {different:,} aircraft differ" if different else f"yes, for each of {totals.aircraft:,} aircraft"
    _tell("same result", f"{verdict}, down to a checksum of the whole route")
    _tell(
        "flown", f"{totals.flights:,} legs; {totals.cancelled:,} more were cancelled, and leave an aircraft where it is"
    )
    _tell(
        "unconnected",
        f"{totals.unconnected:,} legs began elsewhere than the one before ended (no flights to New York here)",
    )
    _tell("moved", f"{totals.moved:,} legs began at another airport of New York than the one before")
    counts = {history.key: history.received for history in dispatched.intake.hottest(dispatched.intake.keys)}
    nameless = counts.pop(None, 0)
    hottest, most = next(iter(counts.items()))
    _tell(
        "skew",
        f"{hottest} has {most:,} flights, half of the aircraft {median(counts.values()):,.0f} or fewer; {nameless:,} "
        "without a tail number are one key",
    )


def _speed(count: int, seconds: float) -> str:
    return f"{seconds:.2f} s, {count / seconds:,.0f} flights a second"


def _tell(name: str, text: str) -> None:
    print(f"  {name:<12} {text}", flush=True)
