"""Which group an item belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, cast

from rxwow.errors import InvalidKeyError
from rxwow.platform import Lock
from rxwow.streams.containment import is_contained
from rxwow.streams.grouped import Group

__all__ = ["GroupTable"]

_NEW: Final = object()


class GroupTable:
    """The groups by their keys, those that are closed among them, so that they don't come again.

    `groups`, key to group or None for a closed one, belongs to the thread that signals; `clear` swaps it for an empty
    one, and what that thread still has of it goes with its batch. `Groups.lock` guards `_closed`, the closed groups
    that `groups` still has.

    Args:
        lock: `Groups.lock`.
        key_mapper: gives the key of an item.
        element_mapper: gives what the group emits for an item; the item itself if None.
        is_over: whether nobody will have a new group.
    """

    __slots__ = ("_closed", "_element_mapper", "_is_over", "_key_mapper", "_lock", "groups")

    def __init__(
        self,
        lock: Lock,
        key_mapper: Callable[[Any], Any],
        element_mapper: Callable[[Any], Any] | None,
        is_over: Callable[[], bool],
    ) -> None:
        self._lock = lock
        self._key_mapper = key_mapper
        self._element_mapper = element_mapper
        self._is_over = is_over
        self.groups: dict[Hashable, Group | None] = {}
        self._closed: list[Group] = []

    def sort(self, items: Sequence[Any]) -> tuple[dict[Group, list[Any]], BaseException | None]:
        """Return what comes for each group, in the order of the first of each, and what a mapper has raised.

        What comes for closed groups is left out.
        """
        arrivals: defaultdict[Group | None, list[Any]] = defaultdict(list)
        failure: BaseException | None = None
        try:
            self._sort(items, arrivals)
        except BaseException as error:  # noqa: BLE001 - what came before it comes first; the caller raises an exit.
            failure = error
        arrivals.pop(None, None)
        return cast("dict[Group, list[Any]]", arrivals), failure

    def close(self, group: Group) -> None:
        """Keep no more than the key of a group, from the next items on; called with the lock held."""
        self._closed.append(group)

    def clear(self) -> None:
        """Let go of all groups and keys."""
        self._take_closed()
        self.groups = {}

    def _sort(self, items: Sequence[Any], arrivals: defaultdict[Group | None, list[Any]]) -> None:
        groups = self.groups
        key_mapper, element_mapper = self._key_mapper, self._element_mapper
        for group in self._take_closed():
            groups[group.key] = None
        for item in items:
            key = key_mapper(item)
            try:
                found = groups.get(key, _NEW)
                if found is _NEW:
                    found = self._open(groups, key)
            except BaseException as error:
                if not is_contained(error):
                    raise
                raise InvalidKeyError(item, error) from error
            # Before the element, since a group whose first element fails is emitted all the same.
            elements = arrivals[cast("Group | None", found)]
            elements.append(item if element_mapper is None else element_mapper(item))

    def _open(self, groups: dict[Hashable, Group | None], key: Any) -> Group | None:
        if self._is_over():
            # So its key needn't be remembered.
            return None
        group = groups[key] = Group(key)
        return group

    def _take_closed(self) -> Sequence[Group]:
        # A stale look leaves a closed group for the next batch; what comes for it meanwhile is refused under the lock.
        if not self._closed:
            return ()
        with self._lock:
            closed, self._closed = self._closed, []
        return closed
