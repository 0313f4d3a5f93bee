"""Records into messages: each with its key, its place, and the books of what was read."""

from collections.abc import Iterator
from typing import Any

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.intake import Intake
from rxwow.cli.order import OrderChecker


def intake_of(records: Iterator[tuple[int, Any]], checker: OrderChecker | None = None) -> Intake[Any]:
    return Intake(records, lambda value: value, checker or OrderChecker())


def test_messages_are_numbered_within_their_key() -> None:
    intake = intake_of(enumerate("abaab", start=2))
    assert [(message.line, message.key, message.sequence) for message in intake.messages()] == [
        (2, "a", 0),
        (3, "b", 0),
        (4, "a", 1),
        (5, "a", 2),
        (6, "b", 1),
    ]
    assert (intake.received, intake.keys, intake.error) == (5, 2, None)


def test_equal_keys_are_one_key() -> None:
    intake = intake_of(enumerate([1, True, 1.0, "1", None]))
    assert [message.key for message in intake.messages()] == [1, 1, 1, "1", None]
    assert intake.keys == 3


def test_the_hottest_keys_come_first() -> None:
    intake = intake_of(enumerate("abbccc"))
    list(intake.messages())
    assert [(history.key, history.received) for history in intake.hottest(2)] == [("c", 3), ("b", 2)]


def test_what_is_in_flight_is_counted() -> None:
    checker = OrderChecker()
    messages = intake_of(enumerate("abc"), checker)
    flow = messages.messages()
    first = next(flow)
    next(flow)
    checker.start(first)
    checker.finish(first, succeeded=True)
    next(flow)
    assert messages.most_in_flight == 2


def test_a_stopped_intake_yields_no_more() -> None:
    intake = intake_of(enumerate("abc"))
    messages = intake.messages()
    assert next(messages).key == "a"
    intake.stop()
    assert list(messages) == []
    assert intake.received == 1


def test_a_bad_record_ends_the_stream_and_is_kept() -> None:
    def records() -> Iterator[tuple[int, str]]:
        yield 1, "a"
        raise BadInputError("line 2")

    intake = intake_of(records())
    assert [message.key for message in intake.messages()] == ["a"]
    assert str(intake.error) == "line 2"
