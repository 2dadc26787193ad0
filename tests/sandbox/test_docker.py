"""What is particular to the Docker backend: its errors, its labels, and the containers it leaves alone."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from agentgym.sandbox import ManagedBackend
from agentgym.sandbox.channel import Channel
from agentgym.sandbox.docker import DockerBackend, DockerSandbox
from agentgym.sandbox.engine import Engine, EngineError
from agentgym.sandbox.protocol import (
    BackendUnavailable,
    Image,
    ImageSpec,
    Limits,
    Sandbox,
    SandboxGone,
    StartError,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module"),
]


@pytest_asyncio.fixture(loop_scope="module")
async def docker(backend: ManagedBackend) -> DockerBackend:
    assert isinstance(backend.engine, DockerBackend)
    return backend.engine


@pytest_asyncio.fixture(loop_scope="module")
async def engine(docker: DockerBackend):
    opened = Engine()
    yield opened
    await opened.close()


async def test_no_engine_is_unavailable_with_a_hint(docker: DockerBackend, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(BackendUnavailable, match="does not answer") as error:
        await DockerBackend.open()
    assert error.value.hint
    monkeypatch.setenv("DOCKER_HOST", "ssh://elsewhere")
    with pytest.raises(BackendUnavailable, match="ssh://elsewhere"):
        await DockerBackend.open()


async def test_a_missing_image_is_a_start_error(docker: DockerBackend):
    missing = Image(ImageSpec("missing", ""), "agentgym-no-such-image:1", "", "docker")
    with pytest.raises(StartError, match="agentgym-no-such-image"):
        await docker.start(missing)


async def test_an_impossible_limit_is_a_start_error_and_leaves_no_container(
    docker: DockerBackend, image: Image, engine: Engine
):
    before = await engine.json("GET", "/containers/json", params={"all": "true"})
    with pytest.raises(StartError):
        await docker.start(image, Limits(memory_mb=1))
    after = await engine.json("GET", "/containers/json", params={"all": "true"})
    assert {c["Id"] for c in after if c["Image"] == image.ref} <= {c["Id"] for c in before}


async def test_a_removed_container_is_gone_also_for_a_call_on_its_way(
    docker: DockerBackend, image: Image, engine: Engine
):
    sandbox = await docker.start(image, Limits(memory_mb=128))
    call = asyncio.create_task(sandbox.exec("sleep 100"))
    await asyncio.sleep(0.3)
    await engine.json("DELETE", f"/containers/{sandbox.id}", params={"force": "true"})
    with pytest.raises(SandboxGone):
        await call
    with pytest.raises(SandboxGone):
        await sandbox.exec("true")
    with pytest.raises(SandboxGone):
        await sandbox.snapshot()
    await sandbox.close()


@pytest.mark.parametrize("command", ["touch /etc/x", "cat /etc/shadow", "touch /testbed/../x"])
async def test_what_is_not_the_workdir_belongs_to_root(docker: DockerBackend, sandbox: Sandbox, command: str):
    assert "Permission denied" in (await sandbox.exec(command)).text


async def test_the_engine_is_asked_for_isolation(sandbox: Sandbox, docker: DockerBackend, engine: Engine):
    config = (await engine.json("GET", f"/containers/{sandbox.id}/json"))["HostConfig"]
    assert (config["CapDrop"], config["CapAdd"], config["Privileged"]) == (["ALL"], None, False)
    assert config["MemorySwap"] == config["Memory"] == 256 << 20
    assert not config["Binds"]
    assert config["NetworkMode"] == "none"


async def test_the_reaper_leaves_others_alone(docker: DockerBackend, image: Image, engine: Engine):
    """Also a container that somebody runs from an image of ours, whose labels it inherits."""
    body = {"Image": image.ref, "Cmd": ["sleep", "60"], "Labels": {"somebody": "else"}}
    created = await engine.json("POST", "/containers/create", body)
    try:
        await docker.reap()
        assert (await engine.json("GET", f"/containers/{created['Id']}/json"))["Id"] == created["Id"]
    finally:
        await engine.json("DELETE", f"/containers/{created['Id']}", params={"force": "true"})


async def test_close_removes_the_container(docker: DockerBackend, image: Image, engine: Engine):
    sandbox = await docker.start(image, Limits(memory_mb=128))
    assert isinstance(sandbox, DockerSandbox)
    await sandbox.close()
    with pytest.raises(EngineError, match="404"):
        await engine.json("GET", f"/containers/{sandbox.id}/json")


async def test_a_posix_shell_and_nothing_else_is_enough(sandbox: Sandbox, docker: DockerBackend, engine: Engine):
    """Given no bash, setsid, head or cat, then commands, state and time-outs work all the same."""
    await sandbox.exec("mkdir -p /tmp/bare; ln -sf $(command -v sleep) /tmp/bare/sleep")
    shell = "exec env -i PATH=/tmp/bare /bin/sh"
    channel = Channel(lambda: engine.attach_exec(sandbox.id, ["/bin/sh", "-c", shell]), workdir="/testbed")
    await channel.open()
    try:
        assert (await channel.exec("echo $0 $BASH_VERSION; command -v setsid bash cat; exit 3")).output == b"/bin/sh\n"
        assert (await channel.exec("cd /tmp; export A='x\ny'; exit 4", stateful=True)).exit_code == 4
        assert (await channel.exec('pwd; echo "$A"', stateful=True)).output == b"/tmp\nx\ny\n"
        assert (await channel.exec("sleep 777 & sleep 777", timeout=0.5)).timed_out
        assert (await sandbox.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 77[7]'")).output == b"0\n"
        assert (await channel.exec("echo on")).output == b"on\n"
    finally:
        await channel.close()
