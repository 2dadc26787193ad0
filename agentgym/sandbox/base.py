"""A Debian base system made on this machine, for where no image registry answers.

`debootstrap` fetches Debian packages, the host's certificates and package index settings are laid in, and the tree is
packed into the cache. A virtual environment at `/usr/local` gives the layout of the official Python images: `python`
and `pip` come first on PATH and `pip install` works system-wide, without touching Debian's own interpreter. The
result is named after the recipe that made it and never after an upstream image.

Made once per recipe: under a file lock, in a temporary directory that is renamed when complete, inside a mount and PID
namespace of its own so that a killed run leaves no mount and no process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import zstandard

from agentgym.sandbox import host
from agentgym.sandbox.locks import file_lock
from agentgym.sandbox.paths import cache_dir
from agentgym.sandbox.process import Log, run_logged
from agentgym.sandbox.protocol import ImageError

PACKAGES = (
    "bash", "ca-certificates", "git", "netbase", "patch", "procps", "python3", "python3-venv", "ripgrep", "tzdata",
)  # fmt: skip
_RECIPE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what the base system contains; its hash is its name."""

    suite: str = "bookworm"
    packages: tuple[str, ...] = PACKAGES
    machine: str = platform.machine()
    version: int = _RECIPE_VERSION
    certificates: str = ""
    pip_conf: str = ""
    apt_conf: str = ""
    sources: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def reference(self) -> str:
        """The image name, e.g. `agentgym/base:bookworm-0123456789abcdef`."""
        return f"agentgym/base:{self.suite}-{self.key}"

    @property
    def archive(self) -> Path:
        """The packed tree in the cache; complete if it exists."""
        return cache_dir() / "base" / f"{self.suite}-{self.key}.tar.zst"


def recipe(suite: str = "bookworm") -> Recipe:
    """The recipe for this host: its own apt sources where they have `suite`, else debootstrap's default mirror."""
    sources = [s for s in host.apt_sources() if s.suite in (suite, f"{suite}-updates", f"{suite}-security")]
    if not any(source.suite == suite for source in sources):
        sources = []
    sources.sort(key=lambda source: (source.suite != suite, source.suite, source.uri))
    return Recipe(
        suite=suite,
        certificates=hashlib.sha256("".join(host.host_certificates()).encode()).hexdigest(),
        pip_conf=host.pip_conf(),
        apt_conf=host.apt_proxy(),
        sources=tuple(dict.fromkeys(f"{source.uri} {source.suite}" for source in sources)),
    )


async def ensure_archive(wanted: Recipe, log: Log) -> Path:
    """The packed base system, made if the cache lacks it (about a minute); ImageError says what is missing."""
    archive = wanted.archive
    if archive.exists():
        return archive
    async with file_lock(cache_dir() / "locks" / f"base-{wanted.key}"):
        if archive.exists():
            return archive
        if os.geteuid() != 0:
            raise ImageError(
                "no image registry answers, and only root can make a base system here",
                hint="sudo agentgym images build --base, or use --sandbox local",
            )
        if shutil.which("debootstrap") is None:
            raise ImageError(
                "no image registry answers, and debootstrap is missing", hint="apt-get install debootstrap"
            )
        work = archive.with_suffix(".tmp")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            await _bootstrap(wanted, work / "root", log)
            log("packing the base system")
            await asyncio.to_thread(_pack, work / "root", work / archive.name)
            (work / archive.name).rename(archive)
        finally:
            await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    return archive


async def _bootstrap(wanted: Recipe, root: Path, log: Log) -> None:
    mirror = [source.split()[0] for source in wanted.sources[:1]]
    log(f"making a Debian {wanted.suite} base system with debootstrap")
    private = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(wanted.packages)}"]
    await run_logged([*private, *command, wanted.suite, str(root), *mirror], what="debootstrap", log=log)
    _configure(wanted, root)
    script = textwrap.dedent("""
        set -e
        update-ca-certificates
        rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
        python3 -m venv /usr/local
        apt-get clean
        rm -rf /var/lib/apt/lists/* /var/log/*.log /tmp/* /root/.cache
    """)
    environment = {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin", "LANG": "C.UTF-8"}
    chroot = [*private, "chroot", str(root), "/bin/sh", "-c", script]
    await run_logged(chroot, what="configuring the base system", log=log, env=environment)


def _configure(wanted: Recipe, root: Path) -> None:
    certificates = root / "usr/local/share/ca-certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    for index, pem in enumerate(host.extra_certificates(root / host.IMAGE_BUNDLE.lstrip("/"))):
        (certificates / f"host-{index}.crt").write_text(pem + "\n")
    (root / "etc/pip.conf").write_text(wanted.pip_conf)
    if wanted.sources:  # else debootstrap has written the mirror it chose
        lines = [f"deb {source} main" for source in wanted.sources]
        (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    if wanted.apt_conf:
        (root / "etc/apt/apt.conf.d/90host-proxy").write_text(wanted.apt_conf)
    (root / "etc/hostname").write_text("sandbox\n")
    (root / "etc/resolv.conf").write_text("")


def _pack(root: Path, target: Path) -> None:
    command = ["tar", "--numeric-owner", "--one-file-system", "--sort=name", "-C", str(root), "-cf", "-", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar, target.open("wb") as file:
        assert tar.stdout is not None
        zstandard.ZstdCompressor(level=3, threads=-1).copy_stream(tar.stdout, file)
    if tar.returncode != 0:
        raise ImageError(f"tar could not pack the base system (exit code {tar.returncode})", hint="is the disk full?")


def unpack(archive: Path) -> Iterator[bytes]:
    """The tar stream inside the archive, in chunks."""
    with archive.open("rb") as file:
        yield from zstandard.ZstdDecompressor().read_to_iter(file, read_size=1 << 20, write_size=1 << 20)
