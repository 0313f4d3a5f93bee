"""The README's first example runs as it stands."""

import re
from pathlib import Path
from typing import Any

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["balances"] == {"ann": 3, "bob": 3}


def test_its_two_commands_are_those_of_the_developers_script() -> None:
    assert re.findall(r"python3 dev\.py (\w+)", README) == ["demo", "test"]
