"""The embedded policy: a transformers model in this process, exact logprobs, no server to start.

fp32 by default, because a trajectory must be reproducible from its token ids: logprobs recomputed by a plain full
forward pass agree to about 1e-5. Where the machine has an accelerator and throughput matters, use a vLLM server
instead.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from transformers import AutoConfig, PreTrainedModel

from agentgym.config import Config
from agentgym.models import DEFAULT_MODEL, ModelNotFound, explaining, load_causal_lm, resolve
from agentgym.store.records import Float32Array, Int32Array, PolicyKind, Sampling
from harness.policies.probe import Scorer, checkpoint_scorer, probe_gap
from harness.policies.protocol import Generation, PolicyError, PublishError
from harness.policies.ragged import RAGGED, unsupported_reason
from harness.policies.torch_engine import TorchEngine


class TorchPolicyConfig(Config):
    """How the in-process model runs."""

    model: str = Field(default=DEFAULT_MODEL, description="shipped name, transformers directory or hub id")
    device: str = Field(default="cpu", description="torch device")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="dtype of weights and KV cache"
    )
    context_length: int | None = Field(
        default=None, ge=1, description="tokens per sequence; the model's own limit if unset"
    )
    max_batch: int = Field(default=16, ge=1, description="episodes decoded in one forward pass; more wait their turn")
    prefill_chunk: int = Field(default=512, ge=1, description="prompt tokens per forward pass")
    kv_cache_mb: int = Field(
        default=4096, ge=0, description="memory for keys and values kept between an episode's turns"
    )
    publish_tolerance: float = Field(
        default=1e-3, gt=0, description="largest logprob gap after a weight update, nats; bfloat16 needs 0.05"
    )


class TorchPolicy:
    """Samples from a transformers causal language model in a worker thread; see `Policy`."""

    kind = PolicyKind.MODEL

    def __init__(self, config: TorchPolicyConfig | None = None, *, version: int = 0, name: str = "torch") -> None:
        """Loads the weights (blocking). Raises ModelNotFound for a model it cannot run."""
        self.config = config or TorchPolicyConfig()
        self.name = name
        self.model = self.config.model
        path = resolve(self.config.model)
        if isinstance(path, str):
            raise ModelNotFound(f"{path} is a server", hint="use the vllm policy for servers")
        self.path = path
        model = self._load(path)
        self.context_length = self.config.context_length or model.config.max_position_embeddings
        self._engine = self._new_engine(model, version)

    @property
    def version(self) -> int:
        return self._engine.version

    async def generate(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
    ) -> Generation:
        """Sample up to `max_tokens`, fewer where the context ends first. Raises PolicyError where nothing fits."""
        room = self.context_length - len(prompt_token_ids)
        if len(prompt_token_ids) == 0 or max_tokens < 1 or room < 1:
            raise PolicyError(
                f"cannot sample {max_tokens} tokens after a prompt of {len(prompt_token_ids)} "
                f"with a context of {self.context_length}",
                hint="the harness must end the episode before its context is full",
            )
        future = self._engine.submit(
            prompt_token_ids,
            sampling=sampling,
            max_tokens=min(max_tokens, room),
            stop_token_ids=frozenset(stop_token_ids),
            episode_id=episode_id,
        )
        return await asyncio.wrap_future(future)

    async def load_weights(self, path: Path, version: int, *, score: Scorer | None = None) -> float:
        """Serve another checkpoint of the same model as `version`; see `load_state`."""
        model = await asyncio.to_thread(self._load, path)
        gap = await self._take_over(model, version, score or checkpoint_scorer(path))
        self.path = path
        return gap

    async def load_state(self, state: Mapping[str, torch.Tensor], version: int, *, score: Scorer) -> float:
        """Serve these tensors (copied before this returns) as `version`; requests in flight go on with them.

        score: the logprobs they give a probe. Returns the largest difference found. Raises PublishError, with nothing
        changed, where it is too large or the tensors are of another model.
        """
        model = await asyncio.to_thread(_with_state, self._engine.model, state)
        return await self._take_over(model, version, score)

    async def _take_over(self, model: PreTrainedModel, version: int, score: Scorer) -> float:
        """Probe the new model in an engine of its own, then serve it."""
        trial = self._new_engine(model, version)

        async def ask(prompt: Int32Array) -> tuple[Int32Array, Float32Array]:
            found = await asyncio.wrap_future(
                trial.submit(
                    prompt, sampling=Sampling(seed=0), max_tokens=32, stop_token_ids=frozenset(), episode_id="probe"
                )
            )
            return found.token_ids, found.logprobs

        try:
            gap = await probe_gap(ask, score)
        finally:
            await asyncio.to_thread(trial.close)
        if gap > self.config.publish_tolerance:
            raise PublishError(f"version {version}: the engine's logprobs are off by {gap:.2g} with its weights")
        await asyncio.wrap_future(self._engine.swap(model, version))
        return gap

    async def end_episode(self, episode_id: str) -> None:
        await asyncio.wrap_future(self._engine.forget(episode_id))

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def _new_engine(self, model: PreTrainedModel, version: int) -> TorchEngine:
        return TorchEngine(
            model,
            version=version,
            max_batch=self.config.max_batch,
            prefill_chunk=self.config.prefill_chunk,
            kv_cache_bytes=self.config.kv_cache_mb << 20,
        )

    def _load(self, path: Path) -> PreTrainedModel:
        with explaining(path):
            architecture = AutoConfig.from_pretrained(path, local_files_only=True)
        if reason := unsupported_reason(architecture):
            raise ModelNotFound(f"{path}: {reason}", hint="serve this model with vLLM and pass the server's URL")
        dtype = getattr(torch, self.config.dtype)
        model = load_causal_lm(path, dtype=dtype, attn_implementation=RAGGED)
        return model.to(torch.device(self.config.device)).eval()  # type: ignore[arg-type]


def _with_state(model: PreTrainedModel, state: Mapping[str, torch.Tensor]) -> PreTrainedModel:
    """A copy of `model` with these tensors; raises PublishError where they do not fit."""
    new = copy.deepcopy(model)
    try:
        new.load_state_dict(state)
    except RuntimeError as error:
        raise PublishError(f"these weights are not of the model being served: {error}") from error
    return new
