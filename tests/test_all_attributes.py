"""What a module offers is what its `__all__` says."""

import inspect
import pkgutil
from importlib import import_module

import pytest

import rxwow


def _reraise(_package: str) -> None:
    raise  # noqa: PLE0704 - walk_packages calls this while the import's error is being handled


MODULES = [
    "rxwow",
    *(
        module.name
        for module in pkgutil.walk_packages(rxwow.__path__, "rxwow.", onerror=_reraise)
        if not module.name.endswith(".__main__")
    ),
]
PUBLIC = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_has_all(name: str) -> None:
    assert hasattr(import_module(name), "__all__"), f"{name} needs an __all__, or a name that begins with an underscore"


@pytest.mark.parametrize("name", MODULES)
def test_each_name_in_all_exists_once(name: str) -> None:
    module = import_module(name)
    listed: list[str] = list(getattr(module, "__all__", []))
    assert [entry for entry in listed if not hasattr(module, entry)] == []
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_definition_is_in_all(name: str) -> None:
    module = import_module(name)
    defined = {
        entry
        for entry, value in vars(module).items()
        if not entry.startswith("_")
        and (inspect.isclass(value) or inspect.isroutine(value))
        and value.__module__ == name
    }
    assert defined - set(module.__all__) == set()
