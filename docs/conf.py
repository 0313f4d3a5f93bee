"""Settings of the documentation: `python3 dev.py docs` builds it."""

project = "rxwow"
author = "The rxwow authors"
copyright = author  # noqa: A001 - Sphinx asks for this name

extensions = ["myst_nb"]
exclude_patterns = ["_build"]
html_theme = "furo"

# A notebook that fails is a broken page.
nb_execution_raise_on_error = True
