"""worker_local: one resource for each worker's loop, made when it is first asked for, closed on that loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, assert_type

import pytest

from rxwow import KeyedExecutor, blocking
from rxwow.errors import HandlerExit, InvalidArgumentError, UsageError
from rxwow.execution.worker_local import WorkerLocal, _by_loop, worker_local
from rxwow.streams.guard import running_loop
from rxwow.testing import ControlledPlatform, run
from tests.execution.collecting import PATIENCE, Arrivals, Collector, dispatched, results_of
from tests.streams.probe import Log


@pytest.fixture
def log() -> Generator[Log]:
    handler = Log()
    logger = logging.getLogger("rxwow.execution")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Generator[None]:
    before = dict(_by_loop)
    yield
    assert {loop for loop in _by_loop if loop not in before} == set()


class World:
    """What was made and closed, and in which order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: list[str] = []

    def tell(self, event: str) -> None:
        with self.lock:
            self.events.append(event)


class Resource:
    """Any resource; subclasses say how it is closed."""

    def __init__(self, world: World, name: str = "resource") -> None:
        self.world = world
        self.name = name
        self.loop = running_loop()
        assert self.loop is not None
        world.tell(f"made {name}")

    def closed(self) -> None:
        assert running_loop() is self.loop
        self.world.tell(f"closed {self.name}")


class Closes(Resource):
    def close(self) -> None:
        self.closed()


class ClosesLater(Resource):
    async def close(self) -> None:
        await asyncio.sleep(0.001)
        self.closed()


class AcloseFirst(Resource):
    def close(self) -> None:
        raise AssertionError("aclose comes first")

    async def aclose(self) -> None:
        await asyncio.sleep(0.001)
        self.closed()


class Manager(Resource):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed()


class AsyncManager(Resource):
    async def __aenter__(self) -> Self:
        await asyncio.sleep(0.001)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.001)
        self.closed()


# Each way to make one: the factory, given a World.


def by_context_manager(world: World) -> Callable[[], contextlib.AbstractContextManager[Resource]]:
    @contextlib.contextmanager
    def make() -> Generator[Resource]:
        resource = Resource(world)
        yield resource
        resource.closed()

    return make


def by_async_context_manager(world: World) -> Any:
    @contextlib.asynccontextmanager
    async def make() -> AsyncGenerator[Resource]:
        await asyncio.sleep(0.001)
        resource = Resource(world)
        yield resource
        await asyncio.sleep(0.001)
        resource.closed()

    return make


def later(kind: Callable[[World], Any]) -> Callable[[World], Callable[[], Awaitable[Any]]]:
    def given(world: World) -> Callable[[], Awaitable[Any]]:
        async def make() -> Any:
            await asyncio.sleep(0.001)
            return kind(world)

        return make

    return given


def at_once(kind: Callable[[World], Any]) -> Callable[[World], Callable[[], Any]]:
    return lambda world: lambda: kind(world)


SYNC: dict[str, Callable[[World], Any]] = {
    "close": at_once(Closes),
    "async close": at_once(ClosesLater),
    "aclose": at_once(AcloseFirst),
    "context manager": at_once(Manager),
    "context manager function": by_context_manager,
}
ASYNC: dict[str, Callable[[World], Any]] = {
    "close": later(Closes),
    "aclose": later(AcloseFirst),
    "context manager": later(Manager),
    "async context manager": later(AsyncManager),
    "async context manager function": by_async_context_manager,
}


@pytest.mark.parametrize("way", SYNC)
def test_each_worker_makes_one_and_closes_it_on_its_loop(way: str) -> None:
    world = World()
    local: WorkerLocal[Any] = worker_local(SYNC[way](world))
    arrivals = Arrivals(2)

    def handler(number: int) -> tuple[Any, str]:
        if number < 2:
            # So that both workers have one.
            arrivals.arrive()
            assert arrivals.all_there.wait(PATIENCE)
        assert local() is local()
        return local(), threading.current_thread().name

    with KeyedExecutor(2) as executor:
        results = results_of(dispatched(range(50), handler, executor))
        assert world.events == ["made resource"] * 2
    assert len({resource for resource, _ in results}) == len(set(results)) == 2
    assert world.events == ["made resource"] * 2 + ["closed resource"] * 2


@pytest.mark.parametrize("way", ASYNC)
def test_concurrent_first_uses_of_an_async_factory_make_one(way: str) -> None:
    world = World()
    local: WorkerLocal[Any] = worker_local(ASYNC[way](world))

    async def handler(_: int) -> Any:
        return await local()

    with KeyedExecutor(1) as executor:
        results = results_of(dispatched(range(50), handler, executor))
    assert len(set(results)) == 1
    assert isinstance(results[0], Resource)
    assert world.events == ["made resource", "closed resource"]


# The order, errors, and the ends.


def test_resources_are_closed_in_the_reverse_order_and_may_use_those_before_them() -> None:
    world = World()
    pool = worker_local(lambda: Closes(world, "pool"))

    class Repository(Resource):
        async def aclose(self) -> None:
            assert pool().name == "pool"
            await asyncio.sleep(0.001)
            self.closed()

    async def make() -> Repository:
        pool()
        await asyncio.sleep(0.001)
        return Repository(world, "repository")

    repository = worker_local(make)
    last = worker_local(lambda: Closes(world, "last"))

    async def handler(_: int) -> None:
        await repository()
        last()

    with KeyedExecutor(1) as executor:
        dispatched([1], handler, executor).run()
    assert world.events == [
        *("made pool", "made repository", "made last"),
        *("closed last", "closed repository", "closed pool"),
    ]


def test_an_error_of_closing_is_logged_and_the_others_are_closed(log: Log) -> None:
    world = World()

    class Fails(Resource):
        def close(self) -> None:
            raise (ValueError if self.name == "1" else SystemExit)(self.name)

    locals_made: list[WorkerLocal[Resource]] = [
        worker_local(lambda: Closes(world, "0")),
        worker_local(lambda: Fails(world, "1")),
        worker_local(lambda: Fails(world, "2")),
    ]
    with KeyedExecutor(1) as executor:
        dispatched([1], lambda _: [local() for local in locals_made], executor).run()
    assert world.events == ["made 0", "made 1", "made 2", "closed 0"]
    assert [record.levelname for record in log.records] == ["ERROR", "ERROR"]
    assert "closing the resource of worker_local(" in log.messages[0]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_factory_that_fails_is_tried_again(asynchronous: bool) -> None:
    world = World()
    attempts: list[int] = []

    def make() -> Any:
        attempts.append(1)
        if len(attempts) < 3:
            raise (ValueError if len(attempts) == 1 else SystemExit)("no")
        return Closes(world)

    async def make_later() -> Any:
        await asyncio.sleep(0)
        return make()

    local: WorkerLocal[Any] = worker_local(make_later if asynchronous else make)

    async def handler(_: int) -> str:
        try:
            resource = await local() if asynchronous else local()
        except (ValueError, SystemExit, HandlerExit) as error:
            return type(error).__name__
        return str(resource.name)

    with KeyedExecutor(1, throughput=1) as executor:
        results = results_of(dispatched(["key"] * 4, handler, executor))
    second = "HandlerExit" if asynchronous else "SystemExit"
    assert results == ["ValueError", second, "resource", "resource"]
    assert world.events == ["made resource", "closed resource"]


def test_a_message_that_is_cancelled_leaves_the_resource_to_the_others() -> None:
    world = World()

    def scenario(_: ControlledPlatform) -> None:
        async def make() -> Any:
            await asyncio.sleep(1)
            return Closes(world)

        local = worker_local(make)

        async def handler(number: int) -> Any:
            if number:
                return await local()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(local(), 0.5)
            return None

        executor = KeyedExecutor(1)
        assert results_of(dispatched([0, 1], handler, executor))[1] is not None
        executor.drain()

    run(scenario)
    assert world.events == ["made resource", "closed resource"]


def test_a_handler_cleans_up_with_its_resource_before_that_is_closed() -> None:
    world = World()
    local = worker_local(lambda: Closes(world))
    began = threading.Event()

    async def handler(_: int) -> None:
        resource = local()
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            assert local() is resource
            world.tell("cleaned up")

    executor = KeyedExecutor(1)
    dispatched([1], handler, executor).subscribe(Collector(1))
    assert began.wait(PATIENCE)
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert world.events == ["made resource", "cleaned up", "closed resource"]


def test_tasks_of_a_resource_live_until_it_is_closed() -> None:
    # Such as those with which a pool of connections looks after them.
    world = World()

    class Pool(Resource):
        def __init__(self, world: World) -> None:
            super().__init__(world)
            self.task = asyncio.get_running_loop().create_task(asyncio.Event().wait())

        async def close(self) -> None:
            assert not self.task.cancelling()
            self.task.cancel()
            self.closed()

    local = worker_local(lambda: Pool(world))
    with KeyedExecutor(1) as executor:
        dispatched([1], lambda _: local(), executor).run()
    assert world.events == ["made resource", "closed resource"]


@pytest.mark.seeds(60, soak=2000)
def test_whatever_the_schedule_all_that_was_made_is_closed(seed: int) -> None:
    world = World()

    def scenario(platform: ControlledPlatform) -> None:
        async def make() -> Any:
            await asyncio.sleep(0.001)
            return ClosesLater(world)

        sync, asynchronous = worker_local(lambda: Closes(world)), worker_local(make)

        async def handler(number: int) -> None:
            if number % 2:
                sync()
            await asyncio.sleep(number % 3 * 0.001)
            await asynchronous()

        executor = KeyedExecutor(2)
        dispatched(range(6), handler, executor).subscribe(Collector(10))
        platform.sleep(platform.random.choice([0, 0.001, 0.0015, 0.01]))
        executor.dispose()
        executor.wait_closed()

    run(scenario, seed)
    assert world.events.count("made resource") == world.events.count("closed resource")


def test_a_forgotten_executor_closes_its_resources() -> None:
    world = World()
    local = worker_local(lambda: Closes(world))

    def forget() -> None:
        dispatched([1], lambda _: local().name, KeyedExecutor(1, name="unended")).run()
        for _ in range(1000):
            gc.collect()
            threads = [thread for thread in threading.enumerate() if thread.name == "unended-0"]
            if not threads:
                return
            threads[0].join(0.01)
        pytest.fail("it was not collected")

    with pytest.warns(ResourceWarning, match="unended"):
        forget()
    assert world.events == ["made resource", "closed resource"]


# Where it can be used.


@pytest.mark.parametrize("ending", ["drain", "dispose"])
def test_on_a_running_loop_it_lives_on_that_loop_and_ends_with_the_executor(ending: str) -> None:
    world = World()
    local = worker_local(lambda: ClosesLater(world))

    async def main() -> None:
        executor = KeyedExecutor.on_running_loop()
        resource = [result async for result in dispatched([1], lambda _: local(), executor)][0:1]
        # The caller's own code is on that loop too.
        assert [local()] == resource
        assert resource[0].loop is asyncio.get_running_loop()
        assert world.events == ["made resource"]
        if ending == "drain":
            await executor.drain_async()
        else:
            executor.dispose()
            assert await executor.wait_closed_async(PATIENCE)
        assert world.events == ["made resource", "closed resource"]
        with pytest.raises(UsageError, match="no worker's event loop"):
            local()

    asyncio.run(main())


def test_two_executors_on_one_loop_share_it() -> None:
    world = World()
    local = worker_local(lambda: Closes(world))

    async def main() -> None:
        async with KeyedExecutor.on_running_loop() as first:
            async with KeyedExecutor.on_running_loop() as second:
                for executor in (first, second):
                    async for _ in dispatched([1], lambda _: local(), executor):
                        pass
            assert world.events == ["made resource"]
        assert world.events == ["made resource", "closed resource"]
        async with KeyedExecutor.on_running_loop():
            local()
        assert world.events == ["made resource", "closed resource"] * 2

    asyncio.run(main())


def test_a_loop_that_is_closed_too_soon_is_told_of(log: Log) -> None:
    world = World()
    local = worker_local(lambda: Closes(world))

    async def main() -> KeyedExecutor:
        executor = KeyedExecutor.on_running_loop()
        local()
        return executor

    executor = asyncio.run(main())
    executor.dispose()
    assert executor.wait_closed(PATIENCE)
    assert world.events == ["made resource"]
    (message,) = log.messages
    assert "were not closed: their event loop was closed" in message


def test_outside_of_a_worker_it_is_an_error_that_says_so() -> None:
    local: WorkerLocal[list[int]] = worker_local(list)
    with pytest.raises(UsageError, match="where no worker's event loop runs"):
        local()

    async def elsewhere() -> None:
        local()

    with pytest.raises(UsageError, match="@blocking"):
        asyncio.run(elsewhere())

    @blocking
    def marked(_: int) -> None:
        local()

    with KeyedExecutor(1) as executor, ThreadPoolExecutor(1) as pool:
        with pytest.raises(UsageError, match="@blocking"):
            dispatched([1], marked, executor).run()
        with pytest.raises(UsageError, match="run_in"):
            dispatched([1], lambda _: local(), executor, run_in=pool).run()


def test_nothing_is_made_for_a_worker_that_has_ended() -> None:
    world = World()
    late = worker_local(lambda: Closes(world, "late"))
    errors: list[Exception] = []

    class Asks(Resource):
        def close(self) -> None:
            try:
                late()
            except UsageError as error:
                errors.append(error)
            self.closed()

    local = worker_local(lambda: Asks(world))
    with KeyedExecutor(1) as executor:
        dispatched([1], lambda _: local().name, executor).run()
    assert world.events == ["made resource", "closed resource"]
    assert "was not used on this worker before it ended" in str(errors[0])


def test_what_cannot_be_closed_is_left_and_what_must_be_entered_later_is_refused() -> None:
    world = World()
    with KeyedExecutor(1) as executor:
        assert dispatched([1], lambda _: worker_local(dict)(), executor).run() == {}
        unentered = worker_local(lambda: AsyncManager(world))
        with pytest.raises(InvalidArgumentError, match="asynccontextmanager"):
            dispatched([1], lambda _: unentered(), executor).run()
        # A connection of sqlite3 is a context manager, but its end is no close.
        connection = worker_local(lambda: sqlite3.connect(":memory:", check_same_thread=False))
        made = dispatched([1], lambda _: connection(), executor).run()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made.execute("select 1")


def test_a_factory_must_be_callable() -> None:
    wrong: Any = 1
    with pytest.raises(InvalidArgumentError, match="factory"):
        worker_local(wrong)


def what_type_checkers_make_of_it(world: World) -> None:
    async def make() -> Closes:
        return Closes(world)

    @contextlib.contextmanager
    def manage() -> Generator[Closes]:
        yield Closes(world)

    @contextlib.asynccontextmanager
    async def manage_later() -> AsyncGenerator[Closes]:
        yield Closes(world)

    async def use() -> None:
        assert_type(worker_local(lambda: Closes(world))(), Closes)
        assert_type(worker_local(manage)(), Closes)
        assert_type(await worker_local(make)(), Closes)
        assert_type(await worker_local(manage_later)(), Closes)
        assert_type(worker_local(lambda: sqlite3.connect(":memory:"))(), sqlite3.Connection)

    assert use is not None
