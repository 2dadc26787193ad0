"""The pod of a sandbox: what it is allowed, that current clusters know every field of it, and what a user may add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from agentgym.config import ConfigError, load_config
from agentgym.sandbox import labels
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.template import pod
from agentgym.sandbox.protocol import Image, ImageSpec, Limits

IMAGE = Image(ImageSpec("task", "sha256:1", env={"A": "b"}), "agentgym/env:1", "sha256:2", "kubernetes")
FULL = KubernetesConfig(
    image_pull_secrets=["registry"],
    runtime_class="gvisor",
    node_selector={"pool": "sandboxes"},
    tolerations=[{"key": "sandboxes", "operator": "Exists", "effect": "NoSchedule"}],
    priority_class="agentgym-sandbox",
    labels={"team": "rl"},
)


def made(config: KubernetesConfig = FULL, limits: Limits = Limits(), **more: Any) -> dict[str, Any]:
    lease = labels.lease("sandbox", labels.Owner.current("tests"), 60)
    reference = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "o", "uid": "u"}
    return pod("p", IMAGE, limits, config, instance="i", lease=lease, owner=reference, **more)


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("config", [KubernetesConfig(), FULL], ids=["plain", "full"])
def test_every_field_is_known_to_clusters_old_and_new(version: str, config: KubernetesConfig):
    kubernetes_validate.validate(made(config), version, strict=True)


def test_it_satisfies_the_restricted_standard():
    spec = made()["spec"]
    container = spec["containers"][0]["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert not any(spec[key] for key in ("hostNetwork", "hostPID", "hostIPC", "automountServiceAccountToken"))
    assert "volumes" not in spec


def test_requests_are_the_limits():
    resources = made(limits=Limits(cpus=2, memory_mb=512, disk_mb=100))["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "2000m", "memory": "512Mi", "ephemeral-storage": "100Mi"}
    assert resources["requests"] == resources["limits"]


def test_cpu_alone_can_be_overcommitted():
    resources = made(KubernetesConfig(cpu_request_share=0.25))["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {**resources["limits"], "cpu": "250m"}


@pytest.mark.parametrize(
    ("network", "kind", "label"),
    [
        (False, "sandbox", "none"),
        (True, "sandbox", "open"),
        (False, "probe", "none"),
        (True, "probe", "probe"),
    ],
)
def test_the_policy_can_tell_them_apart(network: bool, kind: str, label: str):
    assert made(limits=Limits(network=network), kind=kind)["metadata"]["labels"]["agentgym/network"] == label


def test_the_cluster_ends_it_without_us():
    manifest = made(KubernetesConfig(start_timeout_s=60), Limits(lifetime_s=90.5))
    assert manifest["spec"]["activeDeadlineSeconds"] == 150
    assert manifest["spec"]["restartPolicy"] == "Never"
    assert manifest["metadata"]["ownerReferences"][0]["kind"] == "Lease"
    assert labels.abandoned(manifest["metadata"]["annotations"]) is None


def test_what_a_user_sets_is_passed_on():
    spec = made()["spec"]
    assert (spec["runtimeClassName"], spec["priorityClassName"]) == ("gvisor", "agentgym-sandbox")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"pool": "sandboxes"}
    assert made()["metadata"]["labels"]["team"] == "rl"


def test_a_wrong_key_is_named(tmp_path: Path):
    (tmp_path / "k.toml").write_text('namspace = "x"\n')
    with pytest.raises(ConfigError, match='did you mean "namespace"'):
        load_config(KubernetesConfig, [tmp_path / "k.toml"])
