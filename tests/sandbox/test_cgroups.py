"""What is written where for a sandbox's limits, on control groups of version 1 and 2, in directories that stand in for them.

A machine has one version. The real one is used by every test of `local`; here both are checked, so that the one this machine
lacks is not left to others to find out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.sandbox import cgroups
from agentgym.sandbox.protocol import Limits

LIMITS = Limits(memory_mb=256, pids=64, cpus=0.5)
VERSION_1 = (
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.swappiness",
    "pids.max",
    "cpu.cfs_quota_us",
)
VERSION_2 = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")


def with_files(directory: Path, names: tuple[str, ...]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    return directory


def test_version_2_limits_memory_without_swap_pids_and_cpu(tmp_path: Path):
    group = with_files(tmp_path, VERSION_2)
    assert cgroups._apply(group, {"cgroup2"}, LIMITS) == {"memory", "pids", "cpus"}
    values = {name: (group / name).read_text() for name in VERSION_2}
    assert values == {
        "memory.max": str(256 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "0",
        "pids.max": "64",
        "cpu.max": "50000 100000",
    }


def test_version_1_limits_the_same(tmp_path: Path):
    group = with_files(tmp_path, VERSION_1)
    assert cgroups._apply(group, {"memory", "pids", "cpu"}, LIMITS) == {"memory", "pids", "cpus"}
    assert (group / "memory.limit_in_bytes").read_text() == str(256 << 20)
    assert (group / "memory.memsw.limit_in_bytes").read_text() == str(256 << 20)
    assert (group / "cpu.cfs_quota_us").read_text() == "50000"


@pytest.mark.parametrize(("missing", "left"), [("memory.max", {"pids", "cpus"}), ("cpu.max", {"memory", "pids"})])
def test_what_cannot_be_set_is_not_said_to_be_enforced(tmp_path: Path, missing: str, left: set[str]):
    """So that the backend falls back to limits per process for it."""
    group = with_files(tmp_path, tuple(name for name in VERSION_2 if name != missing))
    assert cgroups._apply(group, {"cgroup2"}, LIMITS) == left
    assert not (group / missing).exists(), "nothing was made where the kernel has nothing"


def test_version_2_has_its_controllers_turned_on_above(tmp_path: Path):
    ours = with_files(tmp_path / "agentgym", ("cgroup.subtree_control",))
    (tmp_path / "cgroup.subtree_control").touch()
    cgroups._delegate(ours)
    assert (
        tmp_path / "cgroup.subtree_control"
    ).read_text() == "+cpu"  # each is written by itself; a file keeps the last
    assert (ours / "cgroup.subtree_control").read_text() == "+cpu"
