"""lift: any operator of RxPY, with demand.

RxPY's operators are functions from an Observable to an Observable, so demand can't go through them; it goes around. A
lifted operator runs as it always did, between a `Tap` at its top, which lets in what the `Chain` asks of the source,
and the chain at its bottom, which asks for as much as its subscriber wants of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar, cast

from reactivex import ConnectableObservable, Observable, abc
from typing_extensions import TypeIs

from rxwow.errors import InvalidArgumentError
from rxwow.platform import current_platform
from rxwow.streams.chain import Chain, ChainTraits
from rxwow.streams.flowable import Flowable
from rxwow.streams.operator_traits import TRAITS, UNKNOWN, OperatorTraits
from rxwow.streams.overflow import OverflowStrategy, OverflowStrategyName, overflow_strategy
from rxwow.streams.protocols import Subscriber, Subscription
from rxwow.streams.recognition import Operator, composed, operator_name
from rxwow.streams.sharing import share
from rxwow.streams.tap import Tap, counted

__all__ = ["Lifted", "lift", "pipe"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Stage:
    """One operator of a chain; `name` is for errors, strategy and capacity are what was chosen for it."""

    operator: Operator
    name: str
    traits: OperatorTraits
    strategy: OverflowStrategy | None = None
    capacity: int | None = None


def lift(
    operator: Callable[[Observable[T]], Observable[R]],
    *,
    on_overflow: OverflowStrategy | OverflowStrategyName = "buffer",
    capacity: int | None = None,
) -> Callable[[Observable[T]], Flowable[R]]:
    """Give an operator of RxPY demand, and say what happens when it emits more than was asked for.

    `Flowable.pipe` lifts every plain operator by itself; this is for choosing what that leaves to the defaults. The
    source is asked for what the operator needs to satisfy its subscriber, and for nothing before the first request.
    What it emits beyond the demand waits. Operators that stand side by side in a pipe are lifted as one, and what was
    chosen for one of them holds for all.

    An operator is applied once when it is piped, and once more for each subscription that has demand.

    Args:
        operator: a function from an Observable to an Observable.
        on_overflow: what to do with an item for which there is no room; see `OverflowStrategy`. `"block"` holds up the
            thread that emits where that is another than the one that asks.
        capacity: how many items may wait beyond the demand, at least 1; if None, as the table of operators says.

    Returns:
        An operator from an Observable to a Flowable; a plain Observable is given demand by `from_observable` first.

    Raises:
        InvalidArgumentError: `operator` can't be called, an unknown strategy, or a capacity below 1.

    >>> from reactivex import interval, operators as ops
    >>> ticks = Flowable.from_iterable([0.001]).pipe(lift(ops.flat_map(interval), on_overflow="drop_latest"))
    >>> ticks.pipe(ops.take(3)).run()
    2
    """
    if not callable(operator):
        raise InvalidArgumentError("operator", operator, "a function from an Observable to an Observable")
    strategy = overflow_strategy(on_overflow)
    if capacity is not None and (not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1):
        raise InvalidArgumentError("capacity", capacity, "a whole number of at least 1")

    def lifted(source: Observable[T]) -> Flowable[R]:
        flowable: Flowable[Any] = Flowable.from_observable(source)
        for part in composed(operator):
            flowable = _apply(flowable, replace(_stage(part), strategy=strategy, capacity=capacity))
        return flowable

    return lifted


def pipe(flowable: Observable[Any], *operators: Operator) -> Any:
    """Apply operators one after the other, lifting those that return a plain Observable; what `Flowable.pipe` does.

    >>> from reactivex import operators as ops
    >>> pipe(Flowable.from_iterable(range(10)), ops.filter(lambda number: number % 2), ops.sum()).run()
    25
    """
    result: Any = flowable
    for operator in operators:
        for part in composed(operator):
            result = _apply(result, _stage(part)) if _has_demand(result) else part(result)
    return result


def _has_demand(value: object) -> TypeIs[Flowable[Any]]:
    return isinstance(value, Flowable)


def _is_plain(value: object) -> TypeGuard[Observable[Any]]:
    return isinstance(value, Observable) and not isinstance(value, Flowable | ConnectableObservable)


def _is_lifted(value: object) -> TypeIs[Lifted[Any]]:
    return isinstance(value, Lifted)


def _stage(operator: Operator) -> _Stage:
    name = operator_name(operator)
    if name is None or name not in TRAITS:
        return _Stage(operator, getattr(operator, "__qualname__", repr(operator)), UNKNOWN)
    return _Stage(operator, name, TRAITS[name])


def _apply(flowable: Flowable[Any], stage: _Stage) -> Any:
    if stage.name == "share":
        # Each subscription with demand has operators of its own, and these are to be shared.
        return share()(flowable)
    result: Any = stage.operator(flowable)
    if _is_plain(result):
        return _lifted(flowable, stage, result)
    if _is_lifted(result) and stage.traits is not UNKNOWN:
        # One of RxPY's that is made of others by a pipe of its own: what it is known as says more than what is inside.
        return _lifted(flowable, stage, result.plain)
    return result


def _lifted(flowable: Flowable[Any], stage: _Stage, plain: Observable[Any]) -> Lifted[Any]:
    if isinstance(flowable, Lifted):
        return Lifted(flowable.source, (*flowable.stages, stage), plain)
    return Lifted(flowable, (stage,), plain)


class Lifted(Flowable[T]):
    """What operators of RxPY make of a Flowable.

    Args:
        source: the Flowable at the top.
        stages: the operators, from the top.
        plain: what they made of the source when they were applied, for plain observers, which take everything.
    """

    def __init__(self, source: Flowable[Any], stages: tuple[_Stage, ...], plain: Observable[T]) -> None:
        super().__init__(self._lift)
        self.source = source
        self.stages = stages
        self.plain = plain

    def subscribe(
        self,
        on_next: Any = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        if isinstance(on_next, Subscriber):
            return super().subscribe(cast(Subscriber[T], on_next), scheduler=scheduler)
        # Nobody asks, so nothing stands between RxPY's operators and their source, nor between two of them.
        return self.plain.subscribe(on_next, on_error, on_completed, scheduler=scheduler)

    def _lift(self, subscriber: Subscriber[T], scheduler: abc.SchedulerBase | None) -> Subscription:
        traits = ChainTraits.of([(each.name, each.traits, each.strategy, each.capacity) for each in self.stages])
        chain = Chain(subscriber, current_platform(), traits)
        chain.start()
        chain.connect(self._tapped(chain), scheduler)
        return chain

    def _tapped(self, chain: Chain) -> Observable[Any]:
        """Apply the operators anew, to a source of this subscription's own."""
        flowable: Flowable[Any] = Tap(self.source, chain)
        for index, stage in enumerate(self.stages):
            plain = counted(flowable, stage.operator, chain) if stage.traits.delays else stage.operator(flowable)
            # An operator of the user's may subscribe with demand, and then is a subscriber of the source's own.
            flowable = Lifted(self.source, self.stages[: index + 1], _plain(plain))
        return _plain(flowable)


def _plain(observable: Observable[Any]) -> Observable[Any]:
    return observable.plain if _is_lifted(observable) else observable
