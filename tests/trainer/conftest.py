"""Real parts at toy size: a random Llama policy, trajectories it really sampled, a store, and the oracles."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from agentgym.store.records import (
    ContextEvent,
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Termination,
    Trajectory,
    VersionSpan,
)

VOCABULARY = 96
torch.set_num_threads(1)  # toy matrices: a second thread costs more than it computes


@pytest.fixture
def policy() -> PreTrainedModel:
    return tiny_policy()


def tiny_policy(seed: int = 0, layers: int = 2) -> PreTrainedModel:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config)


@pytest.fixture
def make_policy() -> Callable[..., PreTrainedModel]:
    return tiny_policy


@pytest.fixture
def policy_dir(tmp_path: Path, policy: PreTrainedModel) -> Path:
    path = tmp_path / "model"
    policy.save_pretrained(path)
    (path / "tokenizer_config.json").write_text("{}")
    return path


@torch.no_grad()
def sample_call(
    model: PreTrainedModel, prompt: list[int], length: int, generator: torch.Generator, temperature: float, version: int
) -> ModelCall:
    tokens, logprobs = list(prompt), []
    for _ in range(length):
        logits = model(input_ids=torch.tensor([tokens])).logits[0, -1] / temperature
        distribution = logits.log_softmax(-1)
        token = int(torch.multinomial(distribution.exp(), 1, generator=generator))
        tokens.append(token)
        logprobs.append(float(distribution[token]))
    return ModelCall(
        prompt_token_ids=np.array(prompt, np.int32),
        generation_token_ids=np.array(tokens[len(prompt) :], np.int32),
        logprobs=np.array(logprobs, np.float32),
        sampling=Sampling(temperature=temperature),
        policy_versions=(VersionSpan(version, 0, length),) if length else (),
        finish_reason=FinishReason.STOP,
    )


def sample_trajectory(
    model: PreTrainedModel,
    *,
    seed: int = 0,
    turns: int = 3,
    reward: float | None = 1.0,
    termination: Termination = Termination.SUBMITTED,
    temperature: float = 1.0,
    version: int = 0,
    compact_at: int | None = None,
    group: str = "",
    prompt: list[int] | None = None,
    **fields,
) -> Trajectory:
    """An episode the model really sampled: prompt, action, observation, action, …; `compact_at` starts a new
    sequence.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = np.random.default_rng(seed)
    context = prompt or draw.integers(1, VOCABULARY, int(draw.integers(4, 9))).tolist()
    calls: list[ModelCall] = []
    for turn in range(turns):
        event = ContextEvent.APPEND
        if turn == compact_at:
            context, event = draw.integers(1, VOCABULARY, 6).tolist(), ContextEvent.COMPACTED
        call = sample_call(model, context, int(draw.integers(2, 6)), generator, temperature, version)
        calls.append(ModelCall(**{name: getattr(call, name) for name in call.__slots__} | {"context_event": event}))
        context = context + call.generation_token_ids.tolist() + draw.integers(1, VOCABULARY, 3).tolist()
    values = {
        "task_id": "toy/one",
        "task_digest": "sha256:" + "1" * 64,
        "harness_digest": "sha256:" + "2" * 64,
        "backend": "local",
        "image_digest": "sha256:" + "3" * 64,
        "policy": "toy",
        "policy_kind": PolicyKind.MODEL,
        "steps": (),
        "group_id": group,
        "created_at": 1000.0 + seed,
        "id": f"{seed:032x}",
    }
    return Trajectory(calls=tuple(calls), termination=termination, reward=reward, **(values | fields))


@pytest.fixture
def sample() -> Callable[..., Trajectory]:
    return sample_trajectory


@contextmanager
def stand_ins(*names: str) -> Iterator[None]:
    """While oracles are imported: what their packages import too but no formula here uses. Gone afterwards, because torchrl and
    accelerate ask which of them are installed.
    """
    absent = {name: MagicMock(__name__=name) for name in names if name not in sys.modules}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


@pytest.fixture(scope="session")
def verl() -> ModuleType:
    """verl's core algorithms; its configs, which tests import, are loaded too."""
    if importlib.util.find_spec("verl") is None:
        pytest.skip("oracle verl is not installed (pip install --no-deps verl==0.9.1)")
    with stand_ins(
        "ray",
        "ray.util",
        "ray.util.placement_group",
        "ray.util.scheduling_strategies",
        "ray.experimental.state.api",
        "ray.actor",
    ):
        for name in ("verl.workers.config", "verl.trainer.config.algorithm"):
            import_module(name)
        return import_module("verl.trainer.ppo.core_algos")


@pytest.fixture(scope="session")
def trl() -> ModuleType:
    if importlib.util.find_spec("trl") is None:
        pytest.skip("oracle trl is not installed (pip install --no-deps trl==1.16.0 && pip install datasets)")
    return import_module("trl")


@pytest.fixture(scope="session")
def openrlhf() -> SimpleNamespace:
    """Modules of OpenRLHF by their files: its packages would import flash-attn and vLLM."""
    found = importlib.util.find_spec("openrlhf")
    if found is None or found.origin is None:
        pytest.skip("oracle openrlhf is not installed (pip install --no-deps openrlhf==0.11.2)")
    for name in ("models", "utils", "trainer", "trainer.ppo_utils"):
        package = sys.modules.setdefault(f"openrlhf.{name}", ModuleType(f"openrlhf.{name}"))
        package.__path__ = [str(Path(found.origin).parent.joinpath(*name.split(".")))]
    wanted = ("models.loss", "models.utils", "trainer.ppo_utils.experience_maker", "trainer.ppo_utils.length_penalty")
    with stand_ins("deepspeed", "ray", "openrlhf.trainer.ray.launcher"):
        return SimpleNamespace(**{name.split(".")[-1]: import_module(f"openrlhf.{name}") for name in wanted})


@pytest.fixture
def random_chain() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """(response mask [B, L], lengths [B]): random actions and observations, every row with at least one action."""

    def make(seed: int, rows: int = 5, width: int = 40, density: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        mask = torch.rand(rows, width, generator=generator) < density
        mask[torch.arange(rows), torch.randint(width, (rows,), generator=generator)] = True
        return mask, mask.sum(1)

    return make
