"""The hand-off that people write: a Condition around each append and each pop, no batches, no keys at all."""

from __future__ import annotations

from collections import deque
from threading import Condition, Thread

from benchmarks.evidence import Message
from benchmarks.workloads import Workload

__all__ = ["plain_hand_off"]


def plain_hand_off(workload: Workload) -> None:
    """Pull on this thread, handle on another."""
    changed = Condition()
    messages: deque[Message | None] = deque()
    # One more is in the hands of the consumer.
    room = max(1, workload.window - 1)

    def consume() -> None:
        while True:
            with changed:
                while not messages:
                    changed.wait()
                message = messages.popleft()
                changed.notify()
            if message is None:
                return
            workload.handle(message)

    def put(message: Message | None) -> None:
        with changed:
            while len(messages) >= room:
                changed.wait()
            messages.append(message)
            changed.notify()

    consumer = Thread(target=consume)
    consumer.start()
    for message in workload.source:
        put(message)
    put(None)
    consumer.join()
