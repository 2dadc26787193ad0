"""The pod of a sandbox.

For code nobody has read: not root, no capability and no way to gain one, the runtime's default seccomp profile, no service
account token, nothing of the node or of other pods shared, no host path, no cluster DNS, memory and CPU requested as they are
limited, a deadline that the cluster itself keeps. Off the network by the namespace's policy, which selects the label below;
`probe.py` proves that it holds.

PID 1 is the same script as in the other engines: it reaps orphans and cannot be signalled from inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.verdict import CONTAINER
from agentgym.sandbox.pid1 import pid1
from agentgym.sandbox.protocol import Image, Limits

KIND = "agentgym/kind"
INSTANCE = "agentgym/instance"
NETWORK = "agentgym/network"
"""`none`: the shipped NetworkPolicy lets nothing in or out. `open`: the task asked for network, and gets the internet without the
cluster. `probe`: no policy selects it; only our own probe runs so."""

_GRACE_S = 1  # for the kubelet's TERM, which PID 1 ignores


def pod(
    name: str,
    image: Image,
    limits: Limits,
    config: KubernetesConfig,
    *,
    instance: str,
    lease: Mapping[str, str],
    owner: Mapping[str, str] | None,
    kind: str = "sandbox",
) -> dict[str, Any]:
    """The manifest. lease: who owns it and until when (`labels.lease`). owner: reference to the owner's Lease."""
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {
            **config.labels,
            "app.kubernetes.io/managed-by": "agentgym",
            KIND: kind,
            INSTANCE: instance,
            NETWORK: "none" if not limits.network else "probe" if kind == "probe" else "open",
        },
        # Annotations: a label's value cannot hold all of these.
        "annotations": {**lease, "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    }
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        # PID 1 keeps the lifetime; this one counts from when a node takes the pod, so fetching its image is on top.
        "activeDeadlineSeconds": int(limits.lifetime_s + config.start_timeout_s),
        "terminationGracePeriodSeconds": _GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "shareProcessNamespace": False,
        "hostname": "sandbox",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": config.run_as_user,
            "runAsGroup": config.run_as_user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(image, limits, config)],
    }
    if not limits.network:
        spec |= {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}
    optional = {
        "runtimeClassName": config.runtime_class,
        "priorityClassName": config.priority_class,
        "nodeSelector": config.node_selector,
        "tolerations": config.tolerations,
        "imagePullSecrets": [{"name": secret} for secret in config.image_pull_secrets],
    }
    spec |= {key: value for key, value in optional.items() if value}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(image: Image, limits: Limits, config: KubernetesConfig) -> dict[str, Any]:
    ceiling = {
        "cpu": f"{int(limits.cpus * 1000)}m",
        "memory": f"{limits.memory_mb}Mi",
        "ephemeral-storage": f"{limits.disk_mb}Mi",
    }
    return {
        "name": CONTAINER,
        "image": image.ref,
        "imagePullPolicy": config.image_pull_policy,
        "command": pid1(limits.lifetime_s),
        "workingDir": "/",
        "stdin": True,
        "env": [{"name": name, "value": value} for name, value in image.spec.env.items()],
        "resources": {
            "limits": ceiling,
            "requests": {**ceiling, "cpu": f"{max(1, int(limits.cpus * 1000 * config.cpu_request_share))}m"},
        },
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
