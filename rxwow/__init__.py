"""Keyed, ordered, backpressured message dispatch for RxPY."""

import logging

from rxwow.execution import FAIL, SKIP, Backoff, KeyedExecutor, KeyedScheduler, Retry, blocking, keyed_dispatch
from rxwow.streams.flowable import Flowable

__all__ = [
    "FAIL",
    "SKIP",
    "Backoff",
    "Flowable",
    "KeyedExecutor",
    "KeyedScheduler",
    "Retry",
    "__version__",
    "blocking",
    "keyed_dispatch",
]

__version__ = "0.1.0"

# The application decides where logs go.
logging.getLogger(__name__).addHandler(logging.NullHandler())
