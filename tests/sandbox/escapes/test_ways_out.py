"""Known ways out of a sandbox, one file each in `ways/`; each must fail in every backend.

And each must be able to succeed: in a container weakened by the options that the file names it has to say so, which shows
that the way still looks for the right thing. What this machine's kernel does not have at all is said as a skip.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend

from .conftest import WAYS, Host

pytestmark = pytest.mark.asyncio(loop_scope="module")

EACH = pytest.mark.parametrize(
    "way", sorted(path for path in WAYS.glob("*.py") if path.stem != "inside"), ids=lambda path: path.stem
)
PLACE = "/tmp/agentgym-ways"
CAPABILITIES = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ
""".split()  # noqa: SIM905 - in the kernel's order, bit by bit


def privileged() -> list[str]:
    """What `docker run --privileged` stands for, but with those capabilities only that this machine has to give."""
    status = Path("/proc/self/status").read_text()
    bounding = int(re.findall(r"^CapBnd:\s*(\w+)", status, re.MULTILINE)[0], 16)
    options = [f"--cap-add={name}" for bit, name in enumerate(CAPABILITIES) if bounding >> bit & 1]
    options += [f"--security-opt={name}=unconfined" for name in ("seccomp", "apparmor", "systempaths")]
    return [
        *options,
        "--device-cgroup-rule=b\\ *:*\\ rwm",
        "--device-cgroup-rule=c\\ *:*\\ rwm",
        "-v=/dev:/dev",
        "-v=/sys:/sys",
    ]


@EACH
async def test_it_does_not_lead_out(sandbox: Sandbox, host: Host, way: Path):
    if sandbox.backend == "kubernetes" and way.stem == "init":
        pytest.skip("a pod's PID 1 and its commands are one user; its lifetime is kept by the cluster and by its owner")
    for path in (WAYS / "inside.py", way):
        await sandbox.write_file(f"{PLACE}/{path.name}", path.read_bytes())
    result = await sandbox.exec(f"python3 {PLACE}/{way.name}", env={"AGENTGYM_HOST": host.document}, timeout=60)
    assert "ESCAPED" not in result.text
    assert result.exit_code == 0, result.text
    assert (await sandbox.exec("echo alive")).output == b"alive\n"


@EACH
@pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")
async def test_in_a_weakened_container_it_does(backend: SandboxBackend, image: Image, host: Host, way: Path):
    text = way.read_text()
    named = re.findall(r"^# weakened: (.*)$", text, re.MULTILINE)[0]
    options = shlex.split(named.replace("privileged", " ".join(privileged())))
    first = "; ".join(re.findall(r"^# first: (.*)$", text, re.MULTILINE))
    name = f"agentgym-escapes-{uuid4().hex[:12]}"
    command = ["docker", "run", "--rm", "--name", name, "-e", f"AGENTGYM_HOST={host.document}"]
    command += ["-v", f"{WAYS}:{PLACE}:ro", *options, image.ref]
    command += ["bash", "-c", f"{first or ':'}; exec python3 -B {PLACE}/{way.name}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    finally:
        subprocess.run(["docker", "rm", "-f", name], capture_output=True, check=False)
    if "ABSENT" in done.stdout:
        pytest.skip(f"not on this kernel: {done.stdout.strip()}")
    assert "ESCAPED" in done.stdout, done.stdout + done.stderr
