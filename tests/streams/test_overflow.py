from typing import Any

import pytest

from rxwow.errors import InvalidArgumentError
from rxwow.streams.overflow import OverflowStrategy, overflow_strategy


@pytest.mark.parametrize("strategy", list(OverflowStrategy))
def test_strategy_is_known_by_its_name(strategy: OverflowStrategy) -> None:
    assert overflow_strategy(strategy.value) is overflow_strategy(strategy) is strategy


@pytest.mark.parametrize("value", ["wait", "BLOCK", "", None, 5], ids=repr)
def test_other_names_are_refused_with_those_that_are_allowed(value: Any) -> None:
    """F107: an unknown option is refused, not ignored."""
    with pytest.raises(InvalidArgumentError) as raised:
        overflow_strategy(value)
    assert str(raised.value) == (
        f"on_overflow must be one of 'block', 'buffer', 'drop_latest', 'drop_oldest', 'error', not {value!r}"
    )
