"""fluent.pyi: each fluent method that RxPY has is there, with RxPY's parameters, and nothing that isn't."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from reactivex import Observable

from rxwow import operators
from rxwow.streams import fluent
from rxwow.streams.flowable import Flowable

# What Piped has, and what is RxPY's own as it is: no operators, or those that give something to connect.
ELSEWHERE = {"publish_value", "pipe", "subscribe", "run", "lock", "publish", "multicast", "ref_count", "replay"}


def stubs() -> dict[str, list[ast.FunctionDef]]:
    text = Path(fluent.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    (written,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "Fluent"]
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in written.body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


STUBS = stubs()
RXPY = {
    name: method
    for name, method in inspect.getmembers(Observable, inspect.isfunction)
    if not name.startswith("_") and name not in ELSEWHERE and str(method.__annotations__["return"]).startswith("Obs")
}


def test_each_method_of_rxpy_is_there_and_each_that_is_there_exists() -> None:
    assert set(RXPY) - set(STUBS) == set()
    assert {name for name in STUBS if not callable(getattr(Flowable, name, None))} == set()


@pytest.mark.parametrize("name", sorted(RXPY))
def test_a_method_has_the_parameters_of_rxpy(name: str) -> None:
    makers: list[Any] = [RXPY[name], getattr(Flowable, name), getattr(operators, name, None)]
    allowed = {parameter for maker in makers if maker is not None for parameter in inspect.signature(maker).parameters}
    for stub in STUBS[name]:
        arguments = stub.args
        # What is positional only has any name.
        named = [*(arguments.args if not arguments.posonlyargs else ()), *arguments.kwonlyargs]
        # A parameter with two underscores is the old way to say so.
        told = {argument.arg.lstrip("_") for argument in named}
        assert told <= {parameter.lstrip("_") for parameter in allowed} | {"self"}, name
