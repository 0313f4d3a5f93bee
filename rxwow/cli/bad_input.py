"""BadInputError: what the user gave can't be used."""

__all__ = ["BadInputError"]


class BadInputError(Exception):
    """Its message is shown as one line on standard error, without a traceback, and the exit status is 2."""
