"""The local backend works for an ordinary user: the same build and the same sandbox, started by `nobody`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.sandbox.layers import remove_tree

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534

PROGRAM = """
import asyncio, json, os, sys
from pathlib import Path
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import ImageSpec, Limits

async def main():
    backend = await open_backend("local")
    context = Path(os.environ["HOME"], "context")
    context.mkdir()
    (context / "Dockerfile").write_text(
        "FROM python:3-slim\\nRUN pip install --no-cache-dir six==1.16.0\\nWORKDIR /testbed\\nRUN echo hello > f\\n"
    )
    image = await backend.ensure_image(ImageSpec("nonroot", "sha256:" + "0" * 64, context))
    sandbox = await backend.start(image, Limits(memory_mb=256, pids=64))
    async def run(command):
        result = await sandbox.exec(command, timeout=30)
        return [result.exit_code, result.text]
    seen = {
        "host_uid": os.getuid(),
        "enforced": backend.engine.enforced,
        "uid": await run("id -u"),
        "git": await run("git log --oneline | wc -l; git ls-files; git status --short"),
        "six": await run("python -c 'import six; print(six.__version__)'"),
        "network": await run("grep -c : /proc/net/dev"),
        "host": await run("ls /home/agent; ls " + os.environ["HOME"]),
        "memory": await run("python -c 'bytearray(1 << 30)'"),
        "bomb": (await run("bomb() { bomb | bomb & }; bomb"))[0],
    }
    seen["alive"] = await run("echo alive")
    copy = await backend.start(await sandbox.snapshot())
    await copy.exec("echo changed > f")
    seen["original"] = await run("cat f")
    await backend.close()
    seen["left"] = [path.name for path in backend.engine.root.iterdir()]
    print(json.dumps(seen))

asyncio.run(main())
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can reach, on a disk; pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="agentgym-nobody-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    remove_tree(path)


@pytest.fixture
def as_nobody(public: Path) -> list[str]:
    """A command prefix that runs what follows as `nobody`, with this interpreter and repository in reach.

    They may lie below a home that only root may enter; in a mount namespace of its own, such a directory is replaced by
    one that shows nothing else.
    """
    if os.geteuid() != 0:
        return []
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    needed = [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), REPOSITORY]
    lines = ["set -e", f"cd {shlex.quote(str(public))}"]
    closed = {next((p for p in reversed(path.parents) if not p.stat().st_mode & 0o001), None) for path in needed}
    for index, path in enumerate(needed):
        lines.append(f"mkdir {index}; mount --bind {shlex.quote(str(path))} {index}")
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(path))}" for path in closed if path]
    for index, path in enumerate(needed):
        place = shlex.quote(str(path))
        lines.append(f"[ -d {place} ] || {{ mkdir -p {place}; mount --bind {index} {place}; }}")
    lines.append(f"mkdir -m 700 home; chown {NOBODY}:{NOBODY} home; export HOME=$PWD/home; cd /")
    drop = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --inh-caps=-all --"
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "\n".join([*lines, f'exec {drop} "$@"']),
        "sh",
    ]


def test_an_ordinary_user_builds_and_runs_sandboxes(as_nobody: list[str], public: Path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"PYTHONPATH": str(REPOSITORY)}
    if not as_nobody:
        environment["HOME"] = str(public)
    ended = subprocess.run(
        [*as_nobody, sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        check=False,
    )
    if ended.returncode != 0 and "BackendUnavailable" in ended.stderr:
        pytest.skip(f"no local backend for an ordinary user here: {ended.stderr.strip().splitlines()[-1]}")
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["host_uid"] != 0
    assert seen["uid"] == [0, "1000\n"]
    assert seen["git"] == [0, "1\nf\n"]
    assert seen["six"] == [0, "1.16.0\n"]
    assert seen["network"] == [0, "1\n"]
    assert seen["host"][0] != 0
    assert seen["memory"][0] != 0
    assert seen["alive"] == [0, "alive\n"]
    assert seen["original"] == [0, "hello\n"]
    assert seen["left"] == [] or all("snapshot" in name for name in seen["left"])
    assert "whole sandbox" in seen["enforced"]["pids"]
