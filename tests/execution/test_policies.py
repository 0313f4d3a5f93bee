"""Failure policies as values: what is refused, what zero means, and how a backoff grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow import SKIP, Backoff, KeyedExecutor, Retry, keyed_dispatch
from rxwow.errors import InvalidArgumentError
from tests.execution.collecting import dispatched, results_of


def fails_for_one(message: int) -> int:
    if message == 1:
        raise ValueError(message)
    return message


# F73: zero, the empty and None are values.


@pytest.mark.parametrize("nothing", [0, 0.0, None, b"", "", (), False, frozenset[int]()], ids=repr)
def test_an_empty_key_and_an_empty_message_are_a_key_and_a_message(nothing: Any) -> None:
    # F73.
    seen: list[Any] = []
    with KeyedExecutor(1) as executor:
        assert results_of(dispatched([nothing] * 3, seen.append, executor)) == [None] * 3
        assert results_of(dispatched([nothing] * 3, lambda message: message, executor)) == [nothing] * 3
    assert seen == [nothing] * 3


def test_a_delay_of_zero_is_a_delay() -> None:
    # F73.
    with KeyedExecutor(1) as executor:
        policy = Backoff(attempts=3, delay=0, longest=0, then=SKIP)
        assert results_of(dispatched([0, 1, 2], fails_for_one, executor, on_failure=policy)) == [0, 2]


def test_a_policy_that_cant_work_is_refused_at_once() -> None:
    # F73.
    infinite, nan = float("inf"), float("nan")
    not_typed: Any = None
    refused: list[tuple[Callable[..., object], dict[str, Any]]] = [
        *((Retry, {"delay": delay}) for delay in (-0.001, nan, infinite, "1", None)),
        *((Backoff, {"attempts": attempts}) for attempts in (0, -1, 1.5, None)),
        *((Backoff, {"delay": delay}) for delay in (-1, nan, infinite)),
        *((Backoff, {"longest": longest}) for longest in (-1, nan, infinite)),
        *((Backoff, {"factor": factor}) for factor in (0, 0.5, nan, infinite)),
        *((Backoff, {"then": then}) for then in (Retry(0), None)),
        *((lambda **on: keyed_dispatch(hash, str, **on), {"on_failure": on}) for on in (not_typed, Retry(1), 0)),
    ]
    for make, arguments in refused:
        (argument,) = arguments
        with pytest.raises(InvalidArgumentError, match=f"^{argument} must be"):
            make(**arguments)


@given(
    attempts=st.integers(1, 200),
    delay=st.floats(0, 1e300),
    factor=st.floats(1, 1e300),
    longest=st.floats(0, 1e300),
)
def test_a_backoff_grows_to_its_longest_and_gives_up(
    attempts: int, delay: float, factor: float, longest: float
) -> None:
    backoff = Backoff(attempts, delay, factor, longest, SKIP)
    delays: list[float] = []
    attempt = 1
    while isinstance(decision := backoff.decide("message", ValueError(), attempt), Retry):
        delays.append(decision.delay)
        attempt += 1
    assert decision is SKIP
    assert attempt == attempts
    assert delays == sorted(delays)
    assert all(0 <= delay <= longest for delay in delays)
    assert not delays or delays[0] == min(delay, longest)
