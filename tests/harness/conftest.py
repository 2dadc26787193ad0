"""What the harness's tests share: the real model, a real sandbox engine, and a real vLLM server where there is one."""

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
import pytest_asyncio
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from agentgym.models import pull, untie
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, Image, SandboxBackend
from agentgym.tasks import Task, load_task
from agentgym.verify import Grade, Patch, grade
from harness.render import GuardedRenderer, load_renderer


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(pull())


@pytest.fixture(scope="session")
def renderer(tokenizer: PreTrainedTokenizerBase) -> GuardedRenderer:
    return load_renderer(tokenizer)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    root = Path(os.environ.get("AGENTGYM_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    if not (root / "data").is_dir():
        pytest.skip(f"the shared sample data is not at {root} (AGENTGYM_SHARED names it)")
    return root / "data"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backend() -> AsyncIterator[SandboxBackend]:
    try:
        backend = await open_backend("auto", owner="tests-harness")
    except BackendUnavailable as error:
        pytest.skip(f"no sandbox engine here: {error}")
    yield backend
    await backend.close()


@pytest.fixture(scope="session")
def task() -> Task:
    return load_task(Path(__file__).resolve().parents[2] / "environments" / "tutorial-duration")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def image(backend: SandboxBackend, task: Task) -> Image:
    return await backend.ensure_image(task.image)


@pytest.fixture(scope="session")
def grades() -> dict[tuple[str, bytes], Grade]:
    return {}


@pytest.fixture
def grade_each_patch_once(monkeypatch: pytest.MonkeyPatch, grades: dict[tuple[str, bytes], Grade]) -> None:
    """The grader is the real one; what it said about a patch is remembered, since most episodes leave the same."""

    async def remembered(task: Task, patch: Patch, backend: SandboxBackend, *, image: Image) -> Grade:
        key = (image.ref, patch.diff)
        if key not in grades:
            found = await grade(task, patch, backend, image=image)
            if found.reward is None:
                return found
            grades[key] = found
        return grades[key]

    monkeypatch.setattr("harness.workplace.grade", remembered)


@pytest.fixture(scope="session")
def model_dir() -> Path:
    return pull()


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
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", "4096", "--enforce-eager"]
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
