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
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        try:
            value = decode(text)
        except json.JSONDecodeError as error:
            # An array over several lines, which is no NDJSON, begins like this.
            what = f"{error.msg} at column {error.pos + 1}" if text[0] != "[" else "an array"
            raise BadInputError(f"{name}: line {number}: not a JSON object: {what}") from error
        except RecursionError as error:
            raise BadInputError(f"{name}: line {number}: nested too deeply") from error
        except ValueError as error:
            raise BadInputError(f"{name}: line {number}: not a JSON object: {error}") from error
        if not isinstance(value, dict):
            raise BadInputError(f"{name}: line {number}: not a JSON object: {_kind(value)}")
        yield number, value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return "a string"
    return "a number" if type(value) in {int, float} else json.dumps(value)
