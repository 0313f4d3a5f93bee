"""What the contracts have in common: tests named after rules, left out with a reason, and bounded in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from rxwow.errors import InvalidArgumentError
from rxwow.platform import Platform, current_platform
from rxwow.testing.contracts.calls import Abandoned, Call
from rxwow.testing.contracts.rules import RULES

__all__ = ["Contract", "Unless", "checks", "require"]

Unless = Callable[[Any], str]
"""Says of a contract's class why a test does not apply to it; an empty string if it does."""

_RULE: Final = "__rule__"
_UNLESS: Final = "__unless__"


def checks(rule: str, *unless: Unless) -> Callable[[Callable[[Any, Any], None]], Callable[[Any], None]]:
    """Make a method the test of a rule: it is run for each variant, each time within a bounded time.

    Args:
        rule: the number of the rule.
        unless: when to leave the test out.
    """

    def decorate(body: Callable[[Any, Any], None]) -> Callable[[Any], None]:
        def test(self: Any) -> None:
            for variant in self._variants():
                self._run(rule, partial(body, self, variant), variant)

        # Not functools.wraps: pytest would look through it and take the variant for a fixture.
        test.__name__, test.__qualname__, test.__doc__ = body.__name__, body.__qualname__, body.__doc__
        test.__module__ = body.__module__
        setattr(test, _RULE, rule)
        setattr(test, _UNLESS, unless)
        return test

    return decorate


def require(condition: object, message: object) -> None:
    """Raise an AssertionError with a message unless a condition holds; unlike `assert`, also under `python -O`."""
    if not condition:
        raise AssertionError(str(message))


class Contract(ABC):
    """A set of tests of rules; a subclass says what is tested.

    A test that does not apply is not there: it is no method of the subclass, so that no test runner counts it as passed
    or skipped. `left_out` says which are not there, and why.

    Class attributes that a subclass may set:
        patience: seconds after which something that should happen counts as not happening.
        settling: seconds for which a test waits to see that nothing happens; longer finds more.
        leaves_out: rules that are not kept on purpose, each with the reason: `{"3.4": "request waits for the disk"}`.
    """

    patience: ClassVar[float] = 2.0
    settling: ClassVar[float] = 0.01
    leaves_out: ClassVar[Mapping[str, str]] = {}
    left_out: ClassVar[Mapping[str, str]] = {}
    """Which tests are left out, by name, and why."""

    def __init_subclass__(cls, *, abstract: bool = False, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if abstract:
            return
        for rule, reason in cls.leaves_out.items():
            if rule not in RULES:
                raise InvalidArgumentError("leaves_out", rule, "the number of a rule, such as '3.4', for each reason")
            if not reason.strip():
                raise InvalidArgumentError("leaves_out", reason, f"a reason for leaving out {rule}")
        left_out: dict[str, str] = {}
        for name, test in cls._tests().items():
            reason = cls._reason_to_leave_out(test)
            if reason:
                left_out[name] = reason
            if name not in vars(cls):
                setattr(cls, name, None if reason else test)
        cls.left_out = left_out

    @classmethod
    def _tests(cls) -> dict[str, Any]:
        return {
            name: value
            for owner in reversed(cls.__mro__)
            for name, value in vars(owner).items()
            if hasattr(value, _RULE)
        }

    @classmethod
    def _reason_to_leave_out(cls, test: Any) -> str:
        unless: tuple[Unless, ...] = getattr(test, _UNLESS)
        reasons = [cls.leaves_out.get(getattr(test, _RULE), ""), *(reason(cls) for reason in unless)]
        return next((reason for reason in reasons if reason), "")

    # What a test does.

    @abstractmethod
    def _variants(self) -> Iterable[Any]:
        """Return what each test is run with, one after another."""

    @abstractmethod
    def _described(self, variant: Any) -> str:
        """Put a variant into words."""

    @abstractmethod
    def _abandon(self) -> None:
        """Make what still runs come to an end, after a test that hung."""

    def _run(self, rule: str, body: Callable[[], None], variant: Any) -> None:
        # Twice, so that a wait inside, which can tell more, is over first.
        limit = 2 * self.patience
        call = Call(self._platform, body)
        try:
            try:
                call.check(limit)
            except Abandoned as abandoned:
                raise AssertionError(str(abandoned)) from None
            finally:
                if not call.returned_within(0):
                    self._abandon()
                    call.returned_within(self.patience)
        except BaseException as error:
            error.add_note(f"Reactive Streams §{rule}: {RULES[rule].text} ({self._described(variant)})")
            raise

    @property
    def _platform(self) -> Platform:
        return current_platform()

    def _pause(self) -> None:
        """Let happen what should not."""
        self._platform.event().wait(self.settling)

    def _together(self, *actions: Callable[[], object]) -> None:
        """Make calls at the same time; each must come back in time, and without raising."""
        calls = [Call(self._platform, action) for action in actions]
        for call in calls:
            call.check(self.patience)
