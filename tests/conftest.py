"""How the test suite runs: longer under `--soak`, and without a skipped test in CI."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# Deadlines measure the machine, and pytest-timeout already catches what hangs.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=5000)

SOAK_TIMEOUT_S = 3600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run for long: more seeds, more examples")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("soak" if config.getoption("--soak") else "default")


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the run may take long."""
    return bool(request.config.getoption("--soak"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test marked `seeds(20, soak=5000)` the argument `seed`; one run for each, so a failure names its seed."""
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None:
        count: int = marker.args[0]
        if metafunc.config.getoption("--soak"):
            count = marker.kwargs.get("soak") or 10 * count
        metafunc.parametrize("seed", range(count))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S))


# In CI a skipped test is one that nobody runs: it shows as a failure there, with the reason of its skip.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    expected_to_fail = hasattr(report, "wasxfail")
    if os.environ.get("CI") and report.skipped and not expected_to_fail:
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"In CI (the environment variable CI is set) no test may be skipped. {reason}"
