"""The rules of Reactive Streams as tests: subclass a contract, say how to make what is tested, and run pytest.

Each test is named after the number of its rule. `RULES` tells what each rule says, which test checks it, and of those
that no test can check, why.

>>> from rxwow import Flowable
>>> from rxwow.testing.contracts import PublisherContract
>>> class TestNumbers(PublisherContract):
...     emits_asynchronously = False
...
...     def create_publisher(self, count):
...         return Flowable.from_iterable(range(count))
>>> TestNumbers().test_1_01_emits_at_most_what_was_requested()
"""

from __future__ import annotations

from rxwow.testing.contracts.publisher import PublisherContract
from rxwow.testing.contracts.rules import RULES, Rule
from rxwow.testing.contracts.subscriber import SubscriberContract

__all__ = ["RULES", "PublisherContract", "Rule", "SubscriberContract"]
