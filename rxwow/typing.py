"""Names that the layers share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NamedAggregate"]


@dataclass(frozen=True, slots=True)
class NamedAggregate:
    """An aggregate, by the bounded context that it belongs to and its name there; two of the same names are equal.

    Args:
        context: the name of the bounded context.
        name: the name of the aggregate in it.

    >>> str(NamedAggregate("shop", "order"))
    'shop.order'
    """

    context: str
    name: str

    def __str__(self) -> str:
        return f"{self.context}.{self.name}"
