"""Docker images: built once, on a base this machine can get, ending as one scrubbed commit. On a real engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import docker
import pytest
import pytest_asyncio
from docker.errors import ImageNotFound

from agentgym.sandbox import images
from agentgym.sandbox.protocol import BackendUnavailable, ImageError, ImageSpec

BASE = "FROM python:3.11-slim-bookworm\n"
MakeSpec = Callable[..., ImageSpec]


@pytest.fixture(scope="module")
def client() -> docker.APIClient:
    try:
        return images.connect()
    except BackendUnavailable as error:
        pytest.skip(f"no Docker engine: {error}")


@pytest_asyncio.fixture
async def make_spec(client: docker.APIClient, tmp_path: Path) -> AsyncIterator[MakeSpec]:
    """Specs whose digest no other test run has; their images are removed again."""
    made: list[ImageSpec] = []

    def make(dockerfile: str, **files: str) -> ImageSpec:
        context = tmp_path / f"context{len(made)}"
        context.mkdir()
        (context / "Dockerfile").write_text(dockerfile)
        for name, text in files.items():
            (context / name).write_text(text)
        made.append(ImageSpec(f"test-{len(made)}", f"sha256:{os.urandom(16).hex()}", context, workdir="/testbed"))
        return made[-1]

    yield make
    for spec in made:
        for image in client.images(filters={"label": f"{images.SPEC_LABEL}={spec.digest}"}):
            with contextlib.suppress(ImageNotFound):
                client.remove_image(image["Id"], force=True)


def output(client: docker.APIClient, image: str, command: str) -> str:
    """What a command prints in a container of the image, run as the image says."""
    container = client.create_container(
        image, ["/bin/sh", "-c", command], host_config=client.create_host_config(network_mode="none")
    )
    try:
        client.start(container)
        client.wait(container)
        return client.logs(container).decode()
    finally:
        client.remove_container(container, force=True)


async def test_the_workdir_ends_as_one_commit_without_a_past(client: docker.APIClient, make_spec: MakeSpec):
    spec = make_spec(
        BASE + "WORKDIR /testbed\n"
        "RUN git init -q . && git config user.email a@b && git config user.name a \\\n"
        " && printf '*.log\\n' > .gitignore && echo 1 > f && echo x > kept.log && git add -f . && git commit -qm one \\\n"
        " && echo the-answer > f && git commit -qam two && git reset -q --hard HEAD~1 && git tag v1 \\\n"
        " && git remote add origin https://example.invalid/x.git && echo y > stray.log && echo new > untracked\n"
    )
    built = await images.build(client, spec)
    seen = output(
        client,
        built.ref,
        "id -u; pwd; git log --oneline | wc -l; git remote; git tag; git reflog; git fsck --lost-found; git status --short;"
        "git ls-files | tr '\\n' ' '; touch writable && echo can-write; rm writable;"
        "for o in $(find .git/objects -type f); do git cat-file -p $(echo $o | tr -d / | sed s/.gitobjects//); done 2>/dev/null |"
        " grep -c the-answer",
    )
    assert seen.splitlines() == ["1000", "/testbed", "1", ".gitignore f kept.log untracked can-write", "0"]


async def test_pip_works_system_wide_and_is_not_left_cached(client: docker.APIClient, make_spec: MakeSpec):
    built = await images.build(
        client, make_spec(BASE + "RUN pip install --no-cache-dir six==1.16.0\nWORKDIR /testbed\n")
    )
    assert (
        output(client, built.ref, "python -c 'import six; print(six.__version__)'; ls -A /tmp /root 2>&1 | grep cache")
        == "1.16.0\n"
    )


async def test_a_substituted_base_keeps_its_own_name_and_is_recorded(client: docker.APIClient, make_spec: MakeSpec):
    log: list[str] = []
    built = await images.build(client, make_spec(BASE), log=log.append)
    labels = client.inspect_image(built.ref)["Config"]["Labels"]
    if client.images("python:3.11-slim-bookworm"):
        assert not any(name.startswith(images.BASE_LABEL + ".") for name in labels)
    else:
        assert labels[f"{images.BASE_LABEL}.0"].startswith("python:3.11-slim-bookworm -> agentgym/base:bookworm-")
        assert any("stands in" in line for line in log)


async def test_an_image_without_git_says_that_its_history_is_not_scrubbed(
    client: docker.APIClient, make_spec: MakeSpec
):
    log: list[str] = []
    await images.build(client, make_spec(BASE + "RUN rm /usr/bin/git\n"), log=log.append)
    assert any("not scrubbed" in line for line in log)


async def test_concurrent_builds_of_one_spec_build_once(client: docker.APIClient, make_spec: MakeSpec):
    spec = make_spec(BASE + "RUN date +%N > /stamp\n")
    logs: list[str] = []
    results = await asyncio.gather(*(images.build(client, spec, log=logs.append) for _ in range(4)))
    assert len({result.digest for result in results}) == 1
    assert sum("Successfully built" in line for line in logs) == 1


async def test_a_failing_build_shows_the_end_of_its_log(client: docker.APIClient, make_spec: MakeSpec):
    with pytest.raises(ImageError, match="returned a non-zero code: 3") as raised:
        await images.build(client, make_spec(BASE + "RUN echo started; no-such-program; exit 3\n"))
    assert "no-such-program: not found" in str(raised.value)


async def test_a_base_nobody_has_is_named(client: docker.APIClient, make_spec: MakeSpec):
    with pytest.raises(ImageError, match=r"FROM agentgym-tests/nothing:1.*cannot be pulled"):
        await images.build(client, make_spec("FROM agentgym-tests/nothing:1\n"))


async def test_a_killed_build_leaves_no_container_and_the_next_one_works(client: docker.APIClient, make_spec: MakeSpec):
    spec = make_spec(BASE + "COPY wait /wait\nRUN sleep $(cat /wait)\n", wait="3")
    program = (
        "import asyncio, sys, json; from pathlib import Path; from agentgym.sandbox import images\n"
        "from agentgym.sandbox.protocol import ImageSpec\n"
        "name, digest, context = json.loads(sys.argv[1])\n"
        "asyncio.run(images.build(images.connect(), ImageSpec(name, digest, Path(context)), log=lambda l: print(l, flush=True)))"
    )
    arguments = [sys.executable, "-c", program, json.dumps([spec.name, spec.digest, str(spec.context)])]
    builder = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None
    for line in builder.stdout:
        if "sleep $(cat" in line:
            break
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    built = await images.build(client, spec)
    assert output(client, built.ref, "cat /wait") == "3"
    deadline = time.monotonic() + 15
    while left := building(client, "sleep $(cat /wait)"):
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.5)


def building(client: docker.APIClient, command: str) -> list[str]:
    """Containers of builds that run this command; others on this engine may build as well."""
    found = client.containers(all=True, filters={"label": f"{images.STAGE_LABEL}=building"})
    return [container["Id"] for container in found if command in container["Command"]]
