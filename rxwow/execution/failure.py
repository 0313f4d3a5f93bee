"""What happens to a message whose handler failed: the dispatch ends, the message is skipped, or it is tried again."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from rxwow.errors import HandlerExit, InvalidArgumentError

__all__ = ["FAIL", "SKIP", "Backoff", "Decision", "FailurePolicy", "OnFailure", "Retry"]


class _End(enum.Enum):
    FAIL = "FAIL"
    SKIP = "SKIP"

    def __repr__(self) -> str:
        return self.value


FAIL: Final = _End.FAIL
"""The dispatch ends with the handler's error."""
SKIP: Final = _End.SKIP
"""The message is given up, logged and reported to the hooks; the next of its key goes on."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The message stays at the head of its mailbox and is handled again later, holding no worker meanwhile.

    Args:
        delay: seconds until then; 0 means at the mailbox's next turn.

    >>> Retry(-1)
    Traceback (most recent call last):
    rxwow.errors.InvalidArgumentError: delay must be a number of seconds of at least 0, not -1
    """

    delay: float = 0.0

    def __post_init__(self) -> None:
        _check_seconds("delay", self.delay)


Decision = _End | Retry


@dataclass(frozen=True, slots=True)
class Backoff:
    """Retry up to `attempts` times in all, each after a longer delay than the one before, then give up.

    Args:
        attempts: how often the handler is called for one message at most, the first time included.
        delay: seconds before the second attempt.
        factor: what each delay is multiplied by for the next.
        longest: seconds; no delay is longer.
        then: what happens after the last attempt has failed, `FAIL` or `SKIP`.

    >>> Backoff(attempts=4, delay=1.0).decide("message", ValueError("no"), 2)
    Retry(delay=2.0)
    >>> Backoff(attempts=4, then=SKIP).decide("message", ValueError("no"), 4)
    SKIP
    """

    attempts: int = 5
    delay: float = 0.1
    factor: float = 2.0
    longest: float = 60.0
    then: Literal[_End.FAIL, _End.SKIP] = FAIL

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise InvalidArgumentError("attempts", self.attempts, "a whole number of at least 1")
        _check_seconds("delay", self.delay)
        _check_seconds("longest", self.longest)
        if not (isinstance(self.factor, (int, float)) and 1 <= self.factor < math.inf):
            raise InvalidArgumentError("factor", self.factor, "a number of at least 1")
        if not isinstance(self.then, _End):
            raise InvalidArgumentError("then", self.then, "FAIL or SKIP")

    def decide(self, item: Any, error: Exception, attempt: int) -> Decision:
        if attempt >= self.attempts:
            return self.then
        try:
            delay = self.delay * self.factor ** (attempt - 1)
        except OverflowError:
            # The factor's power alone: no delay, however often it is multiplied, stays none.
            delay = self.longest if self.delay else 0.0
        return Retry(min(self.longest, delay))


OnFailure = _End | Callable[[Any, Exception], Decision] | Backoff


class FailurePolicy:
    """The user's `on_failure`, whatever its form, as one question: what now, after this many attempts?"""

    __slots__ = ("_on_failure",)

    def __init__(self, on_failure: OnFailure) -> None:
        if not isinstance(on_failure, (_End, Backoff)) and not callable(on_failure):
            raise InvalidArgumentError(
                "on_failure",
                on_failure,
                "FAIL, SKIP, a Backoff, or a function (item, error) -> FAIL | SKIP | Retry(delay)",
            )
        self._on_failure = on_failure

    def decide(self, item: Any, error: Exception, attempt: int) -> tuple[Decision, Exception]:
        """Return what to do, and the error to fail with: another than `error` if the policy itself failed."""
        on_failure = self._on_failure
        if isinstance(on_failure, _End):
            return on_failure, error
        try:
            if isinstance(on_failure, Backoff):
                return on_failure.decide(item, error, attempt), error
            decision = on_failure(item, error)
            if not isinstance(decision, (_End, Retry)):
                raise InvalidArgumentError("what on_failure returns", decision, "FAIL, SKIP or Retry(delay)")
        except BaseException as policy_error:  # noqa: BLE001 - user code; it ends the dispatch, and no worker.
            # The handler's error is what the user must see first; a policy that failed is a reason to stop.
            if policy_error is not error:
                policy_error.__context__ = error
            if isinstance(policy_error, Exception):
                return FAIL, policy_error
            return FAIL, HandlerExit(policy_error, "function on_failure")
        return decision, error


def _check_seconds(argument: str, value: object) -> None:
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InvalidArgumentError(argument, value, "a number of seconds of at least 0")
