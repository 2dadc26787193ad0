"""The learner's weights to whatever serves the policy. A publish counts once the policy's own logprobs agree with the
learner's; until then, and when it fails, the old version is served.

    Embedded    the tensors, to the policy in this process
    Server      an untied checkpoint in a directory the server reads, then its pause → reload → resume; or, between GPUs, the
                tensors in place of the reload (`trainer.nccl`)
    Adapter     LoRA adapters, a few MB in peft's format, as one more adapter on a server that has the model itself

Of published checkpoints the last two stay: the one served, and the one before, which a failed publish goes back to. Adapters
stay as long as a request is under way that began with them.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from agentgym.store.records import Float32Array, Int32Array
from harness.policies.probe import Scorer
from harness.policies.torch_policy import TorchPolicy
from harness.policies.vllm_policy import VllmPolicy
from harness.policies.vllm_server import AdapterRoom
from trainer.adapters import save_adapters
from trainer.errors import TrainConfigError
from trainer.models import save_untied
from trainer.nccl import NcclSender, vllm_transfer
from trainer.online.config import OnlineConfig
from trainer.run import TrainingRun

_log = logging.getLogger(__name__)

KEEP = 2


class Publisher(Protocol):
    async def publish(self, run: TrainingRun) -> float:
        """Serve the learner's weights as its version; the largest logprob gap found, in nats.

        The learner must not change meanwhile. Raises PublishError, and PolicyError where the policy is not there.
        """
        ...


class EmbeddedPublisher:
    """To a policy in this process."""

    def __init__(self, policy: TorchPolicy) -> None:
        self.policy = policy

    async def publish(self, run: TrainingRun) -> float:
        weights = await asyncio.to_thread(run.weights)
        return await self.policy.load_state(weights, run.learner.version, score=scorer_of(run))


class ServerPublisher:
    """To a vLLM server that reads the same disk. send: moves the weights, which the server then reads from there only when a
    publish failed, or when it was restarted."""

    def __init__(
        self, policy: VllmPolicy, directory: Path, send: Callable[[Mapping[str, Tensor]], None] | None = None
    ) -> None:
        self.policy = policy
        self.directory = directory.resolve()
        self.send = send

    async def publish(self, run: TrainingRun) -> float:
        version = run.learner.version
        place = self.directory / f"version-{version:06d}"
        weights = await asyncio.to_thread(run.weights)
        await asyncio.to_thread(save_untied, run.learner.policy, weights, place, run.source)
        send = partial(self.send, weights) if self.send else None
        gap = await self.policy.load_weights(place, version, score=scorer_of(run), send=send)
        for old in sorted(self.directory.glob("version-*"))[:-KEEP]:
            shutil.rmtree(old, ignore_errors=True)
        return gap


class AdapterPublisher:
    """To a vLLM server that reads the same disk and serves the model that the run's adapters were added to."""

    def __init__(self, policy: VllmPolicy, directory: Path) -> None:
        self.policy = policy
        self.directory = directory.resolve()

    async def publish(self, run: TrainingRun) -> float:
        version, lora = run.learner.version, run.learner.lora
        assert lora is not None, "the config asks for LoRA"
        place = self.directory / f"adapter-{version:06d}"
        state = await asyncio.to_thread(run.adapters)
        await asyncio.to_thread(save_adapters, lora, state, place, run.config.model.resolve())
        gap = await self.policy.load_adapter(place, version, score=scorer_of(run))
        for old in set(self.directory.glob("adapter-*")) - self.policy.adapters:
            shutil.rmtree(old, ignore_errors=True)
        return gap


def publisher_for(policy: TorchPolicy | VllmPolicy, config: OnlineConfig) -> Publisher:
    """As `config.publish` says. TrainConfigError where the server cannot take what it asks for (blocking: it is asked)."""
    if not isinstance(policy, VllmPolicy):
        return EmbeddedPublisher(policy)
    directory = config.output / "published"
    if config.publish == "nccl":
        return ServerPublisher(policy, directory, _nccl_sender(policy, config).send)
    if config.publish == "weights" or config.policy_trains != "lora":
        return ServerPublisher(policy, directory)
    refusal = _no_room(policy.server.adapter_room(), config.lora_rank)
    if not refusal:
        return AdapterPublisher(policy, directory)
    if config.publish == "adapter":
        raise TrainConfigError(
            f"publish = 'adapter', but the server at {policy.server.url} {refusal}",
            hint="start it with VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and --enable-lora "
            f'--max-loras 2 --max-lora-rank {config.lora_rank} or more, or set publish = "weights"',
        )
    _log.info("all weights are published, not adapters: the server at %s %s", policy.server.url, refusal)
    return ServerPublisher(policy, directory)


def _nccl_sender(policy: VllmPolicy, config: OnlineConfig) -> NcclSender:
    backend, workers = policy.server.transfer()
    if backend != "nccl":
        raise TrainConfigError(
            f"publish = 'nccl', but the server at {policy.server.url} takes no weights over NCCL",
            hint='start it with --weight-transfer-config \'{"backend": "nccl"}\'',
        )
    if not torch.cuda.is_available():
        raise TrainConfigError("publish = 'nccl', but torch sees no GPU here", hint='set publish = "weights"')
    vllm_transfer()
    host, _, port = config.nccl_address.rpartition(":")
    return NcclSender(policy.server.url, (host, int(port)), workers, torch.device("cuda", torch.cuda.current_device()))


def _no_room(room: AdapterRoom | None, rank: int) -> str:
    """Why versions of an adapter cannot be served next to each other; empty where they can."""
    if room is None:
        return "takes no adapters while it runs"
    if room.adapters < 2:
        return "serves one adapter at a time, so a new version would wait until nobody uses the one before"
    return f"takes adapters up to rank {room.rank}, not {rank}" if room.rank < rank else ""


def scorer_of(run: TrainingRun) -> Scorer:
    """What the learner's own weights say about a probe."""

    def score(prompt: Int32Array, tokens: Int32Array) -> Float32Array:
        ids = torch.from_numpy(np.concatenate([prompt, tokens]).astype(np.int64))
        return run.score(ids, len(prompt)).numpy()

    return score
