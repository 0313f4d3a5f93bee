"""PublisherContract: the rules of Reactive Streams that a publisher keeps, as tests."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from rxwow.streams.protocols import Publisher
from rxwow.testing.contracts.publisher_cancels import PublisherCancels
from rxwow.testing.contracts.publisher_signals import PublisherSignals

__all__ = ["PublisherContract"]


class PublisherContract(PublisherSignals, PublisherCancels, abstract=True):
    """Tests of a `Publisher` or `Flowable`; subclass it, and run the subclass with pytest.

    Each rule is tested with a subscriber that takes items singly and with one that takes batches. A call that hangs is
    given up after twice the `patience`, with its stack in the error; a publisher that emits without end is ended from
    inside `on_next`. The tests run on a thread of their own, and also in a controlled run (`rxwow.testing.run`).

    Class attributes that a subclass may set, besides those of `Contract`:
        max_count: most items that `create_publisher` can be asked for; None for any number. Tests that need more are
            left out, and `left_out` says which: some rules show only in long streams.
        emits_asynchronously: False for a publisher that gives all its signals on the thread that requests, before
            `request` returns. Nothing has to be waited for then, and a test checks that it is so.

    >>> from rxwow import Flowable
    >>> class TestLetters(PublisherContract):
    ...     max_count = 26
    ...     emits_asynchronously = False
    ...
    ...     def create_publisher(self, count):
    ...         return Flowable.from_iterable("abcdefghijklmnopqrstuvwxyz"[:count])
    >>> TestLetters().test_3_08_requests_add_up()
    >>> TestLetters.left_out["test_1_04_failure_is_signalled"]
    'create_failed_publisher is not given'
    """

    max_count: ClassVar[int | None] = None
    emits_asynchronously: ClassVar[bool] = True

    @abstractmethod
    def create_publisher(self, count: int) -> Publisher[Any]: ...
