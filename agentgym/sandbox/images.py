"""Docker images: where a FROM comes from, and how an `ImageSpec` becomes an image, once.

A FROM is satisfied by the image of that name in the engine, else by a pull, else by a base system made on this machine
(`agentgym.sandbox.base`) if the name stands for one we can stand in for; once made, that is used without asking again.
A stand-in keeps its own name; which FROM it replaced is logged and recorded in the image's labels. The tag of a task
image is a hash of everything that decides its content, so an image that exists is never built again, and a lock per tag
keeps two processes from building it at once.

Build containers carry the label `agentgym.stage=building`: the engine removes them when the build ends or its client
dies, and `reap_builds` those that outlived a crash of the engine itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import docker
import requests
from docker.errors import DockerException, ImageNotFound
from docker.utils import kwargs_from_env
from docker.utils.build import tar

from agentgym.sandbox import base
from agentgym.sandbox.context import ignore_patterns
from agentgym.sandbox.dockerfile import Instruction, external_images, parse, rebase, stages
from agentgym.sandbox.finish import FINISH_VERSION, finish
from agentgym.sandbox.locks import file_lock
from agentgym.sandbox.paths import cache_dir
from agentgym.sandbox.process import LineLog, Log
from agentgym.sandbox.protocol import BackendUnavailable, Image, ImageError, ImageSpec

logger = logging.getLogger(__name__)
T = TypeVar("T")

STAGE_LABEL = "agentgym.stage"
SPEC_LABEL = "agentgym.spec"
NAME_LABEL = "agentgym.name"
BASE_LABEL = "agentgym.base"
PULL_TIMEOUT_S = 20.0
BUILD_TIMEOUT_S = 1800.0

_STAND_IN = re.compile(
    r"^(?:docker\.io/)?(?:library/)?(?:python:3(?:\.11(?:\.\d+)?)?(?:-slim)?(?:-bookworm)?|debian:(?:bookworm|12|stable)[\w.-]*)$"
)
"""Names that a Debian bookworm base system with Python 3.11 can stand in for."""


def connect(timeout: float = BUILD_TIMEOUT_S) -> docker.APIClient:
    """A client of its own for long requests; BackendUnavailable where no engine answers."""
    try:
        client = docker.APIClient(version="auto", timeout=int(timeout), **kwargs_from_env())
        client.ping()
    except (DockerException, requests.RequestException) as error:
        raise BackendUnavailable(f"no Docker engine answers: {error}", hint="apt-get install docker.io") from error
    return client


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking `work` in a daemon thread: unlike `asyncio.to_thread`, it never holds up the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(setter: Callable[[Any], None], value: Any) -> None:
        if not future.cancelled():
            setter(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            outcome: tuple[Callable[[Any], None], Any] = (future.set_exception, error)
        else:
            outcome = (future.set_result, result)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True, name="agentgym-image").start()
    return await future


async def ensure_base(client: docker.APIClient, name: str, *, log: Log = logger.info) -> tuple[str, str]:
    """The image to build on in place of `FROM name`: (reference, engine's image id); ImageError where there is none."""
    found = await in_thread(lambda: _image_id(client, name))
    if found:
        return name, found
    wanted = await asyncio.to_thread(base.recipe) if _STAND_IN.match(name) else None
    if wanted and (found := await in_thread(lambda: _image_id(client, wanted.reference))):
        return wanted.reference, found  # made when no registry answered; asking again for each image would cost seconds
    reason = await _pull(client, name)
    if reason is None:
        return name, _require(await in_thread(lambda: _image_id(client, name)), name)
    if wanted is None:
        raise ImageError(
            f"FROM {name}: not in the engine, and it cannot be pulled ({reason})",
            hint=f"load it with `docker load`, or base the image on python:3.11 or debian:bookworm (not {name})",
        )
    async with file_lock(cache_dir() / "locks" / f"import-{wanted.key}"):
        found = await in_thread(lambda: _image_id(client, wanted.reference))
        if not found:
            log(f"FROM {name}: no registry answers; a Debian base system is made here (a minute or two, once)")
            archive = await base.ensure_archive(wanted, log)
            log(f"importing the base system as {wanted.reference}")
            await in_thread(lambda: _import(client, wanted, archive))
            found = _require(await in_thread(lambda: _image_id(client, wanted.reference)), wanted.reference)
    return wanted.reference, found


def _import(client: docker.APIClient, wanted: base.Recipe, archive: Path) -> None:
    repository, _, tag = wanted.reference.partition(":")
    changes = [
        "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
        "ENV LANG=C.UTF-8",
        f"LABEL {BASE_LABEL}={wanted.reference}",
        'CMD ["/bin/sh"]',
    ]
    client.import_image_from_data(base.unpack(archive), repository=repository, tag=tag, changes=changes)


async def _pull(client: docker.APIClient, name: str) -> str | None:
    """Try to pull; None on success, else why not."""
    repository, tag = (
        (name, None) if "@" in name else name.rsplit(":", 1) if ":" in name.split("/")[-1] else (name, "latest")
    )

    def pull() -> str | None:
        try:
            for event in client.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in event:
                    return str(event["error"])
        except (DockerException, requests.RequestException) as error:
            return str(error)
        return None

    try:
        async with asyncio.timeout(PULL_TIMEOUT_S):
            return await in_thread(pull)
    except TimeoutError:
        return f"no answer within {PULL_TIMEOUT_S:.0f} s"


async def build(client: docker.APIClient, spec: ImageSpec, *, log: Log = logger.info) -> Image:
    """The task image for `spec`, built if the engine lacks it; ImageError ends with the tail of the build log."""
    original = read_dockerfile(spec)
    bases: dict[str, str] = {}
    identities: list[str] = []
    for name in external_images(original):
        bases[name], identity = await ensure_base(client, name, log=log)
        identities.append(identity)
    facts = [spec.digest, str(FINISH_VERSION), spec.workdir, *identities, *(["as is"] if spec.user == "image" else [])]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    reference = f"agentgym/task:{key[:24]}"
    async with file_lock(cache_dir() / "locks" / f"image-{key[:24]}"):
        found = await in_thread(lambda: _image_id(client, reference))
        if not found:
            log(f"building the image of {spec.name}{_stand_ins(bases)}")
            user = await in_thread(lambda: _image_user(client, original, bases))
            text = _render(spec, original, bases, user)
            await in_thread(lambda: _run_build(client, spec, text, reference, log))
            found = _require(await in_thread(lambda: _image_id(client, reference)), reference)
    return Image(spec=spec, ref=reference, digest=found, backend="docker")


def _stand_ins(bases: dict[str, str]) -> str:
    replaced = [f"{reference} stands in for {name}" for name, reference in bases.items() if name != reference]
    return f" ({', '.join(replaced)})" if replaced else ""


def read_dockerfile(spec: ImageSpec) -> list[Instruction]:
    """The instructions of a spec: of its Dockerfile, or a lone FROM for an image that is only named."""
    if spec.context is None:
        if not spec.docker_image:
            raise ImageError(f"image {spec.name!r} has neither a build context nor a name to pull")
        return [Instruction("FROM", spec.docker_image, 1)]
    path = spec.context / "Dockerfile"
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"image {spec.name!r}: cannot read {path}: {error}") from error


def unpinned(spec: ImageSpec) -> list[str]:
    """Its FROM names that mean another image tomorrow: without tag and digest, or tagged `latest`."""
    names = external_images(read_dockerfile(spec))
    return [name for name in names if "@" not in name and (":" not in name.split("/")[-1] or name.endswith(":latest"))]


def _image_user(client: docker.APIClient, original: list[Instruction], bases: dict[str, str]) -> str:
    """Whom the image names: the last USER of its last stage, else its base's, else root."""
    last = stages(original)[-1]
    named = [item.value for item in original[last.index :] if item.name == "USER"]
    if named:
        return named[-1]
    if last.image in bases:
        return str(client.inspect_image(bases[last.image])["Config"].get("User") or "root")
    return "root"


def _render(spec: ImageSpec, original: list[Instruction], bases: dict[str, str], user: str) -> str:
    """The text sent to the engine. Labels tell build containers from images, and what stood in for which FROM."""
    lines: list[str] = []
    froms = {stage.index for stage in stages(original)}
    for index, item in enumerate(rebase(original, bases)):
        lines.append(item.render())
        if index in froms:
            lines.append(f"LABEL {STAGE_LABEL}=building")
    lines += [item.render() for item in finish(spec, chown=True, image_user=user)]
    replaced = {name: reference for name, reference in bases.items() if name != reference}
    labels = {SPEC_LABEL: spec.digest, NAME_LABEL: spec.name, STAGE_LABEL: "built"}
    labels |= {f"{BASE_LABEL}.{index}": f"{a} -> {b}" for index, (a, b) in enumerate(replaced.items())}
    lines.append("LABEL " + " ".join(f"{name}={json.dumps(value)}" for name, value in labels.items()))
    return "\n".join(lines) + "\n"


def _run_build(client: docker.APIClient, spec: ImageSpec, text: str, reference: str, log: Log) -> None:
    lines = LineLog(log)
    patterns = ignore_patterns(spec.context) if spec.context else []
    empty = cache_dir() / "empty-context"
    empty.mkdir(exist_ok=True)
    failure: str | None = None
    try:
        context: Any = tar(spec.context or empty, exclude=patterns, dockerfile=(".agentgym.Dockerfile", text))
        events = client.build(
            fileobj=context, custom_context=True, dockerfile=".agentgym.Dockerfile", tag=reference,
            rm=True, forcerm=True, decode=True, timeout=int(BUILD_TIMEOUT_S),
        )  # fmt: skip
        for event in events:
            for line in str(event.get("stream") or event.get("error") or "").splitlines():
                lines.add(line)
            failure = failure or event.get("error")
    except (DockerException, requests.RequestException, OSError) as error:
        failure = str(error)
    if failure:
        raise ImageError(f"the image of {spec.name} does not build: {failure}\n{lines.tail}")


def _image_id(client: docker.APIClient, reference: str) -> str | None:
    try:
        return str(client.inspect_image(reference)["Id"])
    except ImageNotFound:
        return None
    except (DockerException, requests.RequestException) as error:
        raise ImageError(f"the Docker engine cannot look up {reference}: {error}") from error


def _require(identity: str | None, reference: str) -> str:
    if identity is None:
        raise ImageError(f"{reference} vanished from the engine right after it was made", hint="is a prune running?")
    return identity


def reap_builds(client: docker.APIClient, *, settled_s: float = 120.0) -> int:
    """Remove build containers that a killed client or engine left behind, and none that a live build still needs.

    The engine commits a container right after its command ended, so one that has not run for `settled_s` is litter.
    """
    removed = 0
    for container in client.containers(all=True, filters={"label": f"{STAGE_LABEL}=building"}):
        age = time.time() - container["Created"]
        if age > BUILD_TIMEOUT_S or (container["State"] != "running" and age > settled_s):
            client.remove_container(container["Id"], force=True, v=True)
            removed += 1
    return removed
