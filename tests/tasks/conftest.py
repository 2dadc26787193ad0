"""A package index of our own on the loopback, with a small package in two releases: what a mirror looks like to pip."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentgym.tasks.manifest import PypiSource

OLD_FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: evenly\nVersion: 1.0\n",
    "README.md": b"old\n",
    "evenly.py": b"def is_even(n):\n    return n % 2 == 1\n\n\ndef half(n):\n    return n // 2\n",
    "gone.py": b"unused = 1\n",
    "table.bin": bytes(range(256)),
    "test_evenly.py": b"import evenly\n\n\ndef test_half():\n    assert evenly.half(4) == 2\n",
}
NEW_FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: evenly\nVersion: 1.1\n",
    "README.md": b"new\n",
    "evenly.py": b"def is_even(n):\n    return n % 2 == 0\n\n\ndef half(n):\n    return n // 2\n",
    "table.bin": bytes(reversed(range(256))),
    "tests/test_evenly.py": (
        b"import evenly\n\n\ndef test_half():\n    assert evenly.half(4) == 2\n\n\n"
        b"def test_even():\n    assert evenly.is_even(2)\n"
    ),
}


def sdist(top: str, files: Mapping[str, bytes]) -> bytes:
    """A .tar.gz whose members lie below the folder `top`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@dataclass
class Index:
    """files: filename -> content. as_json: the JSON form of the simple API, else HTML. requests: paths asked for."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    as_json: bool = True
    password: str | None = None
    requests: list[str] = field(default_factory=list)

    old_files = OLD_FILES
    new_files = NEW_FILES

    def publish(self, version: str, files: Mapping[str, bytes]) -> None:
        """Offer another release."""
        self.files[f"evenly-{version}.tar.gz"] = sdist(f"evenly-{version}", files)

    def sha256(self, filename: str) -> str:
        return hashlib.sha256(self.files[filename]).hexdigest()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Index]:
    """A running index that pip is configured to use, and an empty cache."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            if served.password and served.password not in (self.headers.get("Authorization") or ""):
                return self.send_error(401)
            if self.path == "/simple/evenly/":
                return self._send(*self._listing())
            content = served.files.get(self.path.rsplit("/", 1)[-1])
            return self._send("application/octet-stream", content) if content else self.send_error(404)

        def _listing(self) -> tuple[str, bytes]:
            if served.as_json:
                files = [
                    {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": served.sha256(name)}}
                    for name in served.files
                ]
                return "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode()
            links = (f'<a href="../../files/{name}#sha256={served.sha256(name)}">{name}</a>' for name in served.files)
            return "text/html", "".join(links).encode()

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Index(f"http://127.0.0.1:{server.server_port}/simple")
    served.files["evenly-1.0.tar.gz"] = sdist("evenly-1.0", OLD_FILES)
    served.files["evenly-1.1.tar.gz"] = sdist("evenly-1.1", NEW_FILES)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", served.url)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield served
    server.shutdown()
    server.server_close()


@pytest.fixture
def pair(index: Index) -> PypiSource:
    """The pinned pair that the index offers."""
    return PypiSource(
        kind="pypi",
        package="evenly",
        old="1.0",
        new="1.1",
        old_filename="evenly-1.0.tar.gz",
        new_filename="evenly-1.1.tar.gz",
        old_sha256=index.sha256("evenly-1.0.tar.gz"),
        new_sha256=index.sha256("evenly-1.1.tar.gz"),
    )


MANIFEST = """\
schema_version = "1.1"

[environment]
cpus = 2
memory = "1G"
allow_internet = true

[agentgym]
fail_to_pass = ["tests/test_a.py::test_a"]
pass_to_pass = ["tests/test_a.py::test_b[x y::z]"]
test_paths = ["tests/**"]
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A task directory whose material lies in itself."""
    root = tmp_path / "sample"
    files = {
        "task.toml": MANIFEST,
        "instruction.md": "Mend it.\n",
        "environment/Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /testbed\n",
        "tests/test.sh": "#!/bin/bash\n",
        "tests/hidden/tests/test_a.py": "def test_a(): pass\n",
        "solution/gold.patch": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
