"""A tiny model with the real tokenizer, a real sandbox engine and a real task; verdicts alternate, so that there is a signal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from servers import Postgres, Vllm
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from agentgym.models import pull, untie
from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, SandboxBackend
from agentgym.store import Store
from agentgym.tasks import Task, load_task
from agentgym.verify import Grade
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig
from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig
from harness.profile import Limits, Profile, load_profile
from harness.render import load_renderer
from trainer.online.config import OnlineConfig
from trainer.online.loop import Parts
from trainer.online.publisher import publisher_for
from trainer.online.rollouts import Acting

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(pull())


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Two layers, random weights, tied head, the vocabulary of the default model."""
    path = tmp_path_factory.mktemp("tiny") / "model"
    torch.manual_seed(0)
    settings = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.1,
    )
    LlamaForCausalLM(settings).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backend() -> AsyncIterator[SandboxBackend]:
    try:
        backend = await open_backend("auto", owner="tests-online")
    except BackendUnavailable as error:
        pytest.skip(f"no sandbox engine here: {error}")
    yield backend
    await backend.close()


@pytest.fixture(scope="session")
def task() -> Task:
    return load_task(Path(__file__).resolve().parents[3] / "environments" / "tutorial-duration")


@pytest.fixture
def alternating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grading is not what these tests are about: verdicts come in turn, at no cost."""
    rewards = cycle([1.0, 0.0, 0.0])

    async def verdict(*_: object, **__: object) -> Grade:
        return Grade(next(rewards))

    monkeypatch.setattr("harness.workplace.grade", verdict)


@pytest.fixture
def profile() -> Profile:
    """Two short turns: a random policy says nothing that could be run."""
    short = Limits(max_turns=2, max_tokens_per_turn=6, max_context=2048)
    return load_profile("tiny").model_copy(update={"limits": short})


@pytest.fixture
def configured(tiny_dir: Path, tmp_path: Path) -> Callable[..., OnlineConfig]:
    def make(**values: object) -> OnlineConfig:
        settings = {
            "mode": "async",
            "model": tiny_dir,
            "store": f"sqlite:///{tmp_path / 'store.db'}",
            "output": tmp_path / "out",
            "steps": 2,
            "batch_trajectories": 3,
            "concurrency": 2,
            "value_warmup_steps": 1,
            "policy_learning_rate": 1e-3,
            "tensorboard": False,
        }
        return OnlineConfig.model_validate(settings | values)

    return make


@pytest_asyncio.fixture(loop_scope="session")
async def parts_for(task, backend, profile, tokenizer) -> AsyncIterator[Callable[[OnlineConfig], Parts]]:
    opened: list[TorchPolicy] = []

    def make(config: OnlineConfig) -> Parts:
        policy = TorchPolicy(TorchPolicyConfig(model=str(config.model), max_batch=4), name="policy")
        opened.append(policy)
        acting = Acting(policy, load_renderer(tokenizer), profile)
        return Parts([task], acting, backend, publisher_for(policy, config))

    yield make
    for policy in opened:
        await policy.close()


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store.db") as store:
        yield store


@pytest_asyncio.fixture(loop_scope="session")
async def policy(server: Vllm) -> AsyncIterator[VllmPolicy]:
    """To the `server` of the tests that ask for it."""
    policy = VllmPolicy(VllmPolicyConfig(url=server.url))
    yield policy
    await policy.close()


@pytest.fixture
def tiny_server(vllm_python: str, tiny_dir: Path, tmp_path: Path) -> Iterator[Vllm]:
    server = Vllm(vllm_python, untie(tiny_dir, tmp_path / "untied"), tmp_path / "vllm.log", context=2048)
    with server.running():
        yield server


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    server = Postgres("max_connections=40")
    yield server
    server.remove()
