"""Tools for tests: threads under control and virtual time.

>>> from rxwow.testing import run
>>> def scenario(platform):
...     event = platform.event()
...     thread = platform.thread(event.set, "setter")
...     thread.start()
...     return event.wait(timeout=60)
>>> run(scenario, seed=3)
True
"""

from __future__ import annotations

from rxwow.testing.choosers import Candidate, Chooser, Ranking, Replay, Uniform, drawn_from
from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.deterministic import DeterministicExecutor
from rxwow.testing.exploration import explore, find_failure, run
from rxwow.testing.failures import (
    DeadlockError,
    LivelockError,
    LockMisuseError,
    ScheduleFailure,
    StalledError,
    UncontrolledThreadError,
    Verdict,
)
from rxwow.testing.pool import ControlledThreadPool
from rxwow.testing.schedule import Step

__all__ = [
    "Candidate",
    "Chooser",
    "ControlledPlatform",
    "ControlledThreadPool",
    "DeadlockError",
    "DeterministicExecutor",
    "LivelockError",
    "LockMisuseError",
    "Ranking",
    "Replay",
    "ScheduleFailure",
    "StalledError",
    "Step",
    "UncontrolledThreadError",
    "Uniform",
    "Verdict",
    "drawn_from",
    "explore",
    "find_failure",
    "run",
]
