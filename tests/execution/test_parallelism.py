"""available_cpus: the smallest of affinity, cgroup quota and PYTHON_CPU_COUNT."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxwow.execution.parallelism import available_cpus


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_CPU_COUNT", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_affinity_alone(tmp_path: Path) -> None:
    assert available_cpus(tmp_path, tmp_path / "none") == 8


def test_a_system_without_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cpus(tmp_path, tmp_path / "none") == 1


@pytest.mark.parametrize(
    ("cpu_max", "cpus"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("max 100000", 8),
        ("", 8),
        ("1 0", 8),
        ("x y", 8),
    ],
)
def test_quota_of_cgroup_2(tmp_path: Path, cpu_max: str, cpus: int) -> None:
    write(tmp_path / "cpu.max", cpu_max + "\n")
    assert available_cpus(tmp_path, tmp_path / "none") == cpus


def test_the_smallest_quota_on_the_way_to_the_root_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    write(own, "0::/outer/inner\n")
    write(tmp_path / "outer" / "cpu.max", "300000 100000\n")
    write(tmp_path / "outer" / "inner" / "cpu.max", "max 100000\n")
    assert available_cpus(tmp_path, own) == 3


@pytest.mark.parametrize(("quota", "cpus"), [("250000", 3), ("-1", 8)])
def test_quota_of_cgroup_1(tmp_path: Path, quota: str, cpus: int) -> None:
    write(tmp_path / "cpu" / "cpu.cfs_quota_us", quota + "\n")
    write(tmp_path / "cpu" / "cpu.cfs_period_us", "100000\n")
    assert available_cpus(tmp_path, tmp_path / "none") == cpus


def test_the_own_cgroup_of_version_1_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    write(own, "5:memory:/elsewhere\n3:cpuacct,cpu:/outer/inner\n")
    write(tmp_path / "cpu" / "outer" / "cpu.cfs_quota_us", "200000\n")
    write(tmp_path / "cpu" / "outer" / "cpu.cfs_period_us", "100000\n")
    write(tmp_path / "cpu" / "outer" / "inner" / "cpu.cfs_quota_us", "500000\n")
    write(tmp_path / "cpu" / "outer" / "inner" / "cpu.cfs_period_us", "100000\n")
    assert available_cpus(tmp_path, own) == 2


@given(quota=st.integers(1, 2_000_000), period=st.integers(1000, 1_000_000))
def test_a_part_of_a_cpu_counts_as_one(quota: int, period: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory) / "cpu.max", f"{quota} {period}\n")
        assert available_cpus(Path(directory), Path(directory) / "none") == min(8, max(1, math.ceil(quota / period)))


@pytest.mark.parametrize(("value", "cpus"), [("3", 3), ("99", 8), ("default", 8), ("", 8), ("0", 1)])
def test_the_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, cpus: int) -> None:
    monkeypatch.setenv("PYTHON_CPU_COUNT", value)
    assert available_cpus(tmp_path, tmp_path / "none") == cpus
