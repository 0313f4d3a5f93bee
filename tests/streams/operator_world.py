"""The time and the other sources that operators need in a test."""

from typing import Any

import reactivex
from reactivex import Observable
from reactivex.testing import ReactiveTest, TestScheduler
from reactivex.testing.coldobservable import ColdObservable

# Its types know whole ticks only.
reactive_test: Any = ReactiveTest


class World:
    """Virtual time, and the other sources that live in it.

    Args:
        at_once: the other sources send all they have when they are subscribed to, as RxPY's own do.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.scheduler = TestScheduler()
        self.at_once = at_once

    def cold(
        self, *items: tuple[float, Any], end: float | None = None, error: Exception | None = None
    ) -> ColdObservable[Any]:
        """A source that sends at certain times after it was subscribed to; it never ends if there is no `end`."""
        messages = [reactive_test.on_next(time, item) for time, item in items]
        if end is not None:
            last = reactive_test.on_completed(end) if error is None else reactive_test.on_error(end, error)
            messages.append(last)
        return self.scheduler.create_cold_observable(messages)

    def other(self, *items: tuple[float, Any], end: float) -> Observable[Any]:
        """A source beside the one that is tested. No item of that comes at the same time as one of this."""
        if self.at_once:
            return reactivex.of(*(item for _, item in items))
        return self.cold(*items, end=end)

    def letters(self) -> Observable[Any]:
        return self.other((17, "a"), (37, "b"), (67, "c"), end=77)

    def instead(self) -> Observable[Any]:
        return reactivex.never() if self.at_once else self.letters()

    def twice(self, value: Any) -> Observable[Any]:
        return self.other((1, value), (24, value), end=26)

    def after(self, time: float) -> Observable[Any]:
        return self.cold((time, "now"), end=time)
