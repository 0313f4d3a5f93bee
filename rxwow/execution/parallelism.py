"""How many CPUs this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

__all__ = ["available_cpus"]

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
OWN_CGROUPS: Final = Path("/proc/self/cgroup")


def available_cpus(cgroup_root: Path = CGROUP_ROOT, own_cgroups: Path = OWN_CGROUPS) -> int:
    """Return the smallest of CPU affinity, cgroup quota (rounded up) and `PYTHON_CPU_COUNT`, at least 1.

    A container that may use half a CPU sees all of its host's; as many workers as those would take turns being
    throttled.

    >>> available_cpus() >= 1
    True
    """
    counts = [_affinity()]
    quota = _quota_v2(cgroup_root, own_cgroups) or _quota_v1(cgroup_root)
    if quota is not None:
        counts.append(math.ceil(quota))
    override = os.environ.get("PYTHON_CPU_COUNT", "")
    if override.isdecimal():
        counts.append(int(override))
    return max(1, min(counts))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota_v2(root: Path, own_cgroups: Path) -> float | None:
    """Return the smallest quota of this process's cgroup and those above it, in CPUs."""
    own = Path()
    for line in _lines(own_cgroups):
        if line.startswith("0::/"):
            own = Path(line.removeprefix("0::/"))
    quotas: list[float] = []
    for directory in [own, *own.parents]:
        for line in _lines(root / directory / "cpu.max"):
            quota, _, period = line.partition(" ")
            if quota.isdecimal() and period.isdecimal() and int(period):
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _quota_v1(root: Path) -> float | None:
    quota = "".join(_lines(root / "cpu" / "cpu.cfs_quota_us"))
    period = "".join(_lines(root / "cpu" / "cpu.cfs_period_us"))
    # A quota of -1 means none.
    if quota.isdecimal() and period.isdecimal() and int(period):
        return int(quota) / int(period)
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
