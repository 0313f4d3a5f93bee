"""worker_local: a resource that each worker has one of, since it is bound to the event loop that made it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar, overload

from rxwow.errors import HandlerExit, InvalidArgumentError, UsageError
from rxwow.execution.options import check_callable
from rxwow.streams.description import describe
from rxwow.streams.guard import running_loop

__all__ = ["LoopResources", "WorkerLocal", "begin_resources", "end_resources", "forget_resources", "worker_local"]

logger = logging.getLogger("rxwow.execution")

T = TypeVar("T")
R = TypeVar("R")


class WorkerLocal(Generic[R]):
    """What `worker_local` returns: calling it gives the resource of the worker on whose event loop it is called."""

    __slots__ = ("__weakref__", "_factory")

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory

    def __call__(self) -> R:
        """Return this worker's resource, or an awaitable of it if the factory is asynchronous.

        Raises:
            UsageError: called where no worker's event loop runs.
        """
        resource: R = _resources_here(self).get(self, self._factory)
        return resource

    def __repr__(self) -> str:
        return f"worker_local({describe(self._factory)})"


@overload
def worker_local(
    factory: Callable[[], contextlib._AsyncGeneratorContextManager[T]],
) -> WorkerLocal[Coroutine[Any, Any, T]]: ...


@overload
def worker_local(factory: Callable[[], Awaitable[T]]) -> WorkerLocal[Coroutine[Any, Any, T]]: ...


@overload
def worker_local(factory: Callable[[], contextlib._GeneratorContextManager[T]]) -> WorkerLocal[T]: ...


@overload
def worker_local(factory: Callable[[], T]) -> WorkerLocal[T]: ...


def worker_local(factory: Callable[[], Any]) -> WorkerLocal[Any]:
    """Give each worker a resource of its own: an HTTP session, a pool of connections, what belongs to one event loop.

    Calling what is returned, in a handler or in any other code on a worker's loop, gives that worker's resource. The
    first call on a loop makes it; if the factory is asynchronous, each call returns an awaitable of it, and those that
    come while it is made wait for the same one. When the worker stops, and before its loop is closed, its resources are
    closed on that loop, the last that was made first: by `aclose()`, else by `close()`, awaited if they return an
    awaitable. What a `@contextmanager` or `@asynccontextmanager` function yields is closed by what comes after its
    `yield`, and a resource that has no `close` but is a context manager is entered and left. An error of closing is
    logged. On a `KeyedExecutor.on_running_loop()` the resource lives on the caller's loop, and is closed when the last
    executor on that loop ends.

    Args:
        factory: makes a resource. A factory that raises leaves nothing behind; the next call tries again.

    Returns:
        A function without arguments. Outside a worker, on a thread of `@blocking` say, it raises `UsageError`.

    Raises:
        InvalidArgumentError: the factory can't be called.

    >>> from rxwow import Flowable, KeyedExecutor, keyed_dispatch
    >>> class Session:
    ...     def close(self):
    ...         print("closed")
    >>> session = worker_local(Session)
    >>> def handle(message):
    ...     return session() is session()
    >>> with KeyedExecutor(workers=1) as executor:
    ...     Flowable.from_iterable([1]).pipe(keyed_dispatch(str, handle, executor=executor)).run()
    True
    closed
    """
    check_callable("factory", factory)
    return WorkerLocal(factory)


class LoopResources:
    """The resources of one event loop, in the order in which they were made.

    All of it belongs to the loop's thread, but for `users` and `closing`, which `_lock` guards where they are written.
    """

    def __init__(self) -> None:
        self.users = 0
        self.closing = False
        self._made: dict[WorkerLocal[Any], Any] = {}
        self._making: dict[WorkerLocal[Any], asyncio.Task[Any]] = {}
        self._closers: list[tuple[WorkerLocal[Any], Callable[[], object]]] = []

    def __bool__(self) -> bool:
        """Whether there is anything to close."""
        return bool(self._closers or self._making)

    def get(self, local: WorkerLocal[Any], factory: Callable[[], Any]) -> Any:
        """Return the resource that `local` stands for, or a coroutine that does; make it if there is none."""
        if local in self._making:
            return _result(self._making[local])
        if local in self._made:
            return self._made[local]
        if self.closing:
            raise UsageError(f"{local} was not used on this worker before it ended; it makes nothing any more")
        made = factory()
        if isinstance(made, Awaitable) or _is_generated(made):
            self._making[local] = self._begin_making(local, made)
            return _result(self._making[local])
        self._made[local] = self._keep(local, made)
        return self._made[local]

    def _keep(self, local: WorkerLocal[Any], made: Any) -> Any:
        """Note how to close a resource; return it."""
        close = _close_of(made)
        if close is None and _is_manager(made):
            resource = made.__enter__()
            self._closers.append((local, partial(made.__exit__, None, None, None)))
            return resource
        if close is None and _is_async_manager(made):
            allowed = "something with a close or aclose, or what an @asynccontextmanager function yields"
            raise InvalidArgumentError("what the factory of a worker_local makes", made, allowed)
        if close is not None:
            self._closers.append((local, close))
        return made

    def _begin_making(self, local: WorkerLocal[Any], made: Any) -> asyncio.Task[Any]:
        # A task of its own: the message that comes first may be cancelled while others wait for the resource too.
        task = asyncio.get_running_loop().create_task(self._make(local, made), name="rxwow-worker-local")

        def done(task: asyncio.Task[Any]) -> None:
            if inspect.iscoroutine(made):
                # A task that is cancelled before its first step never enters it.
                made.close()
            if task.cancelled() or task.exception() is not None:
                self._making.pop(local, None)

        task.add_done_callback(done)
        return task

    async def _make(self, local: WorkerLocal[Any], made: Any) -> Any:
        try:
            if not _is_generated(made):
                made = await made
            if _close_of(made) is None and _is_async_manager(made):
                resource = await made.__aenter__()
                self._closers.append((local, partial(made.__aexit__, None, None, None)))
                return resource
        except (KeyboardInterrupt, SystemExit) as error:
            # asyncio lets these two end the loop, and with it every message of the worker.
            raise HandlerExit(error, "factory of a worker_local") from error
        return self._keep(local, made)

    async def close(self) -> None:
        """Close all, the last first; what a resource needs to be closed is still there."""
        making = [task for task in self._making.values() if not task.done()]
        for task in making:
            task.cancel()
        if making:
            # Not `wait`, which is cancelled when the loop's own program ends.
            await asyncio.gather(*making, return_exceptions=True)
        while self._closers:
            local, close = self._closers.pop()
            self._made.pop(local, None)
            self._making.pop(local, None)
            try:
                closed = close()
                if inspect.isawaitable(closed):
                    await closed
            except BaseException:
                # An exit too, and a cancel: the others must be closed all the same.
                logger.exception("closing the resource of %s raised", local)

    def abandon(self) -> None:
        """Say that nothing can be closed, as the loop was."""
        locals_left = ", ".join(str(local) for local, _ in self._closers)
        logger.warning(
            "the resources of %s were not closed: their event loop was closed before its executor had ended; await "
            "executor.drain_async() first",
            locals_left,
        )


def _is_manager(made: object) -> bool:
    return isinstance(made, contextlib.AbstractContextManager)


def _is_async_manager(made: object) -> bool:
    return isinstance(made, contextlib.AbstractAsyncContextManager)


def _is_generated(made: object) -> bool:
    """Whether it is what an @asynccontextmanager function returns."""
    return isinstance(made, contextlib._AsyncGeneratorContextManager)


def _close_of(made: object) -> Callable[[], object] | None:
    for name in ("aclose", "close"):
        close: Callable[[], object] | None = getattr(made, name, None)
        if callable(close):
            return close
    return None


async def _result(task: asyncio.Task[R]) -> R:
    return await asyncio.shield(task)


_lock = threading.Lock()
_by_loop: dict[asyncio.AbstractEventLoop, LoopResources] = {}
"""Guarded by `_lock` where it is written. A loop's own thread reads it without: a dictionary guards itself, on
free-threaded CPython too, and an entry is there for as long as its loop has a worker."""


def begin_resources(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop` have resources, for one more worker that runs on it."""
    with _lock:
        resources = _by_loop.get(loop)
        if resources is None or resources.closing:
            resources = _by_loop[loop] = LoopResources()
        resources.users += 1


def end_resources(loop: asyncio.AbstractEventLoop) -> LoopResources | None:
    """Undo `begin_resources`, on the loop's thread; return what is to be closed, after the last worker.

    Whoever gets it calls `forget_resources` when it is closed.
    """
    with _lock:
        resources = _by_loop.get(loop)
        if resources is None:
            # Of the parent's, in a forked child.
            return None
        resources.users -= 1
        if resources.users:
            return None
        resources.closing = True
        if not resources:
            del _by_loop[loop]
            return None
        return resources


def forget_resources(loop: asyncio.AbstractEventLoop, resources: LoopResources | None = None) -> None:
    """Let go of resources that were closed, or of any, when the loop was."""
    with _lock:
        if resources is None or _by_loop.get(loop) is resources:
            _by_loop.pop(loop, None)


def _resources_here(local: WorkerLocal[Any]) -> LoopResources:
    loop = running_loop()
    resources = None if loop is None else _by_loop.get(loop)
    if resources is None:
        raise UsageError(
            f"{local} was called where no worker's event loop runs; call it in a handler, and not in one that is "
            "marked @blocking or runs in a pool (run_in), nor outside of the executor"
        )
    return resources


def _forget_loops() -> None:
    """In a forked child none of the loops runs, and another thread may have held the lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _by_loop.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loops)
