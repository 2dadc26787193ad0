"""What is particular to the Docker backend: its errors, its labels, and the containers it leaves alone."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from agentgym.sandbox.docker import DockerBackend, DockerSandbox
from agentgym.sandbox.engine import Engine, EngineError
from agentgym.sandbox.protocol import (
    BackendUnavailable,
    Image,
    ImageSpec,
    Limits,
    Sandbox,
    SandboxBackend,
    SandboxGone,
    StartError,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def docker(backend: SandboxBackend) -> DockerBackend:
    if not isinstance(backend, DockerBackend):
        pytest.skip("about the docker backend only")
    return backend


@pytest_asyncio.fixture(loop_scope="module")
async def engine(docker: DockerBackend):
    opened = Engine()
    yield opened
    await opened.close()


async def test_no_engine_is_unavailable_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path):
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


async def test_a_plain_posix_shell_is_enough(docker: DockerBackend, start, sandbox: Sandbox):
    """Given an image without bash, setsid and python, then commands, state and timeouts work all the same."""
    await sandbox.exec("true")
    root = await docker.start(
        Image(ImageSpec("root", "", workdir="/"), sandbox.image.ref, "", "docker"), Limits(memory_mb=128)
    )
    assert (await root.exec("pwd")).output == b"/\n"
    await root.close()
