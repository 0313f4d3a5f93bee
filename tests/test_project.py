"""Promises of the project itself: what an import costs, and that dev.py copes."""

import importlib.metadata
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NoReturn

import pytest

import dev
import rxwow

ROOT = Path(dev.__file__).parent

FOREIGN_MODULES = """
import sys
before = set(sys.modules)
import {module}
known = sys.stdlib_module_names | {{"rxwow", "reactivex", "typing_extensions"}}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} - known))
"""

THREADS = """
import threading
import {module}
print(*(thread.name for thread in threading.enumerate() if thread is not threading.main_thread()))
"""


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["rxwow", "rxwow.cli"])
def test_importing_needs_only_reactivex_and_typing_extensions(module: str) -> None:
    assert _python(FOREIGN_MODULES.format(module=module)) == ""


@pytest.mark.parametrize("module", ["rxwow", "rxwow.cli"])
def test_importing_starts_no_thread(module: str) -> None:
    assert _python(THREADS.format(module=module)) == ""


def test_importing_leaves_logging_to_the_application() -> None:
    code = "import logging, rxwow; logging.getLogger('rxwow').warning('seen?'); print(logging.getLogger().handlers)"
    assert _python(code) == "[]"


def test_the_core_depends_on_two_packages() -> None:
    requirements = [line for line in importlib.metadata.requires("rxwow") or [] if "extra ==" not in line]
    assert [re.split(r"[<>=!~ ]", line)[0] for line in requirements] == ["reactivex", "typing-extensions"]


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert rxwow.__version__ == project["version"] == importlib.metadata.version("rxwow")


class Recorder:
    """Stands for the commands that dev.py would run while it prepares the environment."""

    def __init__(self, venv: Path) -> None:
        self.venv = venv
        self.commands: list[str] = []
        self.failing: list[str] = []

    def attempt(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        line = " ".join(map(str, command))
        self.commands.append(line)
        if "venv --clear" in line:
            self.venv.mkdir(exist_ok=True)
        failed = any(part in line for part in self.failing)
        return subprocess.CompletedProcess(command, int(failed), f"output of {line}")

    def taken(self) -> list[str]:
        taken, self.commands = self.commands, []
        return taken


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(tmp_path / ".venv")
    (tmp_path / "pyproject.toml").write_text("[project]")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "VENV", recorder.venv)
    monkeypatch.setattr(dev, "STAMP", recorder.venv / "stamp")
    monkeypatch.setattr(dev, "attempt", recorder.attempt)
    return recorder


def _groups(commands: list[str]) -> list[str]:
    return [line.rpartition("--group ")[2] for line in commands if "--group" in line]


def _is_new(commands: list[str]) -> bool:
    return any("venv --clear" in line for line in commands)


def test_dev_upgrades_pip_before_it_uses_groups(recorder: Recorder) -> None:
    dev.prepare(("test",))
    commands = recorder.taken()
    assert _is_new(commands[:1])
    assert "--upgrade pip" in commands[1]
    assert _groups(commands) == ["test"]


def test_dev_reuses_the_environment_and_adds_only_what_is_missing(recorder: Recorder) -> None:
    dev.prepare(("test",))
    recorder.taken()
    dev.prepare(("test",))
    assert recorder.taken() == []
    dev.prepare(("test", "docs"))
    commands = recorder.taken()
    assert not _is_new(commands)
    assert _groups(commands) == ["docs"]
    dev.prepare(("docs", "test"))
    assert recorder.taken() == []


def test_dev_makes_the_environment_anew_when_pyproject_changes(recorder: Recorder) -> None:
    dev.prepare(("test", "docs"))
    recorder.taken()
    (dev.ROOT / "pyproject.toml").write_text("[project] # changed")
    dev.prepare(("test",))
    commands = recorder.taken()
    assert _is_new(commands)
    assert _groups(commands) == ["test"]


def test_dev_makes_the_environment_anew_after_an_interruption(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev.prepare(("test",))
    with monkeypatch.context() as interrupted:

        def interrupt(*_command: str | Path) -> NoReturn:
            raise KeyboardInterrupt

        interrupted.setattr(dev, "attempt", interrupt)
        with pytest.raises(KeyboardInterrupt):
            dev.prepare(("docs",))
    recorder.taken()
    dev.prepare(("test",))
    assert _is_new(recorder.taken())


def test_dev_takes_an_outer_pip_where_ensurepip_is_missing(recorder: Recorder) -> None:
    recorder.failing = [f"venv --clear {recorder.venv}"]
    dev.prepare(("test",))
    commands = recorder.taken()
    assert "--without-pip" in commands[2]
    assert "pip --python" in commands[3]


def test_dev_names_the_package_to_install_where_pip_is_missing_too(recorder: Recorder) -> None:
    recorder.failing = ["venv --clear", "pip --version"]
    with pytest.raises(SystemExit) as end:
        dev.prepare(("test",))
    assert "apt-get install -y python3-venv" in str(end.value)
    assert "\n" not in str(end.value)


def test_dev_shows_the_output_of_what_failed(recorder: Recorder) -> None:
    recorder.failing = ["--editable"]
    with pytest.raises(SystemExit, match=r"output of .* --editable"):
        dev.prepare(("test",))


def test_dev_tells_an_old_python_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer, this is Python 3\.10$"):
        runpy.run_path(str(ROOT / "dev.py"))


def test_dev_passes_arguments_to_pytest_alone() -> None:
    assert dev.plan("test", ["-k", "foo"]) == [[*dev.PYTEST.split(), "-k", "foo"]]
    assert len(dev.plan("test", [])) == len(dev.STATIC) + 1
    with pytest.raises(SystemExit):
        dev.plan("lint", ["-x"])


def test_dev_ends_with_the_code_of_the_first_step_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "BIN", Path(sys.executable).parent)
    python = Path(sys.executable).name
    assert dev.run([[python, "-c", "pass"], [python, "-c", "raise SystemExit(3)"], [python, "-c", "'never'"]]) == 3
    assert "never" not in capsys.readouterr().out


def test_dev_knows_only_groups_that_exist() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert {group for job in dev.JOBS.values() for group in job.groups} <= set(groups)


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--help"], 0), (["unknown"], 2)])
def test_dev_names_its_jobs(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(arguments) == code
    shown = "".join(capsys.readouterr())
    assert [name for name in dev.JOBS if name not in shown] == []


SKIPS = """
import pytest

@pytest.mark.skip(reason="not today")
def test_marked(): ...

def test_called():
    pytest.skip("not here")

@pytest.mark.xfail(raises=ZeroDivisionError)
def test_expected_to_fail():
    1 / 0
"""

SKIPPED_MODULE = "import pytest; pytest.importorskip('no_such_module')"


@pytest.mark.parametrize(("ci", "code"), [("true", pytest.ExitCode.TESTS_FAILED), ("", pytest.ExitCode.OK)])
def test_a_skipped_test_fails_in_ci_and_says_so(tmp_path: Path, ci: str, code: pytest.ExitCode) -> None:
    done = _pytest(tmp_path, SKIPS, ci)
    assert done.returncode == code, done.stdout
    assert ("no test may be skipped" in done.stdout) == bool(ci)
    assert ("1 failed, 1 xfailed, 1 error" if ci else "2 skipped, 1 xfailed") in done.stdout


def test_a_skipped_module_fails_in_ci(tmp_path: Path) -> None:
    done = _pytest(tmp_path, SKIPPED_MODULE, ci="true")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "no test may be skipped" in done.stdout


def _pytest(folder: Path, tests: str, ci: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_skips.py").write_text(tests)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", folder, "-c", os.devnull, "-p", "no:cacheprovider", folder],
        cwd=folder,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
