"""A second Docker engine of the tests' own, on a small disk of its own, to be killed, restarted and filled up."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentgym.sandbox import open_backend
from agentgym.sandbox.labels import KIND
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import load_task

REPOSITORY = Path(__file__).resolve().parents[3]
DISK_MB = 1600


class Dockerd:
    """root: where all it has lies; the images in `disk`, a file system of DISK_MB."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = root / "disk"
        self.address = f"unix://{root}/docker.sock"
        self.environment = {**os.environ, "DOCKER_HOST": self.address, "PYTHONPATH": str(REPOSITORY)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for leftover in ("docker.pid", "exec/containerd/containerd.pid"):
            (self.root / leftover).unlink(missing_ok=True)
        # In a network of its own: an engine that is told to have no bridge removes the other one's.
        command = [
            "unshare",
            "--net",
            "dockerd",
            f"--data-root={self.disk}/data",
            f"--exec-root={self.root}/exec",
            f"--host={self.address}",
            f"--pidfile={self.root}/docker.pid",
            "--bridge=none",
            "--iptables=false",
            "--storage-driver=overlay2",
        ]
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        for _ in range(600):
            if self.docker("version", check=False).returncode == 0:
                return
            time.sleep(0.1)
        pytest.fail(f"dockerd does not answer: {(self.root / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Whatever it has started is in its session; shims are not, and those of an engine that was killed stay."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=30)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError, ProcessLookupError):
                if f"{self.root}/exec".encode() in command.read_bytes():
                    children = [path.read_text().split() for path in command.parent.glob("task/*/children")]
                    for pid in [*(int(child) for some in children for child in some), int(command.parent.name)]:
                        os.kill(pid, signal.SIGKILL)

    def docker(self, *arguments: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            check=check,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,
        )

    def left(self) -> list[str]:
        """Everything of ours that should not outlive a run: containers, snapshots, unfinished builds.

        An engine (20.10) that was killed while it removed a container may go on listing it, and answer "no such container" to
        everything else: that is a row in its list, not a container.
        """
        listed = self.docker("ps", "-aq", "--filter", f"label={KIND}").stdout.decode().split()
        containers = [one for one in listed if self.docker("inspect", one, check=False).returncode == 0]
        kinds = [f"label={KIND}={kind}" for kind in ("snapshot", "build")]
        return containers + [
            line for kind in kinds for line in self.docker("images", "-q", "--filter", kind).stdout.decode().split()
        ]


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("mkfs.ext4") is None:
        pytest.skip("a second engine needs root, dockerd and mkfs.ext4")
    root = Path(tempfile.mkdtemp(prefix="agentgym-chaos-", dir="/var/tmp"))
    engine = Dockerd(root)
    engine.disk.mkdir()
    image = root / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_MB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(engine.disk)], check=False).returncode != 0:
        shutil.rmtree(root)
        pytest.skip("this machine mounts no loop device")
    try:
        engine.start()
        yield engine
    finally:
        with suppress(subprocess.CalledProcessError):
            for container in engine.docker("ps", "-aq", check=False).stdout.decode().split():
                engine.docker("rm", "-f", container, check=False)
        engine.stop()
        for _ in range(50):
            if subprocess.run(["umount", str(engine.disk)], check=False, stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.2)
        else:
            subprocess.run(["umount", "-l", str(engine.disk)], check=False)
        shutil.rmtree(root, ignore_errors=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stocked(dockerd: Dockerd) -> Dockerd:
    """The engine with the image of the task that is rolled out, taken over from the machine's own."""
    try:
        backend = await open_backend("docker", owner="tests-chaos")
    except BackendUnavailable as error:
        pytest.skip(f"no Docker engine to take the image from: {error}")
    task = load_task(REPOSITORY / "environments" / "tutorial-duration")
    image = await backend.ensure_image(task.image)
    await backend.close()
    bases = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", "agentgym/base"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    with subprocess.Popen(["docker", "save", image.ref, *bases], stdout=subprocess.PIPE) as saving:
        await asyncio.to_thread(dockerd.docker, "load", stdin=saving.stdout)
    return dockerd


class Run:
    """A process that rolls episodes out (`run_episodes.py`), and what it says."""

    def __init__(self, engine: Dockerd, store: Path, episodes: int) -> None:
        self._command = [
            sys.executable,
            str(Path(__file__).with_name("run_episodes.py")),
            str(store),
            "chaos",
            str(episodes),
        ]
        self._engine = engine
        self.events: list[dict[str, Any]] = []

    async def begin(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, env=self._engine.environment, stdout=asyncio.subprocess.PIPE
        )

    async def until(self, kind: str, phase: str = "", count: int = 1) -> None:
        """Reads on until `count` more events of this kind."""
        while count:
            event = await self._next()
            count -= event.get("event") == kind and (not phase or event["phase"] == phase)

    async def report(self) -> dict[str, Any]:
        while not (event := await self._next()).get("report"):
            pass
        assert await self._process.wait() == 0
        return event

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, f"it ended with exit code {await self._process.wait()}"
        self.events.append(json.loads(line))
        return self.events[-1]


@pytest_asyncio.fixture(loop_scope="session")
async def run(stocked: Dockerd, tmp_path: Path) -> AsyncIterator[Run]:
    one = Run(stocked, tmp_path / "store.db", 6)
    yield one
    with suppress(ProcessLookupError, AttributeError):
        await one.kill()
