"""Settings of the documentation: `python3 dev.py docs` builds it."""

from rxwow.streams.operator_table import OPERATORS, OperatorEntry

project = "rxwow"
author = "The rxwow authors"
copyright = author  # noqa: A001 - Sphinx asks for this name

extensions = ["myst_nb"]
exclude_patterns = ["_build"]
html_theme = "furo"

# A notebook that fails is a broken page.
nb_execution_raise_on_error = True


def _line(entry: OperatorEntry) -> str:
    takes = held = ""
    if entry.made_of:
        takes = str(entry.traits.takes) + (", may end early" if entry.ends_early else "")
        held = "as many as it keeps" if entry.holds is None else f"{entry.holds:,}" if entry.holds else "-"
    cost = "" if entry.cost is None else f"{entry.cost:g} x plain RxPY"
    return f"| `{entry.name}` | {entry.kind} | {takes} | {held} | {cost} | {entry.note} |"


HEAD = "| Operator | Is | Takes | Holds | Costs | Note |\n|---|---|---|---|---|---|\n"

myst_enable_extensions = ["substitution"]
# The page shows the data that the tests check.
myst_substitutions = {"operators": HEAD + "\n".join(map(_line, OPERATORS.values()))}
