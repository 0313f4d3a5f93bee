from typing import Any

import pytest

from rxwow.streams.description import describe


def items() -> list[int]:
    return []


class Broken:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("source", "described"),
    [(items, f"{__name__}.items"), (Broken, f"{__name__}.Broken"), ([1, 2], "[1, 2]"), ("text", "'text'")],
    ids=["function", "class", "list", "text"],
)
def test_says_what_it_is(source: Any, described: str) -> None:
    assert describe(source) == described


def test_is_short_and_safe_whatever_it_is() -> None:
    """A log line must not hold a million messages, nor fail."""
    assert len(describe(["x" * 1000] * 1000)) < 1000
    assert "Broken" in describe(Broken())
