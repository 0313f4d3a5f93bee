"""What probes write down: signals, and breaches of the rules."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Breach", "Signal"]


class Signal(NamedTuple):
    """One call that a probe got, or made, and when."""

    number: int
    """Its place among all signals of the probe, from 0."""
    name: str
    """The method: `"on_next"`, `"request"` and so on."""
    value: Any
    """The argument; None if the method has none."""
    thread: int
    """The identifier of the calling thread, as `threading.get_ident()` gives it."""
    time: float
    """Seconds of the platform's monotonic clock; virtual time on a controlled platform."""

    def __str__(self) -> str:
        value = "" if self.name in {"cancel", "on_completed"} else repr(self.value)
        return f"#{self.number} {self.name}({value}) at {self.time:.6f} on thread {self.thread}"


class Breach(NamedTuple):
    """A rule of Reactive Streams that a source has broken."""

    rule: str
    """The number of the rule: `"1.1"`."""
    text: str

    def __str__(self) -> str:
        return f"§{self.rule}: {self.text}"
