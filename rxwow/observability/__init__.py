"""What can be seen of a run; nothing here costs anything unless it is used.

`timeline` records which message of which key ran when and on which thread; `plot` draws that, and needs matplotlib
(`pip install "rxwow[notebook]"`), so it is imported by its own name.
"""

from __future__ import annotations

from rxwow.observability.timeline import HandlerRun, TimelineRecorder

__all__ = ["HandlerRun", "TimelineRecorder"]
