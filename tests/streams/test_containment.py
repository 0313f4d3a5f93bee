import asyncio
import threading

import pytest

from rxwow.errors import RxwowError
from rxwow.streams.containment import as_error, is_contained


class Stop(BaseException):
    """What a harness may throw to end a thread."""


@pytest.mark.parametrize(
    ("error", "on_main", "elsewhere"),
    [
        (ValueError(), True, True),
        (asyncio.CancelledError(), True, True),
        (GeneratorExit(), True, True),
        (SystemExit(), False, True),
        (KeyboardInterrupt(), False, True),
        (Stop(), False, False),
    ],
    ids=repr,
)
def test_what_ends_more_than_the_stream(error: BaseException, on_main: bool, elsewhere: bool) -> None:
    """F31: a worker survives what a user's code raises; a signal on the main thread gets through."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(is_contained(error)))
    thread.start()
    thread.join()
    assert (is_contained(error), answers) == (on_main, [elsewhere])


def test_exception_stays_itself() -> None:
    error = ValueError()
    assert as_error(error) is error


@pytest.mark.parametrize("value", [SystemExit(2), "text", None], ids=repr)
def test_anything_else_is_wrapped(value: object) -> None:
    wrapped = as_error(value)
    assert isinstance(wrapped, RxwowError)
    assert repr(value) in str(wrapped)
    assert wrapped.__cause__ is (value if isinstance(value, BaseException) else None)
