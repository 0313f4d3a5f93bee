"""What RxPY itself makes of the same input: the model that lifted operators are compared with."""

from collections.abc import Callable, Sequence
from typing import Any

from reactivex import Observable
from reactivex.testing import ReactiveTest, TestScheduler

Operator = Callable[[Observable[Any]], Any]

End = tuple[str, Any]
"""`("completed", None)` or `("error", what)`, where errors are compared by what they say."""


def end_of(error: Exception | None) -> End:
    return ("completed", None) if error is None else ("error", repr(error))


def by_rxpy(
    operators: Sequence[Operator], items: Sequence[Any], error: Exception | None = None
) -> tuple[list[Any], End | None]:
    """Pipe a source whose items come one after the other, and return what comes out.

    Each item has a virtual time of its own. RxPY's own `from_iterable` sends all of them before an inner source can
    send its first, as no source can that is asked for a few at a time; so that would be another input.
    """
    scheduler = TestScheduler()
    messages = [ReactiveTest.on_next(10 * (number + 1), item) for number, item in enumerate(items)]
    last = 10 * (len(items) + 1)
    end = ReactiveTest.on_completed(last) if error is None else ReactiveTest.on_error(last, error)
    values: list[Any] = []
    ends: list[End] = []
    source: Observable[Any] = scheduler.create_cold_observable([*messages, end])
    source.pipe(*operators).subscribe(
        values.append, lambda raised: ends.append(end_of(raised)), lambda: ends.append(end_of(None))
    )
    scheduler.start()
    return values, ends[0] if ends else None
