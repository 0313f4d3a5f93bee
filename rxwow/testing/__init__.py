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
from rxwow.testing.contracts import RULES, PublisherContract, Rule, SubscriberContract
from rxwow.testing.controlled import ControlledPlatform
from rxwow.testing.deterministic import DeterministicExecutor
from rxwow.testing.exhaustive import Exploration, explore_all
from rxwow.testing.exploration import explore, find_failure, run
from rxwow.testing.failures import (
    DeadlockError,
    LivelockError,
    LockMisuseError,
    NondeterminismError,
    ScheduleFailure,
    StalledError,
    UncontrolledThreadError,
    UnfinishedExplorationError,
    Verdict,
)
from rxwow.testing.marbles import Marbles, controlled_marbles
from rxwow.testing.pool import ControlledThreadPool
from rxwow.testing.probe import BatchSubscriberProbe, SubscriberProbe
from rxwow.testing.schedule import Step
from rxwow.testing.scheduler import ControlledTestScheduler
from rxwow.testing.shrinking import shrink
from rxwow.testing.signals import Breach, Signal
from rxwow.testing.source_probe import SourceProbe

__all__ = [
    "RULES",
    "BatchSubscriberProbe",
    "Breach",
    "Candidate",
    "Chooser",
    "ControlledPlatform",
    "ControlledTestScheduler",
    "ControlledThreadPool",
    "DeadlockError",
    "DeterministicExecutor",
    "Exploration",
    "LivelockError",
    "LockMisuseError",
    "Marbles",
    "NondeterminismError",
    "PublisherContract",
    "Ranking",
    "Replay",
    "Rule",
    "ScheduleFailure",
    "Signal",
    "SourceProbe",
    "StalledError",
    "Step",
    "SubscriberContract",
    "SubscriberProbe",
    "UncontrolledThreadError",
    "UnfinishedExplorationError",
    "Uniform",
    "Verdict",
    "controlled_marbles",
    "drawn_from",
    "explore",
    "explore_all",
    "find_failure",
    "run",
    "shrink",
]
