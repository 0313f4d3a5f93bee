"""A handler is found by its name, or it is said why not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rxwow.cli.bad_input import BadInputError
from rxwow.cli.handler import load_handler

Write = Callable[[str, str | bytes], Path]

MODULE = """
    import functools

    def record(row):
        return row["key"]

    async def record_later(row):
        return row["key"]

    class Registry:
        def record(self, row):
            return row["key"]

    registry = Registry()
    number = 3

    def two(row, other): ...
    def none(): ...
    def named(*, row): ...
    def more(row, other=1): ...
    def any(*rows, **options): ...
    def generate(row):
        yield row
    async def generate_later(row):
        yield row
    class Wanting:
        def __init__(self, row, other): ...
"""


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> str:
    write("planes.py", MODULE)
    write("broken.py", "def record(row)\n    pass\n")
    write("failing.py", "def fail():\n    raise RuntimeError('not\\ntoday')\nfail()\n")
    write("leaving.py", "raise SystemExit(3)\n")
    write("wanting.py", "import no_such\n")
    (tmp_path / "package").mkdir()
    write("package/__init__.py", "")
    write("package/planes.py", MODULE)
    return str(tmp_path)


@pytest.mark.parametrize("module", ["planes", "package.planes"])
@pytest.mark.parametrize("function", ["record", "registry.record"])
def test_a_handler_is_found(folder: str, module: str, function: str) -> None:
    handler = load_handler(f"{module}:{function}", folder)
    assert handler.function({"key": 3}) == 3
    assert handler.name == f"{module}:{function}"
    assert handler.folder == Path(folder, *module.split(".")).parent


@pytest.mark.parametrize("function", ["record_later", "more", "any"])
def test_what_takes_one_argument_is_a_handler(folder: str, function: str) -> None:
    load_handler(f"planes:{function}", folder)


def test_a_callable_without_a_signature_is_taken_at_its_word(folder: str) -> None:
    assert load_handler("builtins:dict", folder).function is dict


def test_the_directory_goes_first_on_the_path_and_once(folder: str) -> None:
    import sys

    load_handler("planes:record", folder)
    load_handler("planes:record", folder)
    assert sys.path[0] == folder
    assert sys.path.count(folder) == 1


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("planes", "--handler must be MODULE:FUNCTION, such as planes:record, not 'planes'"),
        ("planes:", "--handler must be MODULE:FUNCTION, such as planes:record, not 'planes:'"),
        (":record", "--handler must be MODULE:FUNCTION, such as planes:record, not ':record'"),
        (
            "planes.py:record",
            "--handler: no module 'planes.py' in {folder} or among the installed ones; it is named without .py",
        ),
        ("./planes:record", "--handler must be MODULE:FUNCTION, such as planes:record, not './planes:record'"),
        ("planes:record()", "--handler must be MODULE:FUNCTION, such as planes:record, not 'planes:record()'"),
        ("plains:record", "--handler: no module 'plains' in {folder} or among the installed ones"),
        ("planes.sub:record", "--handler: no module 'planes.sub' in {folder} or among the installed ones"),
        ("package.sub:record", "--handler: no module 'package.sub' in {folder} or among the installed ones"),
        (
            "wanting:record",
            "--handler: importing wanting failed: ModuleNotFoundError: No module named 'no_such' (wanting.py, line 1)",
        ),
        ("broken:record", "--handler: importing broken failed: SyntaxError: expected ':' (broken.py, line 1)"),
        ("failing:record", "--handler: importing failing failed: RuntimeError: not today (failing.py, line 2)"),
        ("leaving:record", "--handler: importing leaving failed: SystemExit: 3 (leaving.py, line 1)"),
        ("planes:recrod", "--handler: planes has no 'recrod'; did you mean 'record'?"),
        ("planes:registry.recrod", "--handler: planes.registry has no 'recrod'; did you mean 'record'?"),
        ("planes:number", "--handler: planes:number can't be called; it is of type int"),
        ("planes:two", "--handler: planes:two must take one argument, the record; its signature is (row, other)"),
        ("planes:none", "--handler: planes:none must take one argument, the record; its signature is ()"),
        ("planes:named", "--handler: planes:named must take one argument, the record; its signature is (*, row)"),
        (
            "planes:Wanting",
            "--handler: planes:Wanting must take one argument, the record; its signature is (row, other)",
        ),
        (
            "planes:generate",
            "--handler: planes:generate is a generator; a handler returns one result, by return or await",
        ),
        (
            "planes:generate_later",
            "--handler: planes:generate_later is a generator; a handler returns one result, by return or await",
        ),
    ],
)
def test_what_is_no_handler_is_refused(folder: str, reference: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        load_handler(reference, folder)
    assert str(caught.value) == message.format(folder=folder)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"--app-dir .*/missing: no such directory$"):
        load_handler("planes:record", str(tmp_path / "missing"))
