"""What the harness's tests share: the real model, a real sandbox engine, and a real vLLM server where there is one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from servers import Vllm
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
def untied_dir(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untie(model_dir, tmp_path_factory.mktemp("untied") / "model")


@pytest.fixture(scope="session")
def vllm_url(vllm_python: str, untied_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Vllm(vllm_python, untied_dir, tmp_path_factory.mktemp("vllm") / "server.log", context=4096)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()
