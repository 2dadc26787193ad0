"""The real 135M model, loaded once for the room, and a real vLLM server where there is one to start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from agentgym.models import pull, untie
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig


@pytest.fixture(scope="session")
def model_dir() -> Path:
    return pull()


@pytest.fixture(scope="session")
def reference(model_dir: Path) -> PreTrainedModel:
    """The same weights behind transformers' own attention: what our engine must agree with."""
    return AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()


@pytest.fixture
async def policy(model_dir: Path) -> AsyncIterator[TorchPolicy]:
    policy = TorchPolicy(TorchPolicyConfig(model=str(model_dir)))
    yield policy
    await policy.close()


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """A Python of its own that has vLLM, since vLLM pins another torch than ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = os.environ.get("AGENTGYM_VLLM_PYTHON") or str(cache / "agentgym" / "vllm-venv" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip(f"no vLLM: {python} does not exist (name a Python that has it with AGENTGYM_VLLM_PYTHON)")
    return python


@pytest.fixture(scope="session")
def untied_dir(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untie(model_dir, tmp_path_factory.mktemp("untied") / "model")


@contextmanager
def serving(python: str, model: Path, log: Path, *options: str) -> Iterator[str]:
    """A vLLM server of our own on a free port; its URL once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", "1024", "--enforce-eager"]
    command += ["--enable-scale-out", *options]
    settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **settings}, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 400
            while not _answers(url):
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"the vLLM server did not start:\n{log.read_text()[-3000:]}")
                time.sleep(1)
            yield url
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def vllm_url(vllm_python: str, untied_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    with serving(vllm_python, untied_dir, log, "--logprobs-mode", "processed_logprobs") as url:
        yield url
