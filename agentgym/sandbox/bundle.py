"""Docker images as one file, for machines and clusters that reach no registry; and to a registry, for those that do.

A bundle is a zstd-compressed tar that `docker load` understands by itself (`zstd -dc FILE | docker load`): what the engine's
`save` gives, with one file of ours in front, `agentgym.json`, which lists each image and its content address. The engine
writes layers that several images share once. After an import each image must have the address that the list names; an image's id
is the hash of its configuration, which names the hash of every layer, so what was damaged or exchanged on the way is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import docker
import requests
import zstandard
from docker.errors import DockerException, ImageNotFound

from agentgym.sandbox.finish import FINISH_VERSION
from agentgym.sandbox.protocol import Image, ImageError, ImageSpec

_LIST = "agentgym.json"
_FORMAT = 1
_CHUNK = 1 << 20
_MOST_LIST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One image of a bundle. ref: its tag. digest: the engine's id of it. name: the task's."""

    ref: str
    digest: str
    name: str


def export(client: docker.APIClient, wanted: Sequence[Image], target: Path) -> list[Entry]:
    """Write the images to `target`, which appears whole or not at all. ImageError where the engine lacks one."""
    entries = [Entry(image.ref, image.digest, image.spec.name) for image in wanted]
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as file, zstandard.ZstdCompressor(level=3, threads=-1).stream_writer(file) as packed:
            packed.write(_list_member(entries))
            for piece in _saved(client, [entry.ref for entry in entries]):
                packed.write(piece)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    return entries


def load(client: docker.APIClient, source: Path) -> list[Entry]:
    """Give the engine the images of a bundle; ImageError where it is no bundle, or an image is not what its list says."""
    try:
        entries = contents(source)
        with source.open("rb") as file:
            pieces = zstandard.ZstdDecompressor().read_to_iter(file, read_size=_CHUNK, write_size=_CHUNK)
            _post(client, "/images/load", pieces)
    except (zstandard.ZstdError, OSError) as error:
        raise ImageError(f"{source}: cannot be read to its end: {error}", hint="copy it again") from error
    for entry in entries:
        try:
            found = str(client.inspect_image(entry.ref)["Id"])
        except ImageNotFound:
            raise ImageError(f"{source}: it lists {entry.ref}, and does not hold it") from None
        if found != entry.digest:
            raise ImageError(f"{source}: {entry.ref} is {found}, and its list says {entry.digest}")
    return entries


def contents(source: Path) -> list[Entry]:
    """The list at the front of a bundle, read without the rest."""
    try:
        with source.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            header = tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "strict")
            if header.name != _LIST or header.size > _MOST_LIST_BYTES:
                raise ValueError(f"it begins with {header.name!r}")
            document = json.loads(stream.read(header.size))
        if document["format"] != _FORMAT:
            raise ValueError(f"format {document['format']} is not known here")
        return [Entry(**entry) for entry in document["images"]]
    except (OSError, ValueError, KeyError, TypeError, tarfile.TarError, zstandard.ZstdError) as error:
        raise ImageError(
            f"{source} is not a bundle of images: {error}", hint="make one with `agentgym images export`"
        ) from error


def portable_reference(spec: ImageSpec, registry: str | None) -> str:
    """The name that follows from the spec alone, as in `registry.example/agentgym/env:0123…`.

    Whoever pushes and whoever starts pods agree on it without talking, and without an engine.
    """
    facts = [spec.digest, str(FINISH_VERSION), spec.workdir, spec.user]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]
    return f"{registry.rstrip('/')}/agentgym/env:{key}" if registry else f"agentgym/env:{key}"


def push(client: docker.APIClient, image: Image, registry: str) -> tuple[str, str]:
    """Push one image under its `portable_reference`; returns that name and the registry's digest.

    registry: host, port and prefix, as in `registry.example.org/team`. Credentials come from Docker's own configuration
    (`docker login`).
    """
    name = portable_reference(image.spec, registry)
    repository, _, tag = name.rpartition(":")
    digest = ""
    try:
        client.tag(image.ref, repository, tag)
        for event in client.push(repository, tag=tag, stream=True, decode=True):
            if "error" in event:
                raise ImageError(f"cannot push {name}: {event['error']}", hint=f"docker login {registry.split('/')[0]}")
            digest = (event.get("aux") or {}).get("Digest", digest)
    except (DockerException, requests.RequestException) as error:
        raise ImageError(f"cannot push {name}: {error}", hint="is the registry's address right?") from error
    return name, digest


def _list_member(entries: Sequence[Entry]) -> bytes:
    data = json.dumps({"format": _FORMAT, "images": [asdict(entry) for entry in entries]}, indent=1).encode()
    header = tarfile.TarInfo(_LIST)
    header.size = len(data)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(header, io.BytesIO(data))
        length = tar.offset  # without the end-of-archive mark: the engine's own members follow
    return buffer.getvalue()[:length]


def _saved(client: docker.APIClient, refs: Sequence[str]) -> Iterator[bytes]:
    # Asked for together, so that shared layers come once; the client's own call takes a single name.
    answer: Any = client.get(f"{client.base_url}/images/get", params={"names": list(refs)}, stream=True)
    if answer.status_code >= 400:
        raise ImageError(f"the engine cannot save {', '.join(refs)}: {answer.text[:500]}")
    yield from answer.iter_content(_CHUNK)


def _post(client: docker.APIClient, path: str, body: Iterator[bytes]) -> None:
    try:
        answer: Any = client.post(
            f"{client.base_url}{path}",
            data=body,
            params={"quiet": 1},
            headers={"content-type": "application/x-tar"},
            stream=True,
        )
        said = answer.text
    except requests.RequestException as error:
        raise ImageError(f"the engine does not take the images: {error}") from error
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    failed = [line["error"] for line in lines if "error" in line]
    if answer.status_code >= 400 or failed:
        raise ImageError(f"the engine does not take the images: {failed or said[:500]}")
