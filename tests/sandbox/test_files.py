"""Files and trees in and out of a sandbox, and what a snapshot holds."""

from __future__ import annotations

import asyncio
import os
import resource
import tarfile
import time
from io import BytesIO
from pathlib import Path

import pytest

from agentgym.sandbox import archive
from agentgym.sandbox.protocol import FileError, Sandbox, SandboxBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

ODD_NAMES = [
    "plain",
    "with space",
    "quote'\"",
    "new\nline",
    "ünïcode",
    "-dash",
    "$(touch pwned)",
    "back\\slash",
    "*",
    ".hidden",
]


@pytest.mark.parametrize(
    "data", [b"", b"text\n", bytes(range(256)) * 20, os.urandom(3_000_000)], ids=["empty", "text", "bytes", "3MB"]
)
async def test_a_file_comes_back_as_written(sandbox: Sandbox, data: bytes):
    await sandbox.write_file("/tmp/new/parent/file", data)
    assert await sandbox.read_file("/tmp/new/parent/file") == data


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_name_works(sandbox: Sandbox, name: str):
    await sandbox.write_file(f"/tmp/odd/{name}", name.encode())
    assert await sandbox.read_file(f"/tmp/odd/{name}") == name.encode()
    assert (await sandbox.exec("test ! -e pwned")).exit_code == 0


async def test_modes_are_kept_unless_given(sandbox: Sandbox):
    await sandbox.write_file("/tmp/script", b"#!/bin/sh\necho 1\n", mode=0o755)
    await sandbox.write_file("/tmp/script", b"#!/bin/sh\necho 2\n")
    assert (await sandbox.exec("/tmp/script")).output == b"2\n"
    await sandbox.write_file("/tmp/script", b"", mode=0o600)
    assert (await sandbox.exec("stat -c %a /tmp/script")).output == b"600\n"


async def test_writing_through_a_link_writes_its_target(sandbox: Sandbox):
    await sandbox.exec("mkdir -p /tmp/l; echo old > /tmp/l/target; ln -sf target /tmp/l/link")
    await sandbox.write_file("/tmp/l/link", b"new")
    assert await sandbox.read_file("/tmp/l/target") == b"new"


@pytest.mark.parametrize("path", ["relative", "/tmp/../etc/passwd", "/tmp/nul\0", ""])
async def test_a_path_that_is_not_plain_and_absolute_is_refused(sandbox: Sandbox, path: str, tmp_path: Path):
    for attempt in (
        sandbox.read_file(path),
        sandbox.write_file(path, b""),
        sandbox.upload(tmp_path, path),
        sandbox.download(path, tmp_path / "x"),
    ):
        with pytest.raises(FileError, match="refused"):
            await attempt


async def test_reading_what_is_missing_no_file_or_too_large_fails_by_type(sandbox: Sandbox):
    await sandbox.exec("mkfifo /tmp/fifo; head -c 1000 /dev/zero > /tmp/big; echo s > /tmp/secret; chmod 0 /tmp/secret")
    for path, message in [
        ("/tmp/missing", "No such file"), ("/tmp", "not a regular file"), ("/tmp/fifo", "not a regular file"),
        ("/tmp/secret", "Permission denied"),
    ]:  # fmt: skip
        with pytest.raises(FileError, match=message):
            await sandbox.read_file(path)
    with pytest.raises(FileError, match="more than 999 bytes"):
        await sandbox.read_file("/tmp/big", max_bytes=999)
    assert len(await sandbox.read_file("/tmp/big", max_bytes=1000)) == 1000


async def test_writing_where_one_may_not_fails_by_type(sandbox: Sandbox):
    for path in ("/proc/new", "/tmp", "/etc/passwd/x"):
        with pytest.raises(FileError, match="cannot write"):
            await sandbox.write_file(path, b"x")


def make_tree(root: Path) -> None:
    for index, name in enumerate(ODD_NAMES):
        directory = root / f"d{index}"
        directory.mkdir(parents=True)
        (directory / name).write_bytes(bytes([index]) * index)
    (root / "run.sh").write_text("echo ran\n")
    (root / "run.sh").chmod(0o750)
    (root / "link").symlink_to("d0/plain")
    (root / "outside").symlink_to("/etc/hostname")
    (root / "dangling").symlink_to("nowhere")
    (root / "empty").mkdir()
    (root / "locked").mkdir()
    (root / "locked" / "file").write_text("x")
    (root / "locked").chmod(0o555)


def listing(root: Path) -> dict[str, tuple[int, bytes | str]]:
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = (0, os.readlink(path))
        else:
            found[name] = (path.stat().st_mode, path.read_bytes() if path.is_file() else "dir")
    return found


async def test_a_tree_goes_in_and_comes_back_the_same(sandbox: Sandbox, tmp_path: Path):
    make_tree(tmp_path / "in")
    await sandbox.upload(tmp_path / "in", "/testbed/tree/deep")
    checks = await sandbox.exec(
        "cd tree/deep && ./run.sh && stat -c %u . run.sh && readlink outside && touch empty/mine"
    )
    assert checks.text == "ran\n1000\n1000\n/etc/hostname\n"
    await sandbox.exec("rm tree/deep/empty/mine")
    await sandbox.download("/testbed/tree/deep", tmp_path / "out")
    assert listing(tmp_path / "out") == listing(tmp_path / "in")


async def test_an_upload_adds_to_a_directory_and_keeps_its_mode(sandbox: Sandbox, tmp_path: Path):
    (tmp_path / "added").write_text("added")
    await sandbox.exec("mkdir -m 700 /tmp/kept; touch /tmp/kept/old")
    await sandbox.upload(tmp_path, "/tmp/kept")
    assert (await sandbox.exec("stat -c %a /tmp/kept; ls /tmp/kept")).text == "700\nadded\nold\n"


async def test_single_files_go_both_ways(sandbox: Sandbox, tmp_path: Path):
    (tmp_path / "f").write_bytes(b"\0data")
    (tmp_path / "f").chmod(0o751)
    await sandbox.upload(tmp_path / "f", "/tmp/single/renamed")
    assert (await sandbox.exec("stat -c %a:%u /tmp/single/renamed")).text == "751:1000\n"
    await sandbox.download("/tmp/single/renamed", tmp_path / "back" / "again")
    assert (tmp_path / "back" / "again").read_bytes() == b"\0data"
    with pytest.raises(FileError):
        await sandbox.upload(tmp_path / "missing", "/tmp/x")
    with pytest.raises(FileError):
        await sandbox.download("/tmp/missing", tmp_path / "x")


async def test_a_sparse_gigabyte_goes_in_and_comes_back_in_flat_memory(start, tmp_path: Path):
    roomy = await start(memory_mb=512)
    places = {0: b"first", 600_000_000: b"middle", (1 << 30) - 4: b"last"}
    with (tmp_path / "big").open("wb") as file:
        for place, data in places.items():
            file.seek(place)
            file.write(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await roomy.upload(tmp_path / "big", "/testbed/big")
    seen = await roomy.exec("stat -c %s big; tail -c +600000001 big | head -c 6; tail -c 4 big", timeout=120)
    assert seen.output == b"1073741824\nmiddlelast"
    await roomy.download("/testbed/big", tmp_path / "back")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"
    with (tmp_path / "back").open("rb") as file:
        for place, data in places.items():
            file.seek(place)
            assert file.read(len(data)) == data
        assert os.fstat(file.fileno()).st_size == 1 << 30
        assert os.fstat(file.fileno()).st_blocks * 512 < 10_000_000, "it came back with its holes"


async def test_a_link_inside_cannot_make_a_download_write_elsewhere(sandbox: Sandbox, tmp_path: Path):
    await sandbox.exec(
        "mkdir -p /tmp/evil; ln -s " + str(tmp_path / "victim") + " /tmp/evil/a; ln -s /etc /tmp/evil/etc"
    )
    await sandbox.download("/tmp/evil", tmp_path / "out")
    assert os.readlink(tmp_path / "out" / "etc") == "/etc"
    await sandbox.exec("rm /tmp/evil/a; mkdir /tmp/evil/a; echo x > /tmp/evil/a/f")
    with pytest.raises((FileError, OSError)):  # the earlier download's link lies where a directory comes
        await sandbox.download("/tmp/evil", tmp_path / "out")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("name", ["top/../../escape", "/abs", "top/a/../../../escape"])
async def test_a_tar_that_leads_out_is_refused(tmp_path: Path, name: str):
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        top = tarfile.TarInfo("top")
        top.type = tarfile.DIRTYPE
        tar.addfile(top)
        tar.addfile(tarfile.TarInfo(name))
    stream.seek(0)
    with pytest.raises(FileError, match="leads out"):
        archive.unpack(stream, tmp_path / "target")


async def test_a_tar_that_writes_through_its_own_link_does_not(tmp_path: Path):
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        link = tarfile.TarInfo("top/link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "victim")
        top = tarfile.TarInfo("top")
        top.type = tarfile.DIRTYPE
        tar.addfile(top)
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("top/link/file"))
    stream.seek(0)
    (tmp_path / "victim").mkdir()
    with pytest.raises((FileError, OSError)):
        archive.unpack(stream, tmp_path / "target")
    assert list((tmp_path / "victim").iterdir()) == []


async def test_a_snapshot_holds_the_files_and_the_original_goes_on(backend: SandboxBackend, sandbox: Sandbox, start):
    await sandbox.exec("echo at-snapshot > state; rm -f hello.txt")
    began = time.monotonic()
    frozen = await sandbox.snapshot()
    seconds = time.monotonic() - began
    await sandbox.exec("echo later > state; git checkout -q hello.txt")
    copies = [await start(image=frozen), await start(image=frozen)]
    assert [(await copy.exec("cat state; test -e hello.txt; echo $?; id -u")).text for copy in copies] == [
        "at-snapshot\n1\n1000\n"
    ] * 2
    await copies[0].exec("echo mine > state")
    assert (await copies[1].exec("cat state")).text == "at-snapshot\n"
    assert (await sandbox.exec("cat state")).text == "later\n"
    assert frozen.digest != sandbox.image.digest
    assert seconds < 5


async def test_file_calls_and_commands_run_side_by_side(sandbox: Sandbox):
    names = [f"/tmp/side/{i}" for i in range(8)]
    await asyncio.gather(*(sandbox.write_file(name, name.encode() * 100) for name in names))
    assert await asyncio.gather(*(sandbox.read_file(name) for name in names)) == [n.encode() * 100 for n in names]
