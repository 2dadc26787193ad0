"""The bottom layer of every `local` image: this host's own system, minus everything that is the host's business.

Programs and libraries come from the host's `/usr`, bound read-only when a sandbox starts. What is made here is the
rest of the tree: the directories a Linux system has, the few files of `/etc` that programs need to work,
certificates, package index settings, and a virtual environment at `/usr/local`, so that `python` and `pip` come first
on PATH, see no package of the host, and `pip install` works system-wide, as in the official Python images.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

from agentgym.sandbox import host
from agentgym.sandbox.protocol import ImageError

VERSION = 2
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"

_DIRECTORIES = (
    "dev etc/ssl home/agent media mnt opt proc root run srv sys/fs/cgroup/memory testbed tmp usr/local/bin usr/local/lib "
    "usr/local/share var/cache/apt/archives var/lib/apt/lists var/lib/dpkg var/log var/tmp"
)
_ETC = (
    "alternatives bash.bashrc debian_version gai.conf host.conf inputrc ld.so.cache ld.so.conf ld.so.conf.d "
    "locale.alias localtime login.defs magic mime.types netconfig networks nsswitch.conf os-release perl profile "
    "protocols python3 python3.11 rpc services shells ssl/openssl.cnf terminfo timezone xattr.conf java-17-openjdk "
    "java-21-openjdk"
)
_PASSWD = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
agent:x:1000:1000:agent:/home/agent:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = "root:x:0:\ndaemon:x:1:\nusers:x:100:\nagent:x:1000:\nnogroup:x:65534:\n"


def key() -> str:
    """Identifies the layer: this interpreter, this host's certificates and index settings, this code."""
    parts = [VERSION, sys.version, sys.base_prefix, host.pip_conf(), list(host.host_certificates())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def environment() -> dict[str, str]:
    """What a program sees when the Dockerfile says nothing else."""
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/root"}


def lay_out(tree: Path) -> None:
    """Write the static part into the empty directory `tree`."""
    if sys.base_prefix == "/usr/local":
        raise ImageError(
            "the local backend cannot use a Python that lives in /usr/local, which every image brings its own of",
            hint="run agentgym with the system's Python, or use the docker backend",
        )
    lay_out_frame(tree)
    for name in _ETC.split():
        source, target = Path("/etc", name), tree / "etc" / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore_dangling_symlinks=True)
        elif source.exists():
            shutil.copy2(source, target, follow_symlinks=not source.is_symlink())
    certificates = Path("/etc/ssl/certs")
    if certificates.is_dir():  # links followed: they may point to parts of the host that are not shown
        shutil.copytree(certificates, tree / "etc/ssl/certs", ignore_dangling_symlinks=True, dirs_exist_ok=True)
    bundle = tree / host.IMAGE_BUNDLE.lstrip("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("\n".join(host.host_certificates()) + "\n")
    texts = {"passwd": _PASSWD, "group": _GROUP, "hostname": "sandbox\n", "pip.conf": host.pip_conf()}
    texts["hosts"] = "127.0.0.1 localhost sandbox\n::1 localhost\n"
    texts["resolv.conf"] = ""
    for name, text in texts.items():
        (tree / "etc" / name).write_text(text)
    (tree / "etc/shadow").touch(mode=0)


def lay_out_frame(tree: Path) -> None:
    """Directories and the links to `/usr` only: as much as a program needs to start."""
    for name in _DIRECTORIES.split():
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (tree / name).chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        source = Path("/", name)
        if source.is_symlink():
            (tree / name).symlink_to(source.readlink())
        elif source.is_dir():
            (tree / name).mkdir()
    if not Path(sys.base_prefix).is_relative_to("/usr"):
        (tree / sys.base_prefix.lstrip("/")).mkdir(parents=True, exist_ok=True)


def venv_command() -> list[str]:
    """Makes `/usr/local` a virtual environment; to be run in a sandbox on top of `lay_out`'s tree."""
    interpreter = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return [interpreter, "-I", "-m", "venv", "/usr/local"]
