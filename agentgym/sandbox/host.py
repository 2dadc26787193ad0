"""What of this host's configuration a new base system needs so that pip, git and apt reach the same places from inside.

Carried over: certificates the host trusts beyond Debian's own (a company's or a proxy's), the package index pip is
told to use, and apt's mirror and proxy. Left behind: anything that names a path of this host, and any URL with
credentials in it, since whatever is in an image can be read by the policy that acts in it.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym.sandbox.protocol import ImageError

logger = logging.getLogger(__name__)

_BUNDLE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
_SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_PIP_S = 300.0
_PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "timeout", "default-timeout", "retries", "proxy")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
IMAGE_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


@cache
def host_certificates() -> tuple[str, ...]:
    """Every certificate (PEM) that this host's tools trust, in a stable order, without duplicates."""
    found: dict[str, None] = {}
    for name in (*(os.environ.get(variable, "") for variable in _BUNDLE_VARIABLES), *_SYSTEM_BUNDLES):
        if name and Path(name).is_file():
            found.update(dict.fromkeys(_PEM.findall(Path(name).read_text(errors="replace"))))
    return tuple(found)


def extra_certificates(known_bundle: Path) -> list[str]:
    """The host's certificates that `known_bundle` lacks."""
    known = set(_PEM.findall(known_bundle.read_text(errors="replace"))) if known_bundle.is_file() else set()
    return [certificate for certificate in host_certificates() if certificate not in known]


@cache
def pip_settings() -> dict[str, str]:
    """pip's settings on this host that make sense in an image: key of `[global]` -> value."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PIP_S).stdout
    except subprocess.TimeoutExpired as error:
        raise ImageError(
            f"pip did not tell its settings within {_PIP_S} s", hint="is this machine overloaded?"
        ) from error
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        name, separator, value = line.partition("=")
        scope, _, key = name.strip().lstrip(":").rpartition(".")
        if not separator or scope not in ("global", "env:", "install") or key not in _PIP_KEYS:
            continue
        words = [word for word in str(ast.literal_eval(value)).split() if not word.startswith(("file:", "/"))]
        public = [word for word in words if "@" not in word]
        if len(public) < len(words):
            logger.warning("pip's %s holds credentials and is left out of the base image", key)
        if public:
            settings["timeout" if key == "default-timeout" else key] = " ".join(public)
    return settings


def pip_conf(bundle: str | None = IMAGE_BUNDLE) -> str:
    """The text of `/etc/pip.conf` for an image."""
    lines = ["[global]", *([f"cert = {bundle}"] if bundle else []), "disable-pip-version-check = true"]
    lines += ["root-user-action = ignore", *(f"{key} = {value}" for key, value in sorted(pip_settings().items()))]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class AptSource:
    """One line of apt's sources: where it is, and which suite."""

    uri: str
    suite: str


def apt_sources(root: Path = Path("/etc/apt")) -> list[AptSource]:
    """The host's binary package sources that have a `main` component, from both file formats."""
    found: list[AptSource] = []
    for path in [root / "sources.list", *sorted(root.glob("sources.list.d/*"))]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                rows = re.findall(r"^([A-Za-z-]+):\s*(.*)$", stanza, re.MULTILINE)
                fields = {key.lower(): value.split() for key, value in rows}
                if "deb" in fields.get("types", []) and "main" in fields.get("components", []):
                    found += [
                        AptSource(uri, suite) for uri in fields.get("uris", []) for suite in fields.get("suites", [])
                    ]
        else:
            for line in text.splitlines():
                words = re.sub(r"\[[^]]*\]", "", line).split()
                if len(words) >= 4 and words[0] == "deb" and "main" in words[3:]:
                    found.append(AptSource(words[1], words[2]))
    return found


def apt_proxy() -> str:
    """apt's proxy settings as configuration text; empty where there are none."""
    try:
        dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False, timeout=30).stdout
    except FileNotFoundError:
        return ""
    lines = [line for line in dumped.splitlines() if re.match(r"Acquire::(http|https)::Proxy\b", line)]
    return "".join(f"{line}\n" for line in lines if "@" not in line)
