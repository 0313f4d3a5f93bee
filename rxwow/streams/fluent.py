"""Those fluent methods of RxPY that don't go through `pipe`, made to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable, typing
from reactivex import operators as ops

from rxwow.streams.piped import Piped

if TYPE_CHECKING:
    from rxwow.streams.flowable import Flowable

__all__ = ["Fluent"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Fluent(Piped[_T_co]):
    """An Observable whose fluent methods keep its demand."""

    def __add__(self: Fluent[_T], other: Observable[_T]) -> Flowable[_T]:
        return self.pipe(ops.concat(other))

    def __iadd__(self: Fluent[_T], other: Observable[_T]) -> Flowable[_T]:  # type: ignore[misc]
        # mypy can't see that it accepts just what `__add__` does, as both are generic in their self.
        return self.pipe(ops.concat(other))

    def dematerialize(self) -> Flowable[Any]:
        return _untyped(self).pipe(ops.dematerialize())

    def exclusive(self) -> Flowable[Any]:
        return _untyped(self).pipe(ops.exclusive())

    def pluck(self, key: Any) -> Flowable[Any]:
        return _untyped(self).pipe(ops.pluck(key))

    def sum(self, key_mapper: typing.Mapper[_T_co, float] | None = None) -> Flowable[float]:
        return _untyped(self).pipe(ops.sum() if key_mapper is None else ops.sum(key_mapper))

    def switch_latest(self) -> Flowable[Any]:
        return _untyped(self).pipe(ops.switch_latest())


def _untyped(flowable: Piped[Any]) -> Piped[Any]:
    # The type of a method can't ask for items of a certain type, as RxPY's operators do.
    return flowable
