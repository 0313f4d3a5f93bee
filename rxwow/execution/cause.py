"""What a dispatch that doesn't move waits for."""

from __future__ import annotations

import enum

__all__ = ["Cause"]


class Cause(enum.Enum):
    """What a dispatch, or the messages of one key, wait for; the value says it in words."""

    HANDLER = "a handler runs, and holds its worker"
    AWAITABLE = "a handler waits in an await"
    FUTURE = "a handler's future is not done"
    OBSERVABLE = "a handler's Observable has not completed"
    POOL_THREAD = "a handler that blocks holds a thread of the pool"
    POOL_FULL = "all threads for handlers that block are taken"
    RETRY = "the next attempt of a message that failed is not due"
    WORKER = "the worker is held by something else"
    TURN = "the worker has not come to it yet"
    SUBSCRIBER = "the subscriber has not returned from a call"
    NO_DEMAND = "the subscriber has not asked for more"
    NOTHING_REQUESTED = "the subscriber has asked for nothing at all"
    SOURCE = "the source has not returned from a call"
    SOURCE_SILENT = "the source was asked, and has sent nothing"
    SOURCE_NOT_SUBSCRIBED = "the source has not called on_subscribe"
    LOCK = "a thread holds the dispatch's lock, in a comparison of keys"
    NOTHING = "there is nothing to do"
    ENDED = "the dispatch has ended"
