"""Demand for RxPY: `Flowable`, its sources and its sinks.

>>> from rxwow.streams import Flowable
>>> Flowable.from_iterable(["a", "b"]).run()
'b'
"""

from __future__ import annotations

from rxwow.streams.flowable import Flowable
from rxwow.streams.overflow import OverflowStrategy
from rxwow.streams.protocols import UNBOUNDED, BatchSubscriber, Publisher, Subscriber, Subscription

__all__ = [
    "UNBOUNDED",
    "BatchSubscriber",
    "Flowable",
    "OverflowStrategy",
    "Publisher",
    "Subscriber",
    "Subscription",
]
