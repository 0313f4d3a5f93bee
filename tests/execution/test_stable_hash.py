"""The hash of groups: the same everywhere, equal for equal keys, and different bytes for different ones."""

import subprocess
import sys
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.execution.stable_hash import _parts, stable_hash

leaves = st.one_of(st.text(), st.binary(), st.integers(), st.booleans(), st.uuids())
keys = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


@given(first=keys, second=keys)
def test_equal_keys_have_equal_hashes_and_others_have_other_bytes(first: Any, second: Any) -> None:
    same_kinds = repr(first).replace("True", "1").replace("False", "0") == repr(second).replace("True", "1").replace(
        "False", "0"
    )
    assert (b"".join(_parts(first)) == b"".join(_parts(second))) == (first == second and same_kinds)
    if first == second:
        assert stable_hash(first) == stable_hash(second)


def test_it_never_changes() -> None:
    """A release that changed it would move keys between groups under way."""
    samples: dict[Any, int] = {
        "": 453955339,
        "order-17": 284111555,
        "\u00fc\u4e16": 1593759576,
        b"order-17": 2874434801,
        0: 4125540881,
        -1: 3638832540,
        2**70: 283788491,
        UUID(int=7): 3348186849,
        (): 743677601,
        ("shop", 17): 3475721122,
        ("a", ("b", b"c")): 909279457,
    }
    assert {key: stable_hash(key) for key in samples} == samples


def test_it_is_the_same_in_another_process() -> None:
    code = "from rxwow.execution.stable_hash import stable_hash; print(stable_hash('order-17'))"
    command = [sys.executable, "-c", code]
    seen = {
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True).stdout
        for seed in ("1", "2")
    }
    assert seen == {"284111555\n"}


@pytest.mark.parametrize("key", [1.0, None, ["a"], {"a"}, ("a", None), object()])
def test_other_keys_are_refused_with_what_to_do(key: Any) -> None:
    with pytest.raises(TypeError, match="a key of grouped_dispatch must be a str, bytes, int, UUID, or a tuple"):
        stable_hash(key)


def test_keys_are_spread_evenly() -> None:
    groups = Counter(stable_hash(f"order-{number}") % 128 for number in range(12_800))
    assert len(groups) == 128
    assert max(groups.values()) < 200
