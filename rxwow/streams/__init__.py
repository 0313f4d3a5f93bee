"""Demand for RxPY: `Flowable`, its sources and its sinks.

>>> from rxwow.streams import Flowable
>>> Flowable.from_iterable(["a", "b"]).run()
'b'
"""

from __future__ import annotations

from rxwow.streams.flowable import Flowable
from rxwow.streams.inlet import Inlet
from rxwow.streams.lift import lift
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Publisher, Subscriber, Subscription
from rxwow.streams.publishers import from_publisher
from rxwow.streams.publishing import to_publisher

__all__ = [
    "UNBOUNDED",
    "BatchSubscriber",
    "Flowable",
    "Inlet",
    "OverflowStrategy",
    "Publisher",
    "Subscriber",
    "Subscription",
    "from_publisher",
    "lift",
    "to_publisher",
]
