"""The turn: at most `throughput` messages of one mailbox, while they complete synchronously.

This is the hot path. One call runs the turns of several mailboxes of one dispatch, as many as are expected to take
`BATCH_TIME`, then settles them all at once: a lock, an emission and a request cost more than a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rxwow.execution.completion import DUE, waits_for
from rxwow.execution.shared_mailbox import SharedMailbox

if TYPE_CHECKING:
    from rxwow.execution.mailbox import Mailbox
    from rxwow.execution.worker import Worker

__all__ = ["BATCH_TIME", "MOST_MESSAGES_A_BATCH", "run_turns"]

BATCH_TIME: Final = 0.000_2
"""Seconds of messages that are settled together; those of a slower handler are settled one by one."""
MOST_MESSAGES_A_BATCH: Final = 128
"""Half of the usual window. With 64 a message of a handler that does nothing cost a sixth more."""
MESSAGES_A_LOOK: Final = 16
"""How many messages there are between two looks at the clock: a handler that was always fast may be slow now."""


def run_turns(  # noqa: C901 - one loop, because a call costs a tenth of what a message may cost in all.
    worker: Worker, mailbox: Mailbox, budget: int
) -> tuple[Mailbox, int] | None:
    """Run the turn of `mailbox`, and those of the mailboxes of its dispatch right behind it, and settle them.

    Args:
        worker: the worker on whose thread this is called.
        mailbox: taken from the front of the worker's FIFO.
        budget: how many messages are left of a turn that was interrupted to be settled; 0 for a new turn.

    Returns:
        The mailbox whose turn was interrupted and what is left of its budget, or None.
    """
    dispatch = mailbox.dispatch
    fifo = worker.fifo
    handler = dispatch.handler
    handling = dispatch.handling
    copy_context = dispatch.context.copy
    kinds = dispatch.kinds
    most = room = dispatch.expectation.messages_a_batch
    results: list[Any] = []
    emptied: list[Mailbox] = []
    interrupted: tuple[Mailbox, int] | None = None
    turns = resumed = 0
    monotonic = worker.platform.monotonic
    began = worker.turn_began = monotonic()
    next_look = room - MESSAGES_A_LOOK
    while True:
        worker.turn_of = mailbox
        if not budget:
            budget = dispatch.throughput
            turns += 1
        whole = budget
        # What has ended begins nothing more, also where its end has not come yet to take the messages away.
        goes_on = not dispatch.closed
        waiting = mailbox.waiting
        if waiting is not None:
            # Whoever waits for something holds its message; what it waited for comes back as a turn. It takes room like
            # any message, or a thousand that come back together would be one batch; and a handler's next attempt is
            # one more message of this turn.
            room -= 1
            if waiting.outcome is DUE:
                budget -= 1
            else:
                resumed += 1
            goes_on = handling.resume(mailbox, results) and not dispatch.closed
        while goes_on and mailbox and budget and room:
            try:
                item = mailbox.popleft()
            except IndexError:
                # Taken by the end of the dispatch, from another thread.
                break
            budget -= 1
            room -= 1
            try:
                context = copy_context()
                result = context.run(handler, item)
            except BaseException as error:  # noqa: BLE001 - the worker must outlive its handlers.
                if isinstance(mailbox, SharedMailbox):
                    mailbox = _leave_shared(worker, mailbox, whole - budget, emptied)
                goes_on = handling.failed(mailbox, item, 1, error, results)
            else:
                if result is None or (begin := waits_for(result, kinds)) is None:
                    results.append(result)
                else:
                    if isinstance(mailbox, SharedMailbox):
                        mailbox = _leave_shared(worker, mailbox, whole - budget, emptied)
                    goes_on = handling.begin_wait(mailbox, item, 1, begin, result, context, results)
        if goes_on:
            if not mailbox:
                emptied.append(mailbox)
            elif budget:
                interrupted = (mailbox, budget)
                if isinstance(mailbox, SharedMailbox):
                    mailbox.begun += whole - budget
                break
            elif isinstance(mailbox, SharedMailbox):
                # Not behind another one, which has later messages of its keys.
                mailbox.begun += whole
                fifo.appendleft(mailbox)
            else:
                fifo.append(mailbox)
        budget = 0
        # Only this thread takes from the FIFO, so what is seen at its front is what popleft gives.
        if not room or not fifo or fifo[0].dispatch is not dispatch:
            break
        if room <= next_look:
            if monotonic() - began > BATCH_TIME:
                break
            next_look = room - MESSAGES_A_LOOK
        mailbox = fifo.popleft()
    worker.turns += turns
    worker.turn_of = None
    messages = most - room - resumed
    worker.messages += messages
    dispatch.settle(worker, results, emptied, turns, messages, monotonic() - began)
    return interrupted


def _leave_shared(worker: Worker, shared: SharedMailbox, taken: int, emptied: list[Mailbox]) -> Mailbox:
    """Go on with the mailbox of the key of the message at hand, which is the last of `taken` this turn."""
    emptied.append(shared)
    shared.begun += taken
    mailbox = worker.turn_of = shared.dispatch.divide(shared)
    return mailbox
