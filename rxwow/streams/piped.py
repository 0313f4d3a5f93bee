"""The types of `pipe`: a Flowable stays one, and keeps the type of its items, through up to twelve operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable

if TYPE_CHECKING:
    from rxwow.streams.flowable import Flowable

__all__ = ["Piped"]

_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")
_E = TypeVar("_E")
_F = TypeVar("_F")
_G = TypeVar("_G")
_H = TypeVar("_H")
_I = TypeVar("_I")
_J = TypeVar("_J")
_K = TypeVar("_K")
_R = TypeVar("_R")
_T_co = TypeVar("_T_co", covariant=True)


class Piped(Observable[_T_co]):
    """An Observable whose `pipe` lifts what knows no demand.

    Each number of operators has two forms: the last operator returns an Observable, or something else.
    """

    @overload
    def pipe(self) -> Flowable[_T_co]: ...

    @overload
    def pipe(self, op1: Callable[[Flowable[_T_co]], Observable[_R]], /) -> Flowable[_R]: ...

    @overload
    def pipe(self, op1: Callable[[Flowable[_T_co]], _R], /) -> _R: ...

    @overload
    def pipe(self, op1: Callable[[Flowable[_T_co]], _A], op2: Callable[[_A], Observable[_R]], /) -> Flowable[_R]: ...

    @overload
    def pipe(self, op1: Callable[[Flowable[_T_co]], _A], op2: Callable[[_A], _R], /) -> _R: ...

    @overload
    def pipe(
        self, op1: Callable[[Flowable[_T_co]], _A], op2: Callable[[_A], _B], op3: Callable[[_B], Observable[_R]], /
    ) -> Flowable[_R]: ...

    @overload
    def pipe(self, op1: Callable[[Flowable[_T_co]], _A], op2: Callable[[_A], _B], op3: Callable[[_B], _R], /) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _I],
        op10: Callable[[_I], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _I],
        op10: Callable[[_I], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _I],
        op10: Callable[[_I], _J],
        op11: Callable[[_J], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _I],
        op10: Callable[[_I], _J],
        op11: Callable[[_J], _R],
        /,
    ) -> _R: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _I],
        op10: Callable[[_I], _J],
        op11: Callable[[_J], _K],
        op12: Callable[[_K], Observable[_R]],
        /,
    ) -> Flowable[_R]: ...

    @overload
    def pipe(
        self,
        op1: Callable[[Flowable[_T_co]], _A],
        op2: Callable[[_A], _B],
        op3: Callable[[_B], _C],
        op4: Callable[[_C], _D],
        op5: Callable[[_D], _E],
        op6: Callable[[_E], _F],
        op7: Callable[[_F], _G],
        op8: Callable[[_G], _H],
        op9: Callable[[_H], _I],
        op10: Callable[[_I], _J],
        op11: Callable[[_J], _K],
        op12: Callable[[_K], _R],
        /,
    ) -> _R: ...

    def pipe(self, *operators: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Apply operators from left to right.

        An operator that returns a plain Observable, as all of RxPY's do, is lifted: it passes demand on, see
        `rxwow.streams.lift`. One that returns a Flowable, or no Observable at all, gives what it returns.

        Args:
            operators: functions from an Observable, or from a Flowable, to anything.

        Returns:
            What the last operator returned, as a Flowable if that was an Observable; this Flowable if there is none.

        >>> from reactivex import operators as ops
        >>> from rxwow.streams import Flowable
        >>> Flowable.from_iterable(range(10)).pipe(ops.filter(lambda number: number % 2), ops.sum()).run()
        25
        """
        from rxwow.streams.lift import pipe

        return pipe(self, *operators)
