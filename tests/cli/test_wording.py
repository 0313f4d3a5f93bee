"""Everything that is told fits in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.cli.wording import count_of, describe_error, did_you_mean, list_names
from rxwow.errors import HandlerExit


@given(st.text())
def test_an_error_is_one_line(text: str) -> None:
    described = describe_error(ValueError(text))
    assert len(described.splitlines()) == 1
    assert described.startswith("ValueError")


def test_a_long_error_is_cut() -> None:
    assert len(describe_error(ValueError("x" * 10_000))) < 400


def test_the_place_in_the_users_code_is_told() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    here = Path(__file__)
    assert describe_error(caught.value, here.parent).endswith(f"({here.name}, line {caught.tb.tb_lineno})")
    assert describe_error(caught.value, here.parent / "elsewhere") == "ZeroDivisionError: division by zero"


def test_what_a_handler_raised_to_leave_is_told_and_not_its_wrapping() -> None:
    assert describe_error(HandlerExit(SystemExit(3))) == "SystemExit: 3"
    assert describe_error(HandlerExit(KeyboardInterrupt())) == "KeyboardInterrupt"


@pytest.mark.parametrize(("names", "text"), [([], ""), (["a", " ", "b\n", "c d"], r"a, ' ', 'b\n', c d")])
def test_names_are_listed_so_that_they_can_be_told_apart(names: list[str], text: str) -> None:
    assert list_names(names) == text


def test_only_a_near_name_is_offered() -> None:
    assert did_you_mean("tail", ["year", "tailnum"]) == "; did you mean 'tailnum'?"
    assert did_you_mean("x", ["year", "tailnum"]) == ""


def test_numbers_agree_with_their_nouns() -> None:
    assert [count_of(number, "message") for number in (0, 1, 1000)] == ["0 messages", "1 message", "1,000 messages"]
