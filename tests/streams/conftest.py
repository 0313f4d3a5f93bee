import logging
from collections.abc import Iterator

import pytest

from tests.streams.probe import Log


@pytest.fixture
def log() -> Iterator[Log]:
    """What is logged on `rxwow.streams` during the test."""
    handler = Log()
    logger = logging.getLogger("rxwow.streams")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
