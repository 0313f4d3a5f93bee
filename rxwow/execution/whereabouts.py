"""Where a thread runs and where a coroutine waits: the innermost line of the user's own code.

A stack is read while its thread runs on, so a thread that moves may be shown at a line that it has just left; one that
is stuck is shown where it is stuck.
"""

from __future__ import annotations

import asyncio
import gc
import linecache
import os
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import reactivex

__all__ = ["Place", "frames_of_threads", "is_running", "place_of_coroutine", "place_of_thread"]

MOST_FRAMES: Final = 1000
"""Frames of a stack, and awaitables inside each other, that are looked at."""
MOST_TEXT: Final = 80
"""Characters of a line that are shown."""


def _directories(*paths: str | Path | None) -> tuple[str, ...]:
    """Return directories as code objects name them: as they were imported, or without links."""
    forms = [form for path in paths if path for form in (Path(path).absolute(), Path(path).resolve())]
    return tuple({f"{form}{os.sep}" for form in forms})


_MACHINERY: Final = _directories(
    Path(__file__).parent.parent, Path(reactivex.__file__ or "").parent, Path(asyncio.__file__).parent
)
"""What runs handlers; never where one is stuck."""
# Not by sysconfig, which takes long to load.
_STANDARD: Final = _directories(Path(os.__file__).parent)
_INSTALLED: Final = f"-packages{os.sep}"
"""What the directories end with in which packages are installed; often inside that of the standard library."""

_SUSPENDED: Final[dict[type, tuple[str, str]]] = {
    types.CoroutineType: ("cr_frame", "cr_await"),
    types.AsyncGeneratorType: ("ag_frame", "ag_await"),
    types.GeneratorType: ("gi_frame", "gi_yieldfrom"),
}
"""What can wait in the middle of its code, and the attributes that say where and for what."""
_WRAPPERS: Final = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable")
"""Types that await a coroutine or an async generator and have no attribute to say which."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of code."""

    file: str
    """The path of its file."""
    line: int
    """Its number."""
    function: str
    """The qualified name of the function it is in."""
    text: str
    """The line itself, without what is around it; empty if the file can't be read."""

    def __str__(self) -> str:
        path = Path(self.file)
        try:
            file = str(path.relative_to(Path.cwd()))
        except (ValueError, OSError):
            file = self.file
        text = self.text if len(self.text) <= MOST_TEXT else f"{self.text[: MOST_TEXT - 3]}..."
        return f"{file}:{self.line} ({text or self.function})"


def place_of_thread(
    frame: types.FrameType | None, stations: Mapping[types.CodeType, str]
) -> tuple[Place | None, str | None]:
    """Return where a thread is in the user's code, and which station called that code.

    Args:
        frame: the innermost frame of the thread.
        stations: the code where a call of the user's code begins, and what that is; frames around it don't count.

    Returns:
        The innermost line of user code inside the innermost station, or None; and what `stations` says of that
        station, or None if there is none.
    """
    frames: list[tuple[types.CodeType, int]] = []
    while frame is not None and frame.f_code not in stations and len(frames) < MOST_FRAMES:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return _innermost(frames), None if frame is None else stations.get(frame.f_code)


def place_of_coroutine(coroutine: object) -> Place | None:
    """Return where a suspended coroutine waits: at the innermost `await` in user code; None if it is not known."""
    return _innermost(list(_awaits(coroutine))[::-1])


def is_running(coroutine: object) -> bool:
    """Whether a thread is in the middle of a step of `coroutine`."""
    return bool(getattr(coroutine, "cr_running", False))


def _awaits(awaitable: Any) -> Iterator[tuple[types.CodeType, int]]:
    """Yield the lines at which a coroutine waits, and what it waits for waits, from the outside in."""
    for _ in range(MOST_FRAMES):
        if type(awaitable).__name__ in _WRAPPERS:
            awaitable = _wrapped(awaitable)
        if type(awaitable) not in _SUSPENDED:
            return
        frame_of, awaited_of = _SUSPENDED[type(awaitable)]
        frame = getattr(awaitable, frame_of)
        if frame is not None:
            yield frame.f_code, frame.f_lineno
        awaitable = getattr(awaitable, awaited_of)


def _wrapped(wrapper: object) -> object:
    return next((inner for inner in gc.get_referents(wrapper) if type(inner) in _SUSPENDED), None)


def _innermost(frames: list[tuple[types.CodeType, int]]) -> Place | None:
    """Return the innermost of the frames, which come innermost first, that is user code; else a library's.

    A program may be installed as the libraries are. Then the outermost of its frames is the user's, as the library was
    called by it, and so are all that are in the same package.
    """
    installed: list[tuple[types.CodeType, int]] = []
    standard: list[tuple[types.CodeType, int]] = []
    for frame in frames:
        file = frame[0].co_filename
        if file.startswith(("<frozen", *_MACHINERY)):
            continue
        if _INSTALLED in file:
            installed.append(frame)
        elif file.startswith(_STANDARD):
            standard.append(frame)
        else:
            return _place(*frame)
    if installed:
        home = _package(installed[-1])
        return _place(*next(frame for frame in installed if _package(frame) == home))
    return _place(*standard[0]) if standard else None


def _package(frame: tuple[types.CodeType, int]) -> str:
    return frame[0].co_filename.rpartition(_INSTALLED)[2].split(os.sep, 1)[0]


def _place(code: types.CodeType, line: int | None) -> Place:
    number = line or code.co_firstlineno
    return Place(code.co_filename, number, code.co_qualname, linecache.getline(code.co_filename, number).strip())


def frames_of_threads() -> dict[int, types.FrameType]:
    """Return the innermost frame of each thread, by its `ident`; empty where Python can't say."""
    current_frames = getattr(sys, "_current_frames", None)
    return {} if current_frames is None else current_frames()
