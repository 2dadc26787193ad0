"""The embedded policy: a transformers model in this process, exact logprobs, no server to start.

fp32 by default, because a trajectory must be reproducible from its token ids: logprobs recomputed by a plain full
forward pass agree to about 1e-5. Where the machine has an accelerator and throughput matters, use a vLLM server
instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from transformers import AutoConfig, PreTrainedModel

from agentgym.config import Config
from agentgym.models import DEFAULT_MODEL, ModelNotFound, explaining, load_causal_lm, resolve
from agentgym.store.records import Int32Array, PolicyKind, Sampling
from harness.policies.protocol import Generation, PolicyError
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
        self._engine = TorchEngine(
            model,
            version=version,
            max_batch=self.config.max_batch,
            prefill_chunk=self.config.prefill_chunk,
            kv_cache_bytes=self.config.kv_cache_mb << 20,
        )

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

    async def load_weights(self, path: Path, version: int) -> None:
        """Serve another checkpoint of the same model as `version`; requests in flight go on with it."""
        model = await asyncio.to_thread(self._load, path)
        await asyncio.wrap_future(self._engine.swap(model, version))
        self.path = path

    async def end_episode(self, episode_id: str) -> None:
        await asyncio.wrap_future(self._engine.forget(episode_id))

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def _load(self, path: Path) -> PreTrainedModel:
        with explaining(path):
            architecture = AutoConfig.from_pretrained(path, local_files_only=True)
        if reason := unsupported_reason(architecture):
            raise ModelNotFound(f"{path}: {reason}", hint="serve this model with vLLM and pass the server's URL")
        dtype = getattr(torch, self.config.dtype)
        model = load_causal_lm(path, dtype=dtype, attn_implementation=RAGGED)
        return model.to(torch.device(self.config.device)).eval()  # type: ignore[arg-type]
