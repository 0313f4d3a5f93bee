"""The pytest plugin: seeds, virtual time on controlled threads, and a look for threads that were left behind.

    def test_orders(rxwow_executor_factory, rxwow_scheduler):        # runs under 20 seeds, each a test of its own
        dispatch = keyed_dispatch(account, charge, executor=rxwow_executor_factory(workers=2))
        orders = rxwow_scheduler.create_hot_observable(on_next(210, order))
        assert rxwow_scheduler.start(lambda: orders.pipe(dispatch)).messages == [on_next(240, receipt)]

    @pytest.mark.rxwow_seeds(500)
    def test_the_cache(rxwow_explore):                               # runs a scenario under 500 seeds
        rxwow_explore(two_threads_and_a_cache)

    @pytest.mark.usefixtures("rxwow_no_threads_left")
    def test_the_service(): ...                                      # on real threads

What failed is run again with the seed that the report names: `pytest ... --rxwow-seed=7`. `--rxwow-seeds=5000` runs all
under so many seeds, for a night. Tests that use none of the fixtures are left alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest

# Nothing of rxwow is imported here, but where a fixture is used: pytest loads this in each of its runs.
if TYPE_CHECKING:
    from contextvars import Token

    from rxwow import KeyedExecutor
    from rxwow.platform import Platform, Thread
    from rxwow.testing.controlled import ControlledPlatform
    from rxwow.testing.scheduler import ControlledTestScheduler

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
    "rxwow_executor_factory",
    "rxwow_explore",
    "rxwow_no_threads_left",
    "rxwow_platform",
    "rxwow_scheduler",
    "rxwow_seed",
]

DEFAULT_SEEDS: Final = 20
ENDING_TIME: Final = 5.0
"""Most seconds to wait for threads that are about to end; only a test that fails takes as long."""


# Seeds.


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say which seeds to run."""
    group = parser.getgroup("rxwow", "rxwow: threads under control")
    group.addoption(
        "--rxwow-seeds",
        type=int,
        metavar="N",
        help="run the tests that use seeds under N of them, whatever their rxwow_seeds markers say",
    )
    group.addoption("--rxwow-seed", type=int, metavar="SEED", help="run the tests that use seeds under this one only")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and check the options."""
    config.addinivalue_line(
        "markers", f"rxwow_seeds(count): how many seeds a test of rxwow runs under; {DEFAULT_SEEDS} without it"
    )
    count: int | None = config.getoption("--rxwow-seeds")
    if count is not None and count < 1:
        raise pytest.UsageError(f"--rxwow-seeds must be at least 1, not {count}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each seed of those that use `rxwow_seed`, so that each passes or fails by itself."""
    if "rxwow_seed" in metafunc.fixturenames and not _names_its_seeds(metafunc.definition):
        seeds = _seeds(metafunc.definition)
        metafunc.parametrize("rxwow_seed", seeds, indirect=True, ids=[f"seed{seed}" for seed in seeds])


def _names_its_seeds(item: pytest.Item) -> bool:
    """Return whether the user has parametrized the seed, with those that once failed, say."""
    for marker in item.iter_markers("parametrize"):
        names: str | Sequence[str] = marker.args[0] if marker.args else marker.kwargs["argnames"]
        if "rxwow_seed" in ([name.strip() for name in names.split(",")] if isinstance(names, str) else names):
            return True
    return False


def _seeds(item: pytest.Item) -> Sequence[int]:
    seed: int | None = item.config.getoption("--rxwow-seed")
    if seed is not None:
        return [seed]
    marker = item.get_closest_marker("rxwow_seeds")
    count: object = DEFAULT_SEEDS
    if marker is not None:
        count = marker.args[0] if len(marker.args) == 1 and not marker.kwargs else None
    if not isinstance(count, int) or count < 1:
        pytest.fail(f"{item.nodeid}: rxwow_seeds(count) takes one whole number of at least 1", pytrace=False)
    return range(item.config.getoption("--rxwow-seeds") or count)


@pytest.fixture
def rxwow_seed(request: pytest.FixtureRequest) -> int:
    """A seed for `rxwow.testing.run` or `DeterministicExecutor`; the test runs once for each.

    They are 0, 1, ... up to the count of the marker `rxwow_seeds(count)`, or 20. All fixtures of rxwow that need a seed
    use this one. `@pytest.mark.parametrize("rxwow_seed", [4, 7])` gives particular ones.
    """
    seed: int = getattr(request, "param", _seeds(request.node)[0])
    return seed


@pytest.fixture
def rxwow_explore(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`rxwow.testing.explore` under the seeds of the marker `rxwow_seeds(count)`, all in one test.

    Call it with the scenario, and with what else `explore` takes but the seeds.
    """
    seeds = _seeds(request.node)

    def explore_seeds(scenario: Callable[[ControlledPlatform], object], **options: Any) -> None:
        from rxwow.testing import ScheduleFailure, explore

        try:
            explore(scenario, seeds, **options)
        except ScheduleFailure as failure:
            if failure.seed is not None:
                request.node.stash[_FAILED_SEED] = failure.seed
            raise

    return explore_seeds


_FAILED_SEED: Final = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say under which seed a test failed and how to run it again."""
    report = yield
    arguments: dict[str, Any] = getattr(item, "funcargs", {})
    seed: int | None = item.stash.get(_FAILED_SEED, arguments.get("rxwow_seed"))
    if report.failed and seed is not None:
        again = f"pytest {shlex.quote(item.nodeid)} --rxwow-seed={seed}"
        report.sections.append(("rxwow", f"It failed under seed {seed}. To run it again:\n    {again}"))
    return report


# A test as the main thread of a controlled run.


class _ControlledTest:
    """The controlled run that one test is, from the set-up of its fixtures to their tear-down."""

    def __init__(self, seed: int) -> None:
        from rxwow.platform import _current
        from rxwow.testing.controlled import ControlledPlatform

        self.platform = ControlledPlatform(seed)
        self.executors: list[KeyedExecutor] = []
        self.platform.begin()
        self._outside: Token[Platform] | None = _current.set(self.platform)

    def finish(self) -> None:
        """Drain the executors, as the end of a `with` block does; raise what went wrong on any thread."""
        try:
            for executor in reversed(self.executors):
                executor.drain()
        except BaseException as error:
            self.raise_failure(error)
            raise
        self.raise_failure(None)

    def raise_failure(self, error: BaseException | None) -> None:
        """End the run if it can't go on, and raise why; what the test itself has raised may be a mere consequence."""
        if self.platform._baton.failure is not None:
            self.end(error)

    def dispose(self) -> None:
        for executor in self.executors if self._outside else ():
            executor.dispose()

    def end(self, error: BaseException | None = None) -> None:
        from rxwow.platform import _current

        if self._outside is not None:
            _current.reset(self._outside)
            self._outside = None
            self.platform.end(error)


_CONTROLLED: Final = pytest.StashKey[_ControlledTest]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Let what went wrong in a test's controlled threads be the test's failure."""
    controlled = pyfuncitem.stash.get(_CONTROLLED, None)
    try:
        result = yield
    except BaseException as error:
        if controlled is not None:
            controlled.raise_failure(error)
        raise
    if controlled is not None:
        controlled.finish()
    return result


@pytest.fixture
def rxwow_platform(request: pytest.FixtureRequest, rxwow_seed: int) -> Generator[ControlledPlatform]:
    """A `ControlledPlatform` whose main thread the test is: what it makes of rxwow follows the seed, in virtual time.

    An exception on a thread, or a deadlock, fails the test and shows the schedule.
    """
    controlled = request.node.stash[_CONTROLLED] = _ControlledTest(rxwow_seed)
    yield controlled.platform
    controlled.end()


@pytest.fixture
def rxwow_executor_factory(
    request: pytest.FixtureRequest, rxwow_platform: ControlledPlatform
) -> Generator[Callable[..., KeyedExecutor]]:
    """Makes deterministic executors: `rxwow_executor_factory(workers=2)`, and what else a `KeyedExecutor` takes.

    All of one test run on `rxwow_platform`, in an order drawn from the seed, and share its virtual time. They are
    drained at the end of a test that passes, and disposed at the end of one that fails.
    """
    del rxwow_platform  # it is the current one
    controlled = request.node.stash[_CONTROLLED]

    def make_executor(workers: int = 2, **options: Any) -> KeyedExecutor:
        from rxwow import KeyedExecutor

        executor = KeyedExecutor(workers, **options)
        controlled.executors.append(executor)
        return executor

    yield make_executor
    controlled.dispose()


@pytest.fixture
def rxwow_scheduler(rxwow_platform: ControlledPlatform) -> ControlledTestScheduler:
    """RxPY's `TestScheduler` on the virtual time of `rxwow_platform` and of the executors of this test."""
    from rxwow.testing.scheduler import ControlledTestScheduler

    return ControlledTestScheduler(rxwow_platform)


# Real threads.


@pytest.fixture
def rxwow_no_threads_left() -> Generator[None]:
    """Fails the test if a thread of rxwow that it has made is alive at its end.

    An executor that another fixture makes counts, and may end in that fixture's tear-down, if this one is set up first,
    as by `pytest.mark.usefixtures`. The threads of `KeyedExecutor.shared()` may stay.
    """
    from rxwow.platform import PRODUCTION

    made: list[Thread] = []
    make = PRODUCTION.thread

    def thread(target: Callable[[], None], name: str) -> Thread:
        made.append(make(target, name))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PRODUCTION, "thread", thread)
        yield
    deadline = PRODUCTION.monotonic() + ENDING_TIME
    alive = [thread for thread in made if thread.is_alive() and not thread.name.startswith("rxwow-shared-")]
    for thread_left in alive:
        thread_left.join(max(0.0, deadline - PRODUCTION.monotonic()))
    left = ", ".join(thread_left.name for thread_left in alive if thread_left.is_alive())
    if left:
        pytest.fail(
            f"threads of rxwow were left behind: {left}. End each executor, by a `with` block, drain() or dispose(); "
            "a handler that blocks keeps its worker's thread.",
            pytrace=False,
        )
