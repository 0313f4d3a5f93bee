"""What is known of each operator of RxPY: how much it takes to give what is asked for, and what may wait behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["EMITTED", "JOINED", "TRAITS", "UNKNOWN", "OperatorTraits", "Takes"]

EMITTED: Final = 256
"""How many items may wait behind an operator that emits by the clock."""

JOINED: Final = 16_384
"""How many may wait behind one that subscribes to plain Observables, which send all they have at once."""


class Takes(StrEnum):
    """How much of its source an operator is given."""

    AS_NEEDED = "as needed"
    """As many items as are wanted of it: it emits at most one for each. If it emits fewer, it gets more in its turn."""

    SINGLY = "one by one"
    """One item at a time while more is wanted: it may emit any number for each."""

    ALL = "all"
    """Everything, from the first request on: it emits at the end, or when the time has come."""


@dataclass(frozen=True, slots=True)
class OperatorTraits:
    """What lift has to know of an operator.

    Args:
        takes: how much of its source it is given.
        ends_early: it may end before its source does, so nothing is taken ahead in batches.
        joins: it subscribes to other sources, which may emit through the trampoline of the current thread.
        windows: it emits Observables that send, from then on, to those who have subscribed, so each is handed over at
            once.
        delays: it emits each item, but later and perhaps on another thread; those in between are counted as asked for.
        capacity: how many items may wait behind it beyond the demand; None for as many as it keeps itself.
    """

    takes: Takes = Takes.AS_NEEDED
    ends_early: bool = False
    joins: bool = False
    windows: bool = False
    delays: bool = False
    capacity: int | None = EMITTED


UNKNOWN: Final = OperatorTraits(Takes.SINGLY, ends_early=True, joins=True, capacity=JOINED)
"""The traits of an operator that is not RxPY's."""

_ONE: Final = OperatorTraits()
_ALL: Final = OperatorTraits(Takes.ALL, capacity=1)
_KEEPS: Final = OperatorTraits(Takes.ALL, capacity=None)
_ENDS: Final = OperatorTraits(ends_early=True)
_LATER: Final = OperatorTraits(delays=True)
_AGAIN: Final = OperatorTraits(joins=True, capacity=JOINED)
_ENDED_BY_ANOTHER: Final = OperatorTraits(ends_early=True, joins=True, capacity=JOINED)
_PAIRS: Final = OperatorTraits(ends_early=True, joins=True, delays=True, capacity=JOINED)
_FLATTENS: Final = OperatorTraits(Takes.SINGLY, joins=True, capacity=JOINED)
_TIMED: Final = OperatorTraits(Takes.ALL, joins=True)
_JOINS_ALL: Final = OperatorTraits(Takes.ALL, joins=True, capacity=JOINED)
_JOINS_ALL_UNTIL: Final = OperatorTraits(Takes.ALL, ends_early=True, joins=True, capacity=JOINED)
_WINDOWS: Final = OperatorTraits(joins=True, windows=True, capacity=JOINED)
_TIMED_WINDOWS: Final = OperatorTraits(Takes.ALL, joins=True, windows=True)
_JOINED_WINDOWS: Final = OperatorTraits(Takes.ALL, joins=True, windows=True, capacity=JOINED)
_JOINED_WINDOWS_UNTIL: Final = OperatorTraits(Takes.ALL, ends_early=True, joins=True, windows=True, capacity=JOINED)

TRAITS: Final[dict[str, OperatorTraits]] = {
    **dict.fromkeys(
        (
            "as_observable", "default_if_empty", "distinct", "distinct_until_changed", "do_action", "filter",
            "filter_indexed", "finally_action", "map", "map_indexed", "materialize", "pairwise", "scan", "skip",
            "share", "skip_last", "skip_while", "skip_while_indexed", "time_interval", "timestamp", "buffer_with_count",
        ),
        _ONE,
    ),
    **dict.fromkeys(
        (
            "average", "count", "ignore_elements", "last", "last_or_default", "max", "max_by", "min", "min_by",
            "reduce", "sum", "to_dict", "to_iterable", "to_marbles", "to_set", "take_last_buffer",
        ),
        _ALL,
    ),
    **dict.fromkeys(("take_last", "take_last_with_time"), _KEEPS),
    **dict.fromkeys(
        (
            "all", "contains", "dematerialize", "element_at_or_default", "find_value", "first",
            "first_or_default_async", "is_empty", "single", "single_or_default_async", "slice", "some", "take",
            "take_while", "take_while_indexed",
        ),
        _ENDS,
    ),
    **dict.fromkeys(("delay", "delay_with_mapper", "observe_on"), _LATER),
    **dict.fromkeys(
        (
            "catch", "concat", "delay_subscription", "do_while", "on_error_resume_next", "repeat", "retry",
            "skip_until", "skip_until_with_time", "skip_with_time", "start_with", "subscribe_on", "while_do",
            "with_latest_from",
        ),
        _AGAIN,
    ),
    **dict.fromkeys(("group_by", "group_by_until", "window_with_count"), _WINDOWS),
    **dict.fromkeys(
        (
            "amb", "sequence_equal", "take_until", "take_until_with_time", "take_with_time", "timeout",
            "timeout_with_mapper",
        ),
        _ENDED_BY_ANOTHER,
    ),
    **dict.fromkeys(("zip", "zip_with_iterable"), _PAIRS),
    **dict.fromkeys(
        (
            "combine_latest", "concat_all", "exclusive", "expand", "flat_map", "flat_map_indexed",
            "flat_map_latest", "merge", "merge_all", "switch_latest", "skip_last_with_time",
        ),
        _FLATTENS,
    ),
    "zip_latest": OperatorTraits(Takes.SINGLY, ends_early=True, joins=True, capacity=JOINED),
    **dict.fromkeys(
        (
            "buffer_with_time", "buffer_with_time_or_count", "debounce", "sample", "throttle_first",
            "throttle_with_mapper",
        ),
        _TIMED,
    ),
    "buffer_when": _JOINS_ALL,
    **dict.fromkeys(("buffer", "buffer_toggle", "fork_join", "join"), _JOINS_ALL_UNTIL),
    **dict.fromkeys(("window_with_time", "window_with_time_or_count"), _TIMED_WINDOWS),
    **dict.fromkeys(("group_join", "window_when"), _JOINED_WINDOWS),
    **dict.fromkeys(("window", "window_toggle"), _JOINED_WINDOWS_UNTIL),
}  # fmt: skip
"""By the name of the function of RxPY that does the work, which several public names may share."""
