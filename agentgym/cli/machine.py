"""What this machine can do: one probe per capability, each with the command that mends it.

`doctor` shows the probes; `doctor --fix` runs the mending commands that need no decision (as root on Debian).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.sandbox import open_backend
from agentgym.sandbox.capacity import VARIABLE, Capacity
from agentgym.sandbox.kubernetes.config import KubernetesConfig, config_file
from agentgym.sandbox.protocol import Limits

APT = "apt-get install -y --no-install-recommends"
DOCKERD_LOG = Path("/var/log/agentgym-dockerd.log")


class Job(StrEnum):
    """What a machine may be needed for."""

    QUICKSTART = "quickstart"
    TESTS = "tests"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `doctor`. needed_for: the jobs that cannot run without it ("sandbox": any one of the group will do)."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed_for: tuple[str, ...] = ()


def _run(*argv: str, timeout: float = 20.0) -> tuple[int, str]:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        return 127, f"{argv[0]}: not installed"
    except subprocess.TimeoutExpired:
        return 124, f"{argv[0]}: no answer in {timeout:.0f} s"
    return done.returncode, (done.stdout + done.stderr).strip()


def python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer", ("all",))


def git() -> Check:
    code, text = _run("git", "--version")
    return Check("git", code == 0, text, f"{APT} git", ("all",))


def resources() -> Check:
    cpus = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    detail = f"{cpus} CPUs, {memory:.0f} GiB memory, {free:.0f} GiB disk free here"
    return Check(
        "resources", memory >= 6 and free >= 8, detail, "6 GiB memory and 8 GiB free disk are the least", ("all",)
    )


def sandboxes() -> Check:
    """The numbers that admission goes by, and what they mean for `--concurrency`."""
    capacity = Capacity.of_this_machine()
    fit = capacity.holds(Limits())
    # One part in eight is kept for gradings that start while their episode lives (see agentgym.sandbox.admission).
    concurrency = max(1, fit * 7 // 8)
    detail = (
        f"{fit} of default size at once, so --concurrency {concurrency}; live={capacity.live}, "
        f"memory_mb={capacity.memory_mb}, cpus={capacity.cpus:g}, starting={capacity.starting} ({VARIABLE} changes them)"
    )
    return Check("sandboxes", True, detail)


def docker() -> Check:
    code, text = _run("docker", "version", "--format", "{{.Server.Version}}")
    if code == 0:
        return Check("docker", True, f"engine {text.splitlines()[-1]}", needed_for=("sandbox", "tests"))
    have_daemon = shutil.which("dockerd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None
    detail = "engine installed but not running" if have_daemon else "no engine answers"
    fix = "systemctl start docker" if have_daemon else f"{APT} docker.io iptables && systemctl start docker"
    return Check("docker", False, detail, fix, ("sandbox", "tests"))


def bubblewrap() -> Check:
    code, text = _run("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true")
    if code == 0:
        return Check("bubblewrap", True, _run("bwrap", "--version")[1], needed_for=("sandbox", "tests"))
    if code == 127:
        return Check("bubblewrap", False, "not installed", f"{APT} bubblewrap", ("sandbox", "tests"))
    fix = "sysctl -w kernel.unprivileged_userns_clone=1 (as root): user namespaces are switched off"
    return Check("bubblewrap", False, text.splitlines()[-1] if text else f"exit code {code}", fix, ("sandbox",))


def debootstrap() -> Check:
    path = shutil.which("debootstrap", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    detail = path or "not installed (used where no image registry answers)"
    return Check("debootstrap", path is not None, detail, f"{APT} debootstrap", ("tests",))


def postgresql() -> Check:
    """Debian keeps the server's programs out of PATH, one directory a version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    detail = str(found[-1].parent) if found else "no server installed (the tests start one of their own)"
    return Check("postgresql", bool(found), detail, f"{APT} postgresql", ("tests",))


def chromium() -> Check:
    path = shutil.which("chromium")
    return Check(
        "chromium", path is not None, path or "not installed (the tests look at pages)", f"{APT} chromium", ("tests",)
    )


def kubernetes() -> Check:
    """A cluster somebody has configured for sandboxes; no other is ever asked."""
    file = config_file()
    if file is None:
        return Check(
            "kubernetes", False, "no cluster is configured (needed only for --backend kubernetes)", "k8s/dev/up"
        )
    try:
        where = asyncio.run(_cluster())
    except AgentGymError as error:
        return Check("kubernetes", False, str(error).splitlines()[0], error.hint or "see docs/kubernetes.md")
    return Check("kubernetes", True, where)


async def _cluster() -> str:
    backend = await open_backend("kubernetes", owner="doctor")
    await backend.close()
    return f"{KubernetesConfig.load().namespace}, as {config_file()} says"


CHECKS: tuple[Callable[[], Check], ...] = (
    python,
    git,
    resources,
    sandboxes,
    docker,
    bubblewrap,
    debootstrap,
    postgresql,
    chromium,
    kubernetes,
)


_PACKAGES = ("git", "bubblewrap", "debootstrap", "postgresql", "chromium")
"""Checks that a Debian package of the same name mends."""


def examine() -> list[Check]:
    return [check() for check in CHECKS]


def missing_for(job: Job, checks: list[Check]) -> list[Check]:
    """What `job` still needs. Quickstart needs any one sandbox; tests need all of them."""
    needed = [c for c in checks if not c.ok and ("all" in c.needed_for or job in c.needed_for)]
    sandboxes = [c for c in checks if "sandbox" in c.needed_for]
    if job is Job.QUICKSTART and not any(c.ok for c in sandboxes):
        needed += [c for c in sandboxes if c.name == "bubblewrap"]
    if job is Job.QUICKSTART and any(c.name == "docker" and c.ok for c in checks):
        needed += [c for c in checks if c.name == "debootstrap" and not c.ok]
    return needed


def can_fix() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def fix(checks: list[Check], say: Callable[[str], None]) -> None:
    """Install and start what `checks` miss, on Debian as root; a step that fails is said and leaves the check failing."""
    wanted = [check.name for check in checks if check.name in _PACKAGES]
    engine = any(check.name == "docker" for check in checks)
    if engine and shutil.which("dockerd", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        wanted += ["docker.io", "iptables"]
    if wanted:
        say(f"installing {' '.join(wanted)}")
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=environment, stdout=subprocess.DEVNULL, check=False)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
        subprocess.run(install, env=environment, stdout=subprocess.DEVNULL, check=False)
    if engine:
        say("starting the Docker engine")
        start_engine()


def start_engine(patience: float = 60.0) -> bool:
    """Start dockerd (through systemd where it runs, else as a process of its own) and wait until it answers."""
    if docker().ok:
        return True
    if Path("/run/systemd/system").is_dir():
        _run("systemctl", "start", "docker", timeout=patience)
    else:
        binary = shutil.which("dockerd", path="/usr/sbin:/usr/bin:/sbin:/bin")
        if binary is None:
            return False
        with DOCKERD_LOG.open("ab") as log:
            subprocess.Popen([binary], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if docker().ok:
            return True
        time.sleep(0.5)
    return False
