"""Operators of rxwow's own, which pass demand on themselves; those of `reactivex.operators` are lifted as they are.

Those that have a namesake in RxPY differ from it in what they take of their sources, and bound what they hold. The
methods of a `Flowable` of the same names are these.

>>> from rxwow import Flowable
>>> from rxwow import operators as rxwow_ops
>>> words = Flowable.from_iterable(["ab", "c"])
>>> letters = words.pipe(rxwow_ops.concat_map(lambda word: Flowable.from_iterable(word)), rxwow_ops.limit_rate(2))
>>> letters.to_list().run()
['a', 'b', 'c']
"""

from __future__ import annotations

from rxwow.streams.backpressure import (
    on_backpressure_buffer,
    on_backpressure_drop,
    on_backpressure_error,
    on_backpressure_latest,
)
from rxwow.streams.boundary import limit_rate, observe_on
from rxwow.streams.concat_mapping import concat_map
from rxwow.streams.concatenation import concat
from rxwow.streams.flat_mapping import flat_map
from rxwow.streams.grouping import group_by
from rxwow.streams.lift import lift
from rxwow.streams.map_async import map_async
from rxwow.streams.merging import merge
from rxwow.streams.retrying import retry
from rxwow.streams.sharing import share
from rxwow.streams.subscribing import subscribe_on
from rxwow.streams.timing import timeout
from rxwow.streams.zipping import zip  # noqa: A004 - RxPY's name for it.

__all__ = [
    "concat",
    "concat_map",
    "flat_map",
    "group_by",
    "lift",
    "limit_rate",
    "map_async",
    "merge",
    "observe_on",
    "on_backpressure_buffer",
    "on_backpressure_drop",
    "on_backpressure_error",
    "on_backpressure_latest",
    "retry",
    "share",
    "subscribe_on",
    "timeout",
    "zip",
]
