"""Images leave a machine as one file or to a registry, and come back the same, or are refused."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import zstandard
from docker.errors import ImageNotFound
from servers import free_port

from agentgym.sandbox import bundle, images
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.images import resolve
from agentgym.sandbox.protocol import BackendUnavailable, Image, ImageError, ImageSpec


@pytest.fixture(scope="module")
def client() -> docker.APIClient:
    try:
        return images.connect()
    except BackendUnavailable as error:
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture
async def two(client: docker.APIClient, tmp_path: Path):
    """Two images that share a base and a layer."""
    made: list[Image] = []
    for name in ("one", "two"):
        context = tmp_path / name
        context.mkdir()
        (context / "Dockerfile").write_text(f"FROM debian:bookworm\nWORKDIR /testbed\nRUN echo {name} > name\n")
        made.append(await images.build(client, ImageSpec(f"bundle-{name}", f"sha256:bundle-{name}", context)))
    yield made
    for image in made:
        remove(client, image.ref)


def remove(client: docker.APIClient, ref: str) -> None:
    try:
        client.remove_image(ref, force=True)
    except ImageNotFound:
        return


async def test_what_was_exported_comes_back_under_the_same_address(client: docker.APIClient, two, tmp_path: Path):
    file = tmp_path / "images.tar.zst"
    written = bundle.export(client, two, file)
    assert bundle.contents(file) == written
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    for image in two:
        remove(client, image.ref)
        with pytest.raises(ImageNotFound):
            client.inspect_image(image.ref)
    assert bundle.load(client, file) == written
    for image in two:
        assert client.inspect_image(image.ref)["Id"] == image.digest


async def test_shared_layers_are_written_once(client: docker.APIClient, two, tmp_path: Path):
    sizes = []
    for wanted in (two[:1], two):
        bundle.export(client, wanted, tmp_path / "images.tar.zst")
        sizes.append((tmp_path / "images.tar.zst").stat().st_size)
    assert sizes[1] < 1.1 * sizes[0]


async def test_a_bundle_is_what_docker_load_takes(two, client: docker.APIClient, tmp_path: Path):
    bundle.export(client, two[:1], tmp_path / "images.tar.zst")
    remove(client, two[0].ref)
    with (tmp_path / "images.tar.zst").open("rb") as file:
        plain = zstandard.ZstdDecompressor().stream_reader(file).read()
    subprocess.run(["docker", "load"], input=plain, check=True, capture_output=True)
    assert client.inspect_image(two[0].ref)["Id"] == two[0].digest


async def test_what_is_no_bundle_or_was_damaged_or_exchanged_is_refused(client, two, tmp_path: Path):
    (tmp_path / "text").write_text("no bundle")
    with pytest.raises(ImageError, match="not a bundle"):
        bundle.load(client, tmp_path / "text")
    with pytest.raises(ImageError, match="not a bundle"):
        bundle.load(client, tmp_path / "missing")
    bundle.export(client, two[:1], tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(ImageError):
        bundle.load(client, tmp_path / "cut")
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    other = plain.replace(two[0].digest.encode(), b"sha256:" + b"0" * 64, 1)
    (tmp_path / "exchanged").write_bytes(zstandard.ZstdCompressor().compress(other))
    with pytest.raises(ImageError, match="its list says"):
        bundle.load(client, tmp_path / "exchanged")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real registry on this machine's loopback, which engines speak plain HTTP to."""
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        pytest.skip("no registry program on this machine (Debian: apt-get install docker-registry)")
    place = tmp_path_factory.mktemp("registry")
    port = free_port()
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(place / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (place / "config.yml").write_text(json.dumps(config))  # JSON is YAML
    with (place / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve", str(place / "config.yml")], stdout=log, stderr=log)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        else:
            pytest.fail(f"the registry does not answer: {(place / 'log').read_text()[-2000:]}")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


async def test_a_pushed_image_can_be_pulled_and_is_the_same(client: docker.APIClient, two, registry: str):
    name, digest = bundle.push(client, two[0], registry)
    assert name == (await resolve(two[0].spec, KubernetesConfig(registry=registry))).ref
    assert digest.startswith("sha256:")
    for ref in (name, two[0].ref):
        remove(client, ref)
    pulled = f"{name.rpartition(':')[0]}@{digest}"
    client.pull(pulled)
    try:
        assert client.inspect_image(pulled)["Id"] == two[0].digest
    finally:
        remove(client, pulled)


async def test_a_registry_that_does_not_answer_is_said(client: docker.APIClient, two):
    with pytest.raises(ImageError, match="cannot push"):
        bundle.push(client, two[0], "127.0.0.1:1")
    remove(client, bundle.portable_reference(two[0].spec, "127.0.0.1:1"))


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        ("python", False),
        ("python:latest", False),
        ("localhost:5000/python", False),
        ("python:3.11", True),
        ("localhost:5000/python:3.11", True),
        ("python@sha256:" + "0" * 64, True),
        ("scratch", True),
    ],
)
def test_names_that_mean_another_image_tomorrow_are_found(name: str, pinned: bool, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(f"FROM {name} AS first\nFROM first\n")
    assert images.unpinned(ImageSpec("x", "sha256:x", tmp_path)) == ([] if pinned else [name])


def test_the_list_can_be_read_by_tar(tmp_path: Path):
    data = bundle._list_member([bundle.Entry("a:1", "sha256:1", "a")])
    (tmp_path / "list.tar").write_bytes(data)
    with tarfile.open(tmp_path / "list.tar") as tar:
        assert tar.getnames() == ["agentgym.json"]
