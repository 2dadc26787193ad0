"""Building images for the `local` backend: a task's Dockerfile, interpreted inside bubblewrap.

Each RUN, COPY, ADD and WORKDIR becomes one layer, made by running it in a jail with the network on and the layers so
far below it. FROM names what the host's own system stands in for (`python` of the host's version, Debian); apt-get
succeeds where the host already has the packages and otherwise fails saying so, as nothing below `/usr` but
`/usr/local` can be written. What Docker would do and this does not: several stages, URLs and archives in ADD,
ONBUILD.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import posixpath
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dockerfile_parse.util import WordSplitter, extract_key_values

from agentgym.sandbox import hostbase
from agentgym.sandbox.context import collect, parse_copy
from agentgym.sandbox.dockerfile import Instruction, stages, substitute
from agentgym.sandbox.finish import FINISH_VERSION, finish
from agentgym.sandbox.images import read_dockerfile
from agentgym.sandbox.jail import Jail, JailProcess
from agentgym.sandbox.layers import LocalImage, give_to_sandbox, image_path, layer_root, remove_tree
from agentgym.sandbox.locks import file_lock
from agentgym.sandbox.paths import cache_dir
from agentgym.sandbox.process import LineLog, Log
from agentgym.sandbox.programs import run_program
from agentgym.sandbox.protocol import Image, ImageError, ImageSpec

logger = logging.getLogger(__name__)

RUN_TIMEOUT_S = 1800.0
_SHIMS = Path(__file__).with_name("shims")
_SHIM_TARGET = "/run/agentgym/shims"
_PYTHON = re.compile(r"^(?:docker\.io/)?(?:library/)?python:(\d+(?:\.\d+)?)[\w.-]*$")
_HOST_SYSTEM = re.compile(r"^(?:docker\.io/)?(?:library/)?debian:[\w.-]+$")
_LAYER_MAKERS = frozenset({"RUN", "COPY", "ADD", "WORKDIR"})
_WITHOUT_EFFECT = frozenset(
    {"LABEL", "EXPOSE", "CMD", "ENTRYPOINT", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "MAINTAINER", "USER"}
)


@dataclass(slots=True)
class _State:
    """What the instructions so far have set."""

    layers: list[Path]
    key: str
    env: dict[str, str]
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    shell: list[str] = field(default_factory=lambda: ["/bin/sh", "-c"])

    @property
    def variables(self) -> dict[str, str]:
        return {**self.arguments, **self.env}


async def build(spec: ImageSpec, *, log: Log = logger.info) -> Image:
    """The image for `spec`, built if the cache lacks it; ImageError names the instruction that failed, and its output."""
    base_key = hostbase.key()
    parts = [spec.digest, str(FINISH_VERSION), spec.workdir, base_key]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    path = image_path(key)
    async with file_lock(cache_dir() / "locks" / f"local-image-{key}"):
        if not path.exists():
            log(f"building the local image of {spec.name}")
            (await _build(spec, key, base_key, log)).save(path)
        image = LocalImage.load(path)
    return Image(spec=spec, ref=str(path), digest=image.digest, backend="local")


async def _build(spec: ImageSpec, key: str, base_key: str, log: Log) -> LocalImage:
    original = read_dockerfile(spec)
    found = stages(original)
    if len(found) > 1:
        raise ImageError(f"image {spec.name}: the local backend builds a single stage, not {len(found)}")
    note = stand_in(found[0].image)
    log(note)
    state = _State(await _base_layers(base_key, log), base_key, hostbase.environment())
    for item in [*original, *finish(replace(spec, user="agent"), chown=False)]:
        await _interpret(item, state, spec, log)
    notes = (note, *(f"ignored: {item}" for item in original if item.name == "USER"))
    layers = tuple(str(layer) for layer in state.layers)
    return LocalImage(spec.name, f"sha256:{state.key}", layers, state.env, state.workdir, notes)


def stand_in(image: str) -> str:
    """What the host's system is taken for; ImageError where it cannot stand in for `image`."""
    have = f"{sys.version_info.major}.{sys.version_info.minor}"
    if match := _PYTHON.match(image):
        if not f"{have}.".startswith(f"{match[1]}."):
            raise ImageError(
                f"FROM {image}: the local backend has this host's Python {have} only",
                hint=f"run agentgym with Python {match[1]}, or use the docker backend",
            )
    elif not _HOST_SYSTEM.match(image):
        raise ImageError(
            f"FROM {image}: the local backend cannot stand in for it",
            hint=f"base the task on python:{have} or debian, or use the docker backend",
        )
    return f"FROM {image}: this host's own system stands in (Python {sys.version.split()[0]})"


async def _interpret(item: Instruction, state: _State, spec: ImageSpec, log: Log) -> None:
    match item.name:
        case "FROM":
            state.arguments.clear()
        case "ARG":
            name, separator, value = item.value.partition("=")
            if separator:
                state.arguments[name.strip()] = WordSplitter(substitute(value, state.variables)).dequote()
        case "ENV":
            pairs = extract_key_values(False, {}, {}, substitute(item.value, state.variables))
            state.env.update({name: value or "" for name, value in pairs})
        case "SHELL":
            state.shell = item.exec_form or state.shell
        case name if name in _LAYER_MAKERS:
            await _add_layer(item, state, spec, log)
        case name if name in _WITHOUT_EFFECT:
            return
        case name:
            raise ImageError(f"Dockerfile {item}: {name} is not supported by the local backend")


async def _add_layer(item: Instruction, state: _State, spec: ImageSpec, log: Log) -> None:
    stdin, digest = b"", ""
    if item.name == "RUN":
        argv = item.exec_form or [*state.shell, item.script]
    elif item.name == "WORKDIR":
        words = WordSplitter(substitute(item.value, state.variables)).dequote()
        state.workdir = posixpath.normpath(posixpath.join(state.workdir, words))
        argv = ["mkdir", "-p", state.workdir]
    else:
        words = [word or "" for word in WordSplitter(substitute(item.value, state.variables)).split()]
        stdin, digest = collect(spec.context, parse_copy(item, item.exec_form or words, state.workdir), item)
        argv = ["tar", "-x", "--no-same-owner", "-p", "-C", "/", "-f", "-"]
    env = {**state.arguments, **state.env} if item.name == "RUN" else hostbase.environment()
    cwd = state.workdir if item.name == "RUN" else "/"
    facts = json.dumps([state.key, item.name, argv, sorted(env.items()), cwd, digest])
    state.key = hashlib.sha256(facts.encode()).hexdigest()[:32]
    log(f"{item.name} {item.value.splitlines()[0][:120]}")
    layer = await _make_layer(state.key, state.layers, argv, env, cwd, stdin, f"Dockerfile {item}", log)
    state.layers.append(layer)


async def _base_layers(key: str, log: Log) -> list[Path]:
    """The host's system below everything else: files of ours, then the virtual environment made on top of them."""
    skeleton = layer_root() / f"{key}-host"
    async with file_lock(cache_dir() / "locks" / f"local-layer-{skeleton.name}"):
        if not skeleton.exists():
            temporary = _fresh(skeleton.name) / "tree"
            await asyncio.to_thread(hostbase.lay_out, temporary)
            await asyncio.to_thread(give_to_sandbox, temporary)
            temporary.rename(skeleton)
    what = "making the virtual environment"
    env = hostbase.environment()
    return [skeleton, await _make_layer(key, [skeleton], hostbase.venv_command(), env, "/", b"", what, log)]


async def _make_layer(
    key: str,
    below: Sequence[Path],
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdin: bytes,
    what: str,
    log: Log,
) -> Path:
    """The layer that `argv` writes on top of `below`; made once."""
    layer = layer_root() / key
    async with file_lock(cache_dir() / "locks" / f"local-layer-{key}"):
        if layer.exists():
            return layer
        work = _fresh(key)
        try:
            await _run_in_jail(work, below, argv, env, cwd, stdin, what, log)
            (work / "tree").rename(layer)
        finally:
            await asyncio.to_thread(remove_tree, work)
    return layer


async def _run_in_jail(
    work: Path,
    below: Sequence[Path],
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdin: bytes,
    what: str,
    log: Log,
) -> None:
    jail = _build_jail(work, below)
    env = {**env, "PATH": f"{_SHIM_TARGET}:{env.get('PATH', hostbase.PATH)}"}
    lines = LineLog(log)
    process = await JailProcess.start(jail)
    try:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            ended = await run_program(process, argv, env=env, cwd=cwd, stdin=stdin, sink=lines.feed, join_errors=True)
    except TimeoutError:
        raise ImageError(f"{what}\n  gave up after {RUN_TIMEOUT_S:.0f} s\n{lines.tail}") from None
    finally:
        await process.kill()
    if ended.status != 0:
        raise ImageError(f"{what}\n  exit code {ended.status}\n{lines.tail}")


def _build_jail(work: Path, below: Sequence[Path]) -> Jail:
    files = {_SHIM_TARGET: _SHIMS}
    if (resolver := Path("/etc/resolv.conf")).exists():
        files["/etc/resolv.conf"] = resolver
    return Jail(
        lower=list(reversed(below)),
        upper=work / "tree",
        work=work / "work",
        uid=0,
        network=True,
        files=files,
        binds={"/var/lib/dpkg": "/var/lib/dpkg"} if Path("/var/lib/dpkg").is_dir() else {},
    )


def _fresh(name: str) -> Path:
    """An empty place to make a layer in; the caller holds the lock on the layer, so what is there is a dead builder's."""
    work = layer_root().parent / "tmp" / name
    remove_tree(work)
    for directory in (work / "tree", work / "work", layer_root()):
        directory.mkdir(parents=True, exist_ok=True)
    give_to_sandbox(work / "tree")
    return work
