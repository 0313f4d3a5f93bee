"""The command line is read, and each mistake in it is told in one line."""

import inspect

import pytest

import rxwow
from rxwow.cli import main
from rxwow.cli.arguments import DemoOptions, DispatchOptions, parse

DISPATCH = ["dispatch", "a.csv", "--key", "k", "--handler", "m:f"]


def test_every_option_of_dispatch_is_read() -> None:
    assert parse(DISPATCH) == DispatchOptions(file="a.csv", key="k", handler="m:f")
    given = [*DISPATCH, "--format", "ndjson", "--workers", "2", "--max-in-flight", "3", "--throughput", "4"]
    given += ["--on-failure", "skip", "--output", "o", "--app-dir", "d"]
    assert parse(given) == DispatchOptions(
        file="a.csv",
        key="k",
        handler="m:f",
        file_format="ndjson",
        workers=2,
        max_in_flight=3,
        throughput=4,
        on_failure="skip",
        output="o",
        app_dir="d",
    )


def test_the_options_of_the_demo_are_read() -> None:
    assert parse(["demo"]) == DemoOptions()
    assert parse(["demo", "--workers", "3"]) == DemoOptions(workers=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "rxwow: the following arguments are required: {demo,dispatch} (see rxwow --help)"),
        (["dispach"], "rxwow: argument {demo,dispatch}: invalid choice: 'dispach'"),
        (["dispatch"], "rxwow dispatch: the following arguments are required: FILE, --key, --handler"),
        (DISPATCH[:2], "rxwow dispatch: the following arguments are required: --key, --handler"),
        ([*DISPATCH, "--worker", "2"], "rxwow: unrecognized arguments: --worker 2"),
        ([*DISPATCH, "--format", "xml"], "rxwow dispatch: argument --format: invalid choice: 'xml'"),
        ([*DISPATCH, "--on-failure", "retry"], "rxwow dispatch: argument --on-failure: invalid choice: 'retry'"),
        (["demo", "--workers", "0"], "rxwow demo: argument --workers: must be a whole number of at least 1, not '0'"),
        *(
            (
                [*DISPATCH, option, number],
                f"rxwow dispatch: argument {option}: must be a whole number of at least 1, not '{number}'",
            )
            for option in ("--workers", "--max-in-flight", "--throughput")
            for number in ("0", "-1", "1.5", "many", "")
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_help_names_every_option_and_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dispatch", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in inspect.signature(DispatchOptions).parameters:
        option = {"file": "FILE", "file_format": "--format"}.get(name, f"--{name.replace('_', '-')}")
        assert option in shown
    for status in (0, 1, 2, 130, 131, 141):
        assert f"\n  {status} " in shown


def test_the_defaults_in_the_help_are_those_of_the_executor(capsys: pytest.CaptureFixture[str]) -> None:
    main(["dispatch", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    defaults = inspect.signature(rxwow.KeyedExecutor).parameters
    for option, name in {"in flight": "max_in_flight", "turn": "throughput"}.items():
        assert f"(default: {defaults[name].default})" in shown, option


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rxwow {rxwow.__version__}\n"
