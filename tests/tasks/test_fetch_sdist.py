"""Source distributions come from pip's configured index, are what was pinned, and unpack inside their folder only."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from agentgym.tasks import fetch_sdist


def test_the_index_and_credentials_are_pips(index, tmp_path, monkeypatch):
    index.password = "Basic dXNlcjpwYSBzcw=="  # user:pa ss
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("http://", "http://user:pa%20ss@"))
    target = tmp_path / "tree"

    done = subprocess.run(
        [
            sys.executable,
            fetch_sdist.__file__,
            "Evenly",
            "evenly-1.0.tar.gz",
            index.sha256("evenly-1.0.tar.gz"),
            str(target),
        ],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert (target / "evenly.py").exists()
    assert not (tmp_path / "tree.sdist").exists()
    assert index.requests == ["/simple/evenly/", "/files/evenly-1.0.tar.gz"]


@pytest.mark.parametrize("as_json", [True, False])
def test_both_forms_of_the_simple_api_are_understood(index, as_json):
    index.as_json = as_json

    files = {name: (url, sha256) for name, url, sha256 in fetch_sdist.list_files("evenly")}

    assert files["evenly-1.1.tar.gz"] == (
        index.url.replace("/simple", "/files/evenly-1.1.tar.gz"),
        index.sha256("evenly-1.1.tar.gz"),
    )


def test_an_extra_index_is_asked_too(index, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", index.url + "-missing")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file:///no/such/index {index.url}")

    assert len(fetch_sdist.list_files("evenly")) == 2


def test_pips_own_default_index_is_known_without_naming_it(monkeypatch):
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    assert fetch_sdist.pip_settings()["index-url"].startswith("https://")


def test_a_missing_package_says_what_each_index_answered(index):
    with pytest.raises(fetch_sdist.FetchError, match=r"nothing.*404"):
        fetch_sdist.list_files("nothing")


def test_other_bytes_than_pinned_are_refused(index, tmp_path):
    pinned = index.sha256("evenly-1.0.tar.gz")
    index.as_json = False
    index.files["evenly-1.0.tar.gz"] += b"x"
    index.sha256 = lambda filename: pinned  # an index that lies about what it serves

    with pytest.raises(fetch_sdist.FetchError, match=r"pinned is"):
        fetch_sdist.download("evenly", "evenly-1.0.tar.gz", pinned, tmp_path / "file")
    assert list(tmp_path.glob("file*")) == []


def _archive(path: Path, **member: object) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo(str(member.pop("name")))
        data = bytes(member.pop("data", b""))  # type: ignore[arg-type]
        info.size = len(data)
        for key, value in member.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    "member",
    [
        {"name": "top/../../escaped", "data": b"x"},
        {"name": "/etc/escaped", "data": b"x"},
        {"name": "top/link", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"name": "top/link", "type": tarfile.LNKTYPE, "linkname": "../../outside"},
        {"name": "top/device", "type": tarfile.CHRTYPE},
    ],
)
def test_a_hostile_archive_is_refused(tmp_path, member):
    archive = _archive(tmp_path / "a.tar.gz", **member)

    with pytest.raises(fetch_sdist.FetchError):
        fetch_sdist.unpack(archive, tmp_path / "tree")

    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path / "tree/link").exists()


def test_a_truncated_archive_is_refused(index, tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(index.files["evenly-1.0.tar.gz"][:100])

    with pytest.raises(fetch_sdist.FetchError, match="not a readable source distribution"):
        fetch_sdist.unpack(tmp_path / "a.tar.gz", tmp_path / "tree")
