"""The demo's handler: follows each aircraft from airport to airport."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from rxwow.cli.flights import Leg

__all__ = ["Aircraft", "Totals", "Tracker"]


@dataclass(slots=True)
class Aircraft:
    """Where an aircraft was seen.

    Attributes:
        flights: legs flown.
        cancelled: legs that were not.
        left: the airport that it last left.
        landed: the airport that it last flew to.
        unconnected: legs that began elsewhere than the leg before had ended.
        moved: legs that began at another airport than the leg before had begun.
        route: a checksum over all airports in their order; two routes in another order have another one.
    """

    flights: int = 0
    cancelled: int = 0
    left: str = ""
    landed: str = ""
    unconnected: int = 0
    moved: int = 0
    route: int = 0

    def follow(self, leg: Leg) -> None:
        """Take the next leg; a cancelled one leaves the aircraft where it is."""
        if not leg.flown:
            self.cancelled += 1
            return
        if self.flights:
            self.unconnected += self.landed != leg.origin
            self.moved += self.left != leg.origin
        self.flights += 1
        self.left, self.landed = leg.origin, leg.dest
        self.route = zlib.crc32(f"{leg.origin}{leg.dest}".encode(), self.route)


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all aircraft; see `Aircraft`."""

    aircraft: int
    flights: int
    cancelled: int
    unconnected: int
    moved: int


class Tracker:
    """All aircraft by tail number; flights without one are counted together, under None, and all were cancelled.

    It takes no lock: an aircraft is changed by one thread at a time, which is what a keyed dispatch promises, and a
    dict takes care of itself, with the GIL and without.
    """

    def __init__(self) -> None:
        self.aircraft: dict[str | None, Aircraft] = {}

    def record(self, leg: Leg) -> None:
        """Handle one flight."""
        aircraft = self.aircraft.get(leg.tailnum)
        if aircraft is None:
            aircraft = self.aircraft[leg.tailnum] = Aircraft()
        aircraft.follow(leg)

    def totals(self) -> Totals:
        """Sum up."""
        every = self.aircraft.values()
        return Totals(
            aircraft=len(self.aircraft.keys() - {None}),
            flights=sum(aircraft.flights for aircraft in every),
            cancelled=sum(aircraft.cancelled for aircraft in every),
            unconnected=sum(aircraft.unconnected for aircraft in every),
            moved=sum(aircraft.moved for aircraft in every),
        )
