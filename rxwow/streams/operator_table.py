"""The table of operators: what becomes of each operator of RxPY in the pipe of a Flowable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rxwow.streams.chain import ChainTraits
from rxwow.streams.operator_traits import TRAITS, Takes

__all__ = ["OPERATORS", "Kind", "OperatorEntry"]


class Kind(StrEnum):
    """What becomes of an operator in the pipe of a Flowable."""

    LIFTED = "lifted"
    """It works as in RxPY, and demand passes around it."""

    REPLACED = "lifted; rxwow has its own"
    """It is lifted too, but rxwow has one of the same name, which asks each of its sources for what it needs."""

    OWN = "rxwow's own"
    """It is taken for rxwow's operator of the same name, as it couldn't work otherwise."""

    NO_FLOWABLE = "as in RxPY"
    """It returns no Observable, or takes none but a connectable one: demand ends there, and it takes everything."""


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """One line of the table.

    Args:
        name: in `reactivex.operators`.
        kind: what becomes of it.
        made_of: the names in `TRAITS` of the operators that it is made of, from the top.
        note: what a user should know; empty if there is nothing.
        cost: time per item, as a multiple of the same in plain RxPY, rounded to a half; None if it wasn't measured.
    """

    name: str
    kind: Kind
    made_of: tuple[str, ...]
    note: str
    cost: float | None

    @property
    def traits(self) -> ChainTraits:
        """What the operators that it is made of add up to."""
        return ChainTraits.of([(name, TRAITS[name], None, None) for name in self.made_of])

    @property
    def ends_early(self) -> bool:
        """Whether it may end, and cancel its source, before that ends."""
        return any(TRAITS[name].ends_early for name in self.made_of)

    @property
    def holds(self) -> int | None:
        """How many items may wait beyond the demand before it fails; 0 if none ever does, None if there is no bound."""
        traits = [TRAITS[name] for name in self.made_of]
        if any(each.capacity is None for each in traits):
            return None
        emits_ahead = any(each.joins or each.takes is not Takes.AS_NEEDED for each in traits)
        return self.traits.capacity if emits_ahead else 0


_AT_THE_END: Final = "it emits at the end"
_CLOCK: Final = "its clock runs while nothing is asked"
_OTHERS: Final = "the others send all they have, asked or not"
_WINDOW: Final = "what a window emits before it is subscribed to is lost, and so is all that waits for demand"
_INNER_STALL: Final = (
    "are fed only while more of them are asked for: flatten them in the same pipe, or ask for everything"
)
_FIRST_ONLY: Final = "with a source that can be asked, inner ones that send later are cut off at once"

_ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "concat_map": ("map", "merge"),
    "do": ("do_action",),
    "element_at": ("element_at_or_default",),
    "find": ("find_value",),
    "find_index": ("find_value",),
    "first_or_default": ("filter", "first_or_default_async"),
    "pluck": ("map",),
    "pluck_attr": ("map",),
    "single_or_default": ("filter", "single_or_default_async"),
    "starmap": ("map",),
    "starmap_indexed": ("map",),
    "switch_map": ("map", "switch_latest"),
    "switch_map_indexed": ("map_indexed", "switch_latest"),
    "tap": ("do_action",),
    "throttle_with_timeout": ("debounce",),
    "to_list": ("to_iterable",),
    "zip_with_list": ("zip_with_iterable",),
}
"""The names in `TRAITS` for a public name that isn't there; for one with a predicate, made with one."""

_REPLACED: Final[dict[str, str]] = {
    "concat": "the sources after it send all they have in their turn, asked or not",
    "concat_map": "an inner source sends all it has at once",
    "flat_map": "an inner source sends all it has at once, and any number of them send side by side",
    "group_by": f"groups {_INNER_STALL}",
    "merge": _OTHERS,
    "observe_on": "asks for one item for each that is wanted, so a request is a round trip between two threads",
    "retry": "subscribes again at once, and to no end if it isn't told how often",
    "subscribe_on": "only the subscribing is done there: a source that emits on the thread that asks still does",
    "timeout": f"{_CLOCK}: who asks late is timed out",
    "zip": _OTHERS,
}
"""The operators that rxwow has too, with the reason to use that one."""

_NO_FLOWABLE: Final[dict[str, str]] = {
    "multicast": "returns a ConnectableObservable; with a mapper, an Observable, which takes one item at a time",
    "partition": "returns two Observables, which share one subscription that asks for everything",
    "partition_indexed": "returns two Observables, which share one subscription that asks for everything",
    "publish": "returns a ConnectableObservable; with a mapper, an Observable, which takes one item at a time",
    "publish_value": "returns a ConnectableObservable; with a mapper, an Observable, which takes one item at a time",
    "ref_count": "takes a ConnectableObservable; `rxwow.operators.share` keeps the demand",
    "replay": "returns a ConnectableObservable; with a mapper, an Observable, which takes one item at a time",
    "to_future": "returns a Future; asks for everything",
}

_NOTES: Final[dict[str, str]] = {
    "amb": f"the other may win while nothing is asked; if it does, {_OTHERS}",
    "catch": "the source that takes over sends all it has, asked or not",
    "combine_latest": f"{_OTHERS}; it gives one item at a time the time to meet theirs",
    "concat_all": "each sends all it has at once; `rxwow.operators.concat_map` asks them",
    "debounce": "drops what is followed too soon; of a source that can be asked it keeps the last item",
    "delay": "an error isn't delayed, and overtakes the items in between, as in RxPY; a delay begins when its item is "
    "asked for, so they add up where one is asked for at a time",
    "delay_with_mapper": "as delay; the order depends on how many are asked for at a time",
    "distinct": "keeps each key that it has seen, as in RxPY",
    "exclusive": _FIRST_ONLY.replace("inner ones that send later are cut off", "what comes while one sends is dropped"),
    "expand": "without end, it asks for nothing more while what it makes of an item waits",
    "flat_map_indexed": "an inner source sends all it has at once; `rxwow.operators.flat_map` asks them",
    "flat_map_latest": _FIRST_ONLY,
    "fork_join": _AT_THE_END,
    "group_by_until": f"groups {_INNER_STALL}",
    "group_join": f"{_OTHERS}; {_WINDOW}",
    "join": f"{_OTHERS}, and all pairs that are in time are emitted",
    "merge_all": "each sends all it has at once; `rxwow.operators.flat_map` asks them",
    "on_error_resume_next": "the source that takes over sends all it has, asked or not",
    "sample": "of a source that can be asked it sees the last item",
    "share": "who subscribes shares one source, which is asked for what all of them want",
    "sequence_equal": "what the second sends ahead is kept, however much, as in RxPY",
    "skip_last_with_time": "a source that can be asked is taken whole, within no time",
    "skip_until": "what comes before the other sends is asked for and dropped",
    "skip_until_with_time": f"{_CLOCK}, and what comes before its time is asked for and dropped",
    "skip_with_time": f"{_CLOCK}, and what comes before its time is asked for and dropped",
    "switch_latest": _FIRST_ONLY,
    "switch_map": _FIRST_ONLY,
    "switch_map_indexed": _FIRST_ONLY,
    "take_last": "keeps its items until they are asked for",
    "take_last_with_time": "keeps its items until they are asked for",
    "take_until": "what wasn't asked for by then isn't taken",
    "take_until_with_time": f"{_CLOCK}; what wasn't asked for by then isn't taken",
    "take_with_time": f"{_CLOCK}; what wasn't asked for by then isn't taken",
    "throttle_first": "of a source that can be asked it keeps the first item",
    "throttle_with_mapper": "drops what is followed too soon; of a source that can be asked it keeps the last item",
    "throttle_with_timeout": "drops what is followed too soon; of a source that can be asked it keeps the last item",
    "time_interval": "measures the time until the item was asked for, too",
    "timeout_with_mapper": f"{_CLOCK}: who asks late is timed out",
    "timestamp": "the time at which the item was taken",
    "window": _WINDOW,
    "window_toggle": _WINDOW,
    "window_when": _WINDOW,
    "window_with_count": f"windows {_INNER_STALL}",
    "window_with_time": _WINDOW,
    "window_with_time_or_count": _WINDOW,
    "with_latest_from": _OTHERS,
    "zip_latest": _OTHERS,
}
"""Of the other operators, those of which a user should know something."""

_COSTS: Final[dict[str, float]] = {
    "as_observable": 2.0, "buffer_with_count": 1.5, "combine_latest": 12.5, "concat": 2.5, "concat_map": 2.0,
    "count": 1.0, "default_if_empty": 2.0, "distinct_until_changed": 1.5, "do_action": 3.0, "filter": 2.5,
    "filter_indexed": 1.5, "finally_action": 2.0, "flat_map": 1.0, "group_by": 1.5, "ignore_elements": 0.5,
    "last": 0.5, "map": 1.0, "map_indexed": 1.5, "materialize": 1.5, "merge": 22.5, "pairwise": 1.5, "reduce": 1.0,
    "scan": 1.5, "skip": 1.5, "skip_last": 1.5, "skip_while": 2.0, "slice": 3.0, "starmap": 1.5, "start_with": 2.5,
    "sum": 1.0, "switch_map": 3.0, "take": 6.5, "take_while": 1.5, "timestamp": 1.0, "to_list": 0.5,
    "window_with_count": 1.0, "with_latest_from": 1.5, "zip_with_iterable": 4.0,
}  # fmt: skip
"""Time per item against plain RxPY, to a half; see docs/operators.md for how it was measured."""

_INTERNAL: Final = {"find_value", "first_or_default_async"}
"""Names of functions of RxPY that are no public operators."""


def _entry(name: str) -> OperatorEntry:
    if name in _NO_FLOWABLE:
        return OperatorEntry(name, Kind.NO_FLOWABLE, (), _NO_FLOWABLE[name], None)
    kind = Kind.OWN if name == "share" else Kind.REPLACED if name in _REPLACED else Kind.LIFTED
    note = _REPLACED.get(name) or _NOTES.get(name, "")
    return OperatorEntry(name, kind, _ALIASES.get(name, (name,)), note, _COSTS.get(name))


OPERATORS: Final[dict[str, OperatorEntry]] = {
    name: _entry(name) for name in sorted({*TRAITS, *_ALIASES, *_NO_FLOWABLE} - _INTERNAL)
}
"""Each operator of RxPY, by its name in `reactivex.operators`."""
