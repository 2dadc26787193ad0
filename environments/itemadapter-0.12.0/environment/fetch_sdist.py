"""Fetch one source distribution, check its sha256, unpack it safely. Standard library only, Python >= 3.8.

This file is a module of agentgym *and* a program: a PyPI-pair task copies it beside its Dockerfile, so that the
image, the tests and the solution fetch in the one way that is tested. `pip download` will not do: it runs the
package's build backend for metadata, which fails for some old packages and executes code that nobody pinned. Where
packages come from is pip's business all the same: index, extra indexes, certificate, credentials and trusted hosts
are read from pip's own configuration.

    python3 fetch_sdist.py PACKAGE FILENAME SHA256 TARGET     TARGET must not exist or be empty
"""

import ast
import base64
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

ATTEMPTS = 4


class FetchError(Exception):
    """No index gave the file, or what it gave is not what was pinned."""


def _pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    environment = {**os.environ, "COLUMNS": "1000", "PIP_NO_COLOR": "1"}
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise FetchError(f"pip of {sys.executable} does not answer, so its index is unknown: {error}") from error


def pip_settings():
    """pip's effective settings as {name: value}: configuration files, overridden by PIP_* variables."""
    settings = {}
    found = [re.match(r"(:env:|[^.=]+)\.([^=]+)=(.*)", line) for line in _pip("config", "list").splitlines()]
    for section in ("global", "download", ":env:"):
        for match in found:
            if match and match.group(1) == section:
                settings[match.group(2)] = ast.literal_eval(match.group(3))
    if "index-url" not in settings:
        default = re.search(r"--index-url <url>.*?\(default\s+([^\s)]+)\)", _pip("download", "--help"), re.DOTALL)
        if default:
            settings["index-url"] = default.group(1)
    return settings


def _open(url, settings, accept="*/*"):
    parts = urllib.parse.urlsplit(url)
    headers = {"Accept": accept, "User-Agent": "agentgym-fetch-sdist/1"}
    if parts.username:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    context = ssl.create_default_context(cafile=settings.get("cert") or None)
    if parts.hostname in settings.get("trusted-host", "").split():
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(urllib.parse.urlunsplit(parts), headers=headers)
    for attempt in range(ATTEMPTS):
        try:
            return urllib.request.urlopen(request, timeout=60, context=context)
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == ATTEMPTS - 1:
                raise
        except OSError:
            if parts.scheme == "file" or attempt == ATTEMPTS - 1:
                raise
        time.sleep(2**attempt)
    raise AssertionError("unreachable")


class _Anchors(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.links.extend(value for name, value in attrs if name == "href" and value)


def _html_files(body):
    anchors = _Anchors()
    anchors.feed(body.decode("utf-8", "replace"))
    for link in anchors.links:
        url, _, fragment = link.partition("#")
        filename = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        yield filename, url, fragment[7:] if fragment.startswith("sha256=") else None


def _json_files(body):
    for entry in json.loads(body)["files"]:
        yield entry["filename"], entry["url"], entry["hashes"].get("sha256")


def _join(base, url, index):
    """The file's absolute URL; the index's credentials are for files on the index's own host too, as with pip."""
    parts, origin = urllib.parse.urlsplit(urllib.parse.urljoin(base, url)), urllib.parse.urlsplit(index)
    if origin.username and parts.netloc == origin.netloc.rpartition("@")[2]:
        parts = parts._replace(netloc=origin.netloc)
    return urllib.parse.urlunsplit(parts)


def list_files(package, settings=None):
    """[(filename, url, sha256 or None)] that the configured indexes offer; FetchError says what each of them said."""
    settings = pip_settings() if settings is None else settings
    indexes = [settings.get("index-url"), *settings.get("extra-index-url", "").split()]
    name = re.sub(r"[-_.]+", "-", package).lower()
    files, faults = [], []
    for index in filter(None, indexes):
        page = f"{index.rstrip('/')}/{name}/"
        try:
            with _open(page, settings, "application/vnd.pypi.simple.v1+json, text/html;q=0.1") as reply:
                base, kind, body = reply.geturl(), reply.headers.get("Content-Type", ""), reply.read()
        except (OSError, ValueError) as error:
            faults.append(str(error))
            continue
        found = _json_files(body) if "json" in kind else _html_files(body)
        files.extend((name, _join(base, url, index), digest) for name, url, digest in found)
    if not files:
        raise FetchError(f"no configured package index offers {package}: {'; '.join(faults) or 'empty answers'}")
    return files


def download(package, filename, sha256, target, settings=None):
    """Write the file to `target` (atomically) after checking its sha256."""
    settings = pip_settings() if settings is None else settings
    urls = [url for name, url, digest in list_files(package, settings) if name == filename and digest in (None, sha256)]
    if not urls:
        raise FetchError(f"no configured package index offers {filename} with sha256 {sha256}")
    try:
        with _open(urls[0], settings) as reply:
            body = reply.read()
    except OSError as error:
        raise FetchError(f"{filename}: {error}") from error
    found = hashlib.sha256(body).hexdigest()
    if found != sha256:
        raise FetchError(f"{filename} has sha256 {found}, pinned is {sha256}")
    part = Path(f"{target}.{os.getpid()}.part")
    part.write_bytes(body)
    part.replace(target)


def unpack(archive, target):
    """Unpack an sdist into `target`, less its top folder. A link becomes the file it names; nothing leaves `target`."""
    target = Path(target)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FetchError(f"{target} is not empty")
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts
                if ".." in parts or PurePosixPath(member.name).is_absolute():
                    raise FetchError(f"{archive}: refuses to unpack {member.name!r} outside its folder")
                if member.isdir() or len(parts) < 2:
                    continue
                source = tar.extractfile(member) if member.isfile() or member.islnk() or member.issym() else None
                if source is None:
                    raise FetchError(f"{archive}: {member.name!r} is neither a file nor a folder")
                path = target.joinpath(*parts[1:])
                path.parent.mkdir(parents=True, exist_ok=True)
                with source, path.open("wb") as out:
                    shutil.copyfileobj(source, out)
                path.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise FetchError(f"{archive} is not a readable source distribution: {error}") from error


def main(arguments):
    """Fetch and unpack; leaves nothing but the unpacked tree."""
    if len(arguments) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    package, filename, sha256, target = arguments
    archive = Path(f"{target.rstrip('/')}.sdist")
    try:
        download(package, filename, sha256, archive)
        unpack(archive, target)
    except (FetchError, OSError) as error:
        print(f"fetch_sdist: {error}", file=sys.stderr)
        return 1
    finally:
        if archive.exists():
            archive.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
