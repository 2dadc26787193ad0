"""Which sandboxes there are on this machine, read from their labels alone, as the reaper judges them.

Pods of a cluster are not counted here: the cluster knows them (`kubectl get pods -l agentgym.kind`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym.sandbox.labels import KIND, PREFIX, abandoned
from agentgym.sandbox.paths import state_dir

if TYPE_CHECKING:
    import docker


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """owner: what the process that made it calls itself. abandoned: why a reaper would remove it, None where its owner may
    still need it. created_at, expires_at: unix seconds."""

    backend: Literal["docker", "local"]
    id: str
    kind: str
    owner: str
    host: str
    pid: int | None
    created_at: float | None
    expires_at: float | None
    abandoned: str | None


def docker_sandboxes(client: docker.APIClient) -> list[SandboxInfo]:
    """Running or not, oldest first."""
    found = client.containers(all=True, filters={"label": [KIND]})
    infos = [_info("docker", one["Id"][:12], one.get("Labels") or {}) for one in found]
    return sorted((one for one in infos if one.kind in ("sandbox", "build")), key=_age)


def local_sandboxes(root: Path | None = None) -> list[SandboxInfo]:
    """Those with a lease in the state directory, oldest first."""
    return sorted((_info("local", name, labels) for name, labels in _leases(root or state_dir() / "local")), key=_age)


def _leases(root: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    for path in root.glob("agentgym-*/lease.json"):
        try:
            yield path.parent.name, json.loads(path.read_text())["labels"]
        except (OSError, ValueError, KeyError):
            continue  # going at this moment


def _info(backend: Literal["docker", "local"], id_: str, labels: Mapping[str, str]) -> SandboxInfo:
    def number(name: str) -> Any:
        try:
            return float(labels[PREFIX + name])
        except (KeyError, ValueError):
            return None

    pid = number("pid")
    return SandboxInfo(
        backend=backend,
        id=id_,
        kind=labels.get(KIND, ""),
        owner=labels.get(PREFIX + "owner", ""),
        host=labels.get(PREFIX + "host", ""),
        pid=None if pid is None else int(pid),
        created_at=number("created"),
        expires_at=number("expires"),
        abandoned=abandoned(labels),
    )


def _age(info: SandboxInfo) -> float:
    return info.created_at or 0.0
