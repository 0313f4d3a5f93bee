"""What a dispatch expects of its next messages, by what the last ones took."""

from __future__ import annotations

from typing import Final

from rxwow.execution.turn import BATCH_TIME, MOST_MESSAGES_A_BATCH

__all__ = ["SHORTEST_TURN", "Expectation"]

SHORTEST_TURN: Final = 0.000_001
"""Seconds that any turn takes, also by a clock that ticks too seldom to show it."""
CHEAP_FROM: Final = 64
"""Messages that a batch has room for if they are cheap: 3 microseconds each, and a third of that is not the handler."""
CHEAP_UNTIL: Final = 16
"""While there is room for so many they stay cheap: a batch may take longer for reasons that are not its own."""
FEWEST_SHARED: Final = 16
"""Messages that come together for their keys to share a mailbox; with fewer it costs more than it saves."""
MOST_OF_A_KEY: Final = 2
"""Messages of each key, on average, in a shared mailbox; a hot key would hold up the others, and gains nothing."""


class Expectation:
    """What is expected of the turns and messages of one dispatch; the dispatch's lock guards it.

    `turn` is how many seconds a turn takes, by a moving average; None before the first. `messages_a_batch` is how many
    messages may be settled together. `cheap` says that a whole batch of them took next to nothing, and that each
    handler just returned a value.
    """

    __slots__ = ("cheap", "messages_a_batch", "turn")

    def __init__(self) -> None:
        self.turn: float | None = None
        self.messages_a_batch = 1
        self.cheap = False

    def learn(self, turns: int, messages: int, returned: int, seconds: float) -> None:
        """Take in what a batch took.

        Args:
            turns: that began in it.
            messages: that began in it.
            returned: how many messages have a result.
            seconds: for all of it.
        """
        if not (turns and messages):
            return
        sample = seconds / turns
        expected = self.turn
        if expected is None:
            self.turn = sample
        else:
            # A sample counts for eight times what was expected at most: a thread that the system held up for a
            # while did not become slow, and must not have a second worker woken.
            most = 8 * max(expected, SHORTEST_TURN)
            self.turn = expected + (min(sample, most) - expected) / 8
        # At most doubled, so that one lucky batch of a slow handler does not hold up the results of the next.
        fitting = int(BATCH_TIME * messages / max(seconds, 1e-9))
        self.messages_a_batch = max(1, min(fitting, 2 * self.messages_a_batch, MOST_MESSAGES_A_BATCH))
        self.cheap = returned == messages and self.messages_a_batch >= (CHEAP_UNTIL if self.cheap else CHEAP_FROM)

    def shares(self, messages: int, keys: int) -> bool:
        """Return whether so many messages, of so many keys, that came together should share a mailbox."""
        return self.cheap and FEWEST_SHARED <= messages <= MOST_OF_A_KEY * keys
