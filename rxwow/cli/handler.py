"""The user's handler, found by its name."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.wording import describe_error, did_you_mean

__all__ = ["Handler", "load_handler"]


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler and where it came from.

    Attributes:
        name: MODULE:FUNCTION, as the user wrote it.
        function: what is called with each record.
        folder: where its code is, for telling where an error arose.
    """

    name: str
    function: Callable[[Any], Any]
    folder: Path


def load_handler(reference: str, folder: str = ".") -> Handler:
    """Import the handler that `reference` names.

    Args:
        reference: MODULE:FUNCTION; FUNCTION may be an attribute of an attribute, such as `registry.record`.
        folder: put on the import path first, so that a module beside the data is found.

    Raises:
        BadInputError: it says what was wrong, and with which part.
    """
    module_name, separator, path = reference.partition(":")
    if not separator or not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise BadInputError(f"--handler must be MODULE:FUNCTION, such as planes:record, not {reference!r}")
    root = Path(folder).resolve()
    if not root.is_dir():
        raise BadInputError(f"--app-dir {folder}: no such directory")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    module = _import(module_name, root)
    function = _attribute(module, path)
    _check_callable(function, reference)
    # A module that is written in C has no file.
    file: str | None = getattr(module, "__file__", None)
    place = Path(file).resolve().parent if file else root
    return Handler(reference, function, place)


def _import(name: str, root: Path) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = "; it is named without .py" if name.endswith(".py") else ""
            raise BadInputError(
                f"--handler: no module {error.name!r} in {root} or among the installed ones{hint}"
            ) from error
        raise BadInputError(f"--handler: importing {name} failed: {describe_error(error, root)}") from error
    except (Exception, SystemExit) as error:
        raise BadInputError(f"--handler: importing {name} failed: {describe_error(error, root)}") from error


def _attribute(module: ModuleType, path: str) -> Any:
    owner: Any = module
    reached = module.__name__
    for name in path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError as error:
            known = [entry for entry in dir(owner) if not entry.startswith("_")]
            raise BadInputError(f"--handler: {reached} has no {name!r}{did_you_mean(name, known)}") from error
        reached += f".{name}"
    return owner


def _check_callable(function: Any, reference: str) -> None:
    if not callable(function):
        raise BadInputError(f"--handler: {reference} can't be called; it is of type {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadInputError(f"--handler: {reference} is a generator; a handler returns one result, by return or await")
    try:
        inspect.signature(function).bind({})
    except TypeError as error:
        raise BadInputError(
            f"--handler: {reference} must take one argument, the record; its signature is {inspect.signature(function)}"
        ) from error
    except ValueError:
        # Some callables written in C have no signature; they are taken at their word.
        pass
