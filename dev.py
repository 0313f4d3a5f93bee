"""Run a job of this project in a virtual environment that is made here: python3 dev.py demo|test|lint|bench|docs.

Needs Python 3.11 and its standard library, nothing else. The environment is `.venv` beside this file; it is kept until
pyproject.toml, the Python or the folder changes, and whatever else was in `.venv` is replaced. Each job installs the
dependency groups that it needs. Further arguments go to the job: `python3 dev.py test -k window -x` runs just pytest.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# Stands before the annotations below: an older Python could not evaluate them and would show a traceback instead.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("dev.py: rxwow needs Python 3.11 or newer, this is Python %d.%d" % sys.version_info[:2])  # noqa: UP031

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
STAMP = VENV / "made-by-dev.txt"


class Job(NamedTuple):
    """What a job installs and runs."""

    help: str
    groups: tuple[str, ...]
    steps: tuple[str, ...]  # extra arguments go to the last one


STATIC = ("ruff check", "ruff format --check", "mypy", "basedpyright", "lint-imports")
# The type checkers read the tests and benchmarks; both read the flights, and the tests run the notebooks.
CHECKED = ("test", "lint", "bench", "demo", "notebooks")
# A process a core, as most tests keep one busy; more than a few would only collect the tests once more each.
PYTEST = "python -m pytest -n auto --maxprocesses 4"
JOBS = {
    "demo": Job("show rxwow at work", ("demo",), ("python -m rxwow demo",)),
    "test": Job("static checks, then all tests; with arguments just pytest", CHECKED, (*STATIC, PYTEST)),
    "lint": Job("static checks", CHECKED, STATIC),
    "bench": Job("measure", ("bench", "demo"), ("python -m benchmarks",)),
    "docs": Job("build docs/_build", ("docs",), ("sphinx-build -q -W --keep-going docs docs/_build",)),
}
# pip can't leave out the dependencies of one package alone; of the flight data only the files are read, without pandas.
WITHOUT_DEPENDENCIES = {"demo"}


def usage() -> str:
    """The jobs, one a line."""
    return "\n".join(["python3 dev.py JOB [ARGUMENTS]", *(f"  {name:6} {job.help}" for name, job in JOBS.items())])


def plan(name: str, extra: list[str]) -> list[list[str]]:
    """The commands of a job."""
    steps = [step.split() for step in JOBS[name].steps]
    if not extra:
        return steps
    if name == "lint":
        sys.exit("dev.py: lint takes no arguments")
    return [steps[-1] + extra]


def fingerprint() -> str:
    """What the environment depends on: another value means that it has to be made anew."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode(), sys.version.encode(), sys.base_prefix.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def attempt(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it prints."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def must(*command: str | Path) -> None:
    """Run a command; if it fails, show what it printed and end."""
    done = attempt(*command)
    if done.returncode:
        sys.exit(f"{done.stdout}\ndev.py: failed: {' '.join(map(str, command))}")


def make_venv() -> None:
    """Make the environment with a pip in it."""
    if attempt(sys.executable, "-m", "venv", "--clear", VENV).returncode == 0:
        return
    # Debian keeps ensurepip in a package of its own; a pip outside can do its work.
    if attempt(sys.executable, "-m", "pip", "--version").returncode:
        sys.exit("dev.py: this Python can't make a virtual environment; on Debian: apt-get install -y python3-venv")
    must(sys.executable, "-m", "venv", "--clear", "--without-pip", VENV)
    must(sys.executable, "-m", "pip", "--python", PYTHON, "install", "pip")


def prepare(groups: tuple[str, ...]) -> None:
    """See to it that the environment exists and holds rxwow and these dependency groups."""
    wanted = fingerprint()
    made, *held = (STAMP.read_text() if STAMP.exists() else "").split("\n")
    if made != wanted:
        held = []
    missing = [group for group in groups if group not in held]
    if made == wanted and not missing:
        return
    # Without its stamp an environment is made anew, so one that is interrupted below is never taken for whole.
    STAMP.unlink(missing_ok=True)
    print(f"dev.py: installing rxwow and the groups {', '.join(missing)} in .venv", flush=True)
    if made != wanted:
        make_venv()
        must(PYTHON, "-m", "pip", "install", "--upgrade", "pip>=25.1")  # older ones don't know --group
        must(PYTHON, "-m", "pip", "install", "--editable", ".[cli]")
    for group in missing:
        bare = ["--no-deps"] if group in WITHOUT_DEPENDENCIES else []
        must(PYTHON, "-m", "pip", "install", *bare, "--group", group)
    STAMP.write_text("\n".join([wanted, *held, *missing]))


def run(commands: list[list[str]]) -> int:
    """Run commands of the environment, until one fails."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    environment = {**os.environ, "VIRTUAL_ENV": str(VENV), "PATH": path}
    for tool, *arguments in commands:
        print("==", tool, *arguments, flush=True)
        code = subprocess.call([str(BIN / tool), *arguments], cwd=ROOT, env=environment)
        if code:
            print(f"dev.py: failed ({code}): {tool} {' '.join(arguments)}", file=sys.stderr)
            return code if code > 0 else 128 - code
    return 0


def main(arguments: list[str]) -> int:
    """Run the job that the arguments name."""
    name, *extra = arguments or ["--help"]
    if name in {"-h", "--help"}:
        print(usage())
        return 0
    if name not in JOBS:
        print(usage(), file=sys.stderr)
        return 2
    commands = plan(name, extra)
    prepare(JOBS[name].groups)
    return run(commands)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
