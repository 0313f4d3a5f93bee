"""Which operator of RxPY a function is: `ops.map(f)` is a closure, and says so only inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["composed", "operator_name"]

Operator = Callable[[Any], Any]


def operator_name(operator: Operator) -> str | None:
    """Return the name of the function of `reactivex.operators` that made `operator`; None for anybody else's.

    Several public names may share a function: `tap` is `do_action`. What can't be read any more, in a release of RxPY
    that makes its closures in another way, is nobody's, and so treated with the greatest care.

    >>> from reactivex import operators as ops
    >>> operator_name(ops.map(str)), operator_name(ops.last_or_default()), operator_name(print)
    ('map', 'last_or_default', None)
    """
    module: str = getattr(operator, "__module__", None) or ""
    if module == "reactivex.internal.curry":
        function = _free_variable(operator, "fun")
        module = getattr(function, "__module__", None) or ""
        name: str = getattr(function, "__qualname__", "")
    else:
        name = getattr(operator, "__qualname__", "")
    if not module.startswith("reactivex.operators."):
        return None
    return name.split(".", maxsplit=1)[0].strip("_")


def composed(operator: Operator) -> tuple[Operator, ...]:
    """Return the operators that `reactivex.compose` made one of, and theirs; `operator` alone if it made none.

    >>> from reactivex import compose, operators as ops
    >>> [operator_name(part) for part in composed(compose(ops.map(str), compose(ops.filter(bool), ops.count())))]
    ['map', 'filter', 'count']
    """
    if getattr(operator, "__module__", None) != "reactivex.pipe":
        return (operator,)
    parts: tuple[Operator, ...] | None = _free_variable(operator, "operators")
    if parts is None:
        return (operator,)
    return tuple(each for part in parts for each in composed(part))


def _free_variable(function: Any, name: str) -> Any:
    code = getattr(function, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return function.__closure__[code.co_freevars.index(name)].cell_contents
