"""Lines of NDJSON into records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.lines import Line

__all__ = ["ndjson_records"]


def ndjson_records(lines: Iterator[Line], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line's number and its JSON object; blank lines are passed over.

    Raises:
        BadInputError: a line isn't JSON, or not an object.
    """
    decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
    for number, text in lines:
        text = text.strip()
        if not text:
            continue
        try:
            value = decode(text)
        except json.JSONDecodeError as error:
            raise BadInputError(f"{name}: line {number}: not JSON: {error.msg} at column {error.pos + 1}") from error
        except RecursionError as error:
            raise BadInputError(f"{name}: line {number}: nested too deeply") from error
        except ValueError as error:
            raise BadInputError(f"{name}: line {number}: not JSON: {error}") from error
        if not isinstance(value, dict):
            raise BadInputError(f"{name}: line {number}: {_kind(value)}, but each line must be a JSON object")
        yield number, value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return "a string"
    return "a number" if type(value) in {int, float} else json.dumps(value)
