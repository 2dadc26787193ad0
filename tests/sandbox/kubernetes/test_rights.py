"""The shipped Role is enough for everything, and a sandbox has no rights at all."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.backend import KubernetesBackend
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import ApiError
from agentgym.sandbox.protocol import BackendUnavailable, Image, Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

TINY = Limits(cpus=0.5, memory_mb=128, pids=64, disk_mb=64)


async def account(api: Api, name: str, namespace: str) -> str:
    """A token of a service account, which is made if need be."""
    for path, body in [
        ("/api/v1/namespaces", {"metadata": {"name": namespace}}),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}),
    ]:
        try:
            await api.request("POST", path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    for _ in range(20):  # an account is usable a moment after it was made
        try:
            answer = await api.request("POST", path, {"spec": {"expirationSeconds": 3600}})
            return answer["status"]["token"]
        except ApiError as error:
            if error.status != 404:
                raise
            await asyncio.sleep(0.2)
    raise AssertionError(f"no token for {namespace}/{name}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(
    api: Api, config: KubernetesConfig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KubernetesConfig]:
    """The same cluster through the account that the manifests bind to the Role, by its token."""
    yield with_token(config, await account(api, "agentgym-runner", "agentgym"), tmp_path_factory.mktemp("k") / "runner")


def with_token(config: KubernetesConfig, token: str, path: Path) -> KubernetesConfig:
    assert config.kubeconfig is not None
    kubeconfig = yaml.safe_load(config.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(kubeconfig))
    return config.model_copy(update={"kubeconfig": path})


async def test_the_role_is_enough_for_a_whole_life(runner: KubernetesConfig, image: Image, tmp_path: Path):
    backend = await KubernetesBackend.open("tests", runner)
    try:
        await backend.reap()
        sandbox = await backend.start(image, TINY)
        await sandbox.write_file("/testbed/new", b"content")
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "f").write_text("f")
        await sandbox.upload(tmp_path / "tree", "/tmp/tree")
        copy = await backend.start(await sandbox.snapshot(), TINY)
        assert await copy.read_file("/testbed/new") == b"content"
        await copy.close()
        await sandbox.close()
    finally:
        await backend.close()


async def test_and_for_nothing_else(runner: KubernetesConfig, config: KubernetesConfig):
    api = await Api.connect(runner)
    try:
        for method, path in [
            ("GET", "/api/v1/nodes"),
            ("GET", "/api/v1/namespaces/kube-system/pods"),
            ("GET", f"/api/v1/namespaces/{config.namespace}/secrets"),
            ("DELETE", f"/apis/networking.k8s.io/v1/namespaces/{config.namespace}/networkpolicies/deny-all"),
            ("DELETE", f"/api/v1/namespaces/{config.namespace}/resourcequotas/sandboxes"),
        ]:
            with pytest.raises(ApiError) as error:
                await api.request(method, path)
            assert error.value.status == 403, path
    finally:
        await api.close()


async def test_an_account_without_the_role_is_told_what_to_do(api: Api, config: KubernetesConfig, tmp_path: Path):
    stranger = with_token(config, await account(api, "stranger", "default"), tmp_path / "stranger")
    with pytest.raises(BackendUnavailable, match="may not be listed") as error:
        await KubernetesBackend.open("tests", stranger)
    assert "Role" in (error.value.hint or "")


async def test_a_token_that_is_no_token_is_refused(config: KubernetesConfig, tmp_path: Path):
    wrong = with_token(config, base64.b64encode(b"nonsense").decode(), tmp_path / "wrong")
    with pytest.raises(BackendUnavailable, match="401"):
        await KubernetesBackend.open("tests", wrong)
