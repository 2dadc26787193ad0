"""Which cluster, and what its sandboxes are allowed to be: a TOML file, read when the backend opens.

`AGENTGYM_KUBERNETES` names the file; without it `$XDG_CONFIG_HOME/agentgym/kubernetes.toml` is read where it exists, and the
defaults hold where it does not. In a cluster the file is a mounted ConfigMap.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentgym.config import Config, load_config

VARIABLE = "AGENTGYM_KUBERNETES"


class KubernetesConfig(Config):
    """Where pods are made and from what template."""

    kubeconfig: Path | None = Field(
        None, description="Default: in a cluster its own account, else KUBECONFIG or ~/.kube/config."
    )
    context: str | None = Field(None, description="Context of the kubeconfig; default: its current one.")
    namespace: str = Field("agentgym-sandboxes", description="Where sandboxes live; k8s/sandboxes makes it.")

    registry: str | None = Field(
        None, description="Where `agentgym images push` has put the images; none: the node has them already."
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field("IfNotPresent", description="Of task images.")
    image_pull_secrets: list[str] = Field([], description="Names of secrets in the namespace.")

    runtime_class: str | None = Field(None, description="RuntimeClass of every pod, for example gvisor or kata.")
    node_selector: dict[str, str] = Field({}, description="Labels a node must have.")
    tolerations: list[dict[str, Any]] = Field([], description="Taints that sandboxes may run beside, as in a pod.")
    priority_class: str | None = Field(None, description="PriorityClass; one below everything else is shipped.")
    labels: dict[str, str] = Field({}, description="More labels for every pod.")
    run_as_user: int = Field(1000, ge=1, description="User and group of every command; images built here have 1000.")
    cpu_request_share: float = Field(
        1.0, gt=0, le=1, description="CPU a pod reserves, as a share of its limit. 1: nobody gets less than the limit."
    )

    start_timeout_s: float = Field(
        300.0, gt=0, description="From creation to running: scheduling, scale-up, image pull."
    )
    quota_timeout_s: float = Field(600.0, gt=0, description="How long to wait for room in a full ResourceQuota.")
    api_timeout_s: float = Field(60.0, gt=0, description="How long an API server may be away before a call fails.")
    starts_in_flight: int = Field(16, ge=1, description="Pods created and not yet running, at most.")

    lease_s: int = Field(180, ge=30, description="An owner not heard of for so long is dead to reapers elsewhere.")
    allow_network_leak: bool = Field(
        False, description="Run untrusted code although the probe shows that sandboxes reach the network."
    )

    @classmethod
    def load(cls) -> KubernetesConfig:
        """Raises ConfigError that names the file and the key."""
        file = config_file()
        return load_config(cls, [file] if file else [])


def config_file() -> Path | None:
    """The file in use; None where there is none, and so nobody has said that this machine's sandboxes are pods."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    path = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "agentgym" / "kubernetes.toml"
    return path if path.exists() else None
