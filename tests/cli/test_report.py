"""The report says what was counted, and doesn't hide what went wrong."""

import dataclasses

from rxwow.cli.order import KeyHistory, Message, OrderChecker
from rxwow.cli.report import Report


def report() -> Report:
    checker = OrderChecker()
    history = KeyHistory("N1")
    for line in range(1, 1001):
        message = Message("value", line, history)
        checker.start(message)
        checker.finish(message, succeeded=line != 7)
    return Report(
        title="a.csv by tailnum",
        received=1000,
        keys=1,
        results=999,
        destination="out.ndjson",
        failures=1,
        seconds=0.5,
        hottest=[history],
        most_in_flight=200,
        window=256,
        workers=2,
        throughput=16,
        checker=checker,
    )


def test_every_figure_is_told() -> None:
    assert report().lines() == [
        "a.csv by tailnum",
        "  messages    1,000 in 0.50 s, 2,000 a second",
        "  keys        1; the hottest: 'N1' 1,000",
        "  results     999, written to out.ndjson",
        "  failures    1",
        "  in flight   200 at most, of 256 allowed",
        "  workers     2, with turns of up to 16 messages",
        "  order kept  yes, checked for each of 1,000 messages",
    ]
    assert report().sound


def test_nothing_at_all_is_told_too() -> None:
    empty = dataclasses.replace(
        report(),
        received=0,
        keys=0,
        results=0,
        destination="",
        failures=0,
        seconds=0.0,
        hottest=[],
        checker=OrderChecker(),
    )
    assert empty.lines()[1:4] == ["  messages    0 in 0.00 s", "  keys        0", "  results     0"]
    assert empty.sound


def test_a_lost_message_is_told() -> None:
    lossy = dataclasses.replace(report(), received=1002)
    assert not lossy.sound
    assert lossy.lines()[1].endswith("; NO HANDLER for 2 more that were read")


def test_a_broken_order_is_told() -> None:
    broken = report()
    broken.checker.start(Message("value", 1, broken.hottest[0]))
    broken.checker.start(Message("value", 2, broken.hottest[0]))
    assert not broken.sound
    assert broken.lines()[-1].startswith("  order kept  NO, 1 message out of order: number 1002 of key 'N1' (line 2)")
