"""Uploads and downloads as a way out: links that point at the host, archives that were made to deceive."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from agentgym.sandbox import archive
from agentgym.sandbox.protocol import FileError, Sandbox, SandboxError

from .conftest import Host

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_upload_through_a_link_does_not_reach_the_host(sandbox: Sandbox, host: Host, tmp_path: Path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "planted").write_text("planted")
    folder = host.outside.parent
    await sandbox.exec(f"ln -sfn {folder} /testbed/out; ln -sfn ../../../../../../../../../..{folder} /testbed/up")
    for target in ("/testbed/out", "/testbed/out/deeper", "/testbed/up", "/testbed/up/deeper"):
        try:
            await sandbox.upload(tmp_path / "tree", target)
        except SandboxError as error:
            print(f"{target}: {error}")
    for target in ("/testbed/out/secret", "/testbed/up/secret"):
        try:
            await sandbox.write_file(target, b"overwritten")
        except SandboxError as error:
            print(f"{target}: {error}")
    assert [path.name for path in folder.iterdir()] == ["secret"]
    assert host.outside.read_text() == host.word
    await sandbox.exec("rm -f /testbed/out /testbed/up")


async def test_a_download_through_a_link_holds_nothing_of_the_host(sandbox: Sandbox, host: Host, tmp_path: Path):
    await sandbox.exec(f"mkdir -p /tmp/trap; ln -sfn {host.outside} /tmp/trap/secret; ln -sfn / /tmp/trap/root")
    await sandbox.download("/tmp/trap", tmp_path / "tree")
    for path in (tmp_path / "tree" / "secret", tmp_path / "tree" / "root"):
        assert path.is_symlink()
    for name in ("/tmp/trap/secret", f"/tmp/trap/root{host.outside}"):
        with pytest.raises(FileError):
            await sandbox.read_file(name)
        try:
            await sandbox.download(name, tmp_path / "one")
        except SandboxError:
            continue
        assert (tmp_path / "one").is_symlink()
        (tmp_path / "one").unlink()


def deceiving(kind: bytes, link: str) -> BytesIO:
    """What a replaced `tar` could send: a directory, and in it one link of this kind, then a file through it."""
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        top = tarfile.TarInfo("top")
        top.type = tarfile.DIRTYPE
        tar.addfile(top)
        member = tarfile.TarInfo("top/link")
        member.type, member.linkname = kind, link
        tar.addfile(member)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("climb", ["../" * 12, "top/" + "../" * 12, "/"])
async def test_a_hard_link_in_an_archive_does_not_fetch_a_file_of_the_host(host: Host, climb: str, tmp_path: Path):
    trap = deceiving(tarfile.LNKTYPE, climb + str(host.outside).lstrip("/"))
    with pytest.raises(FileError, match="leads out"):
        archive.unpack(trap, tmp_path / "deep" / "target")
    copies = [path for path in tmp_path.rglob("*") if path.is_file() and host.word in path.read_text()]
    assert copies == []


async def test_the_trap_is_a_trap(host: Host, tmp_path: Path):
    """Unpacked without suspicion, such an archive does fetch the file."""
    trap = deceiving(tarfile.LNKTYPE, str(host.outside))
    with tarfile.open(fileobj=trap) as tar:
        tar.extractall(tmp_path, filter="fully_trusted")
    assert (tmp_path / "top" / "link").read_text() == host.word
