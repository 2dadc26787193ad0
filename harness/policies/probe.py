"""Does a policy serve the weights it was given? Sample a little from it and score the sample with the weights themselves.

One fixed prompt, 32 tokens at temperature 1: a token's logprob moves by more than rounding for any part of the model that
stayed behind, and a weight update costs one short generation and one forward pass.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.models import load_causal_lm
from agentgym.store.records import Float32Array, Int32Array, Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Scorer = Callable[[Int32Array, Int32Array], Float32Array]
"""(prompt int32[P], tokens int32[G]) → float32[G] nats at temperature 1, under the weights that should be served. Blocking."""

ADAPTER = "adapter_config.json"

Ask = Callable[[Int32Array], Awaitable[tuple[Int32Array, Float32Array]]]
"""prompt → what the policy samples after it at temperature 1, and the logprobs it reports."""

PROBE = np.arange(3, 19, dtype=np.int32)


async def probe_gap(ask: Ask, score: Scorer) -> float:
    """Largest difference in nats between what the policy reports and what `score` says."""
    tokens, reported = await ask(PROBE)
    expected = await asyncio.to_thread(score, PROBE, tokens)
    return float(np.abs(expected - reported).max(initial=0.0))


def checkpoint_scorer(path: Path) -> Scorer:
    """Scores with a checkpoint, loaded when it is first asked. That of an adapter (peft's files) is the model its config names,
    with the adapter added in."""

    def score(prompt: Int32Array, tokens: Int32Array) -> Float32Array:
        import torch

        from harness.policies.sampling import recompute

        model = _with_adapter(path) if (path / ADAPTER).is_file() else load_causal_lm(path, dtype=torch.float32)
        ids = torch.from_numpy(np.concatenate([prompt, tokens]).astype(np.int64))
        with torch.inference_mode():
            logits = model.eval()(input_ids=ids[None]).logits[0, len(prompt) - 1 : -1]
        return recompute(logits, ids[len(prompt) :], Sampling()).numpy()

    return score


def _with_adapter(path: Path) -> PreTrainedModel:
    """W + (α/r) B A (Hu et al. 2021), by hand: peft is not needed to play a policy."""
    import torch
    from safetensors.torch import load_file

    config = json.loads((path / ADAPTER).read_text())
    model: Any = load_causal_lm(Path(config["base_model_name_or_path"]), dtype=torch.float32)
    state = load_file(path / "adapter_model.safetensors")
    with torch.no_grad():
        for name, a in state.items():
            if name.endswith(".lora_A.weight"):
                b = state[name.replace(".lora_A.", ".lora_B.")]
                own = name.removeprefix("base_model.model.").replace(".lora_A.", ".")
                model.get_parameter(own).add_(b @ a, alpha=config["lora_alpha"] / config["r"])
    return model
