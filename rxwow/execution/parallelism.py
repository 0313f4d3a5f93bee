"""How many CPUs this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
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
    quotas = [*_quotas_v2(cgroup_root, own_cgroups), *_quotas_v1(cgroup_root, own_cgroups)]
    counts += map(math.ceil, quotas)
    override = os.environ.get("PYTHON_CPU_COUNT", "")
    if override.isdecimal():
        counts.append(int(override))
    return max(1, min(counts))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas_v2(root: Path, own_cgroups: Path) -> Iterator[float]:
    """Yield the quotas of this process's cgroup and of those above it, in CPUs."""
    for directory in _own_directories(own_cgroups, controller=""):
        for line in _lines(root / directory / "cpu.max"):
            quota, _, period = line.partition(" ")
            yield from _cpus(quota, period)


def _quotas_v1(root: Path, own_cgroups: Path) -> Iterator[float]:
    for directory in _own_directories(own_cgroups, controller="cpu"):
        own = root / "cpu" / directory
        yield from _cpus("".join(_lines(own / "cpu.cfs_quota_us")), "".join(_lines(own / "cpu.cfs_period_us")))


def _own_directories(own_cgroups: Path, controller: str) -> list[Path]:
    """Return the directories of this process's cgroup and of those above it, below where they are mounted.

    In a container the path may be the host's, and only the root be there.
    """
    own = Path()
    for line in _lines(own_cgroups):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            own = Path(path.lstrip("/"))
    return [own, *own.parents]


def _cpus(quota: str, period: str) -> Iterator[float]:
    # "max" or -1 means none.
    if quota.isdecimal() and period.isdecimal() and int(period):
        yield int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        # The name of a cgroup is bytes.
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
