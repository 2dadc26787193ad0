"""The learner's weights to whatever serves the policy. A publish counts once the policy's own logprobs agree with the
learner's; until then, and when it fails, the old version is served.

    Embedded    the tensors, to the policy in this process
    Server      an untied checkpoint in a directory the server reads, then its pause → reload → resume

Of published directories the last two stay: the one served, and the one before, which a failed publish goes back to.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from agentgym.store.records import Float32Array, Int32Array
from harness.policies.probe import Scorer
from harness.policies.torch_policy import TorchPolicy
from harness.policies.vllm_policy import VllmPolicy
from trainer.models import save_untied
from trainer.run import TrainingRun

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
    """To a vLLM server that reads the same disk."""

    def __init__(self, policy: VllmPolicy, directory: Path) -> None:
        self.policy = policy
        self.directory = directory.resolve()

    async def publish(self, run: TrainingRun) -> float:
        version = run.learner.version
        place = self.directory / f"version-{version:06d}"
        weights = await asyncio.to_thread(run.weights)
        await asyncio.to_thread(save_untied, run.learner.policy, weights, place, run.source)
        gap = await self.policy.load_weights(place, version, score=scorer_of(run))
        for old in sorted(self.directory.glob("version-*"))[:-KEEP]:
            shutil.rmtree(old, ignore_errors=True)
        return gap


def publisher_for(policy: TorchPolicy | VllmPolicy, output: Path) -> Publisher:
    if isinstance(policy, VllmPolicy):
        return ServerPublisher(policy, output / "published")
    return EmbeddedPublisher(policy)


def scorer_of(run: TrainingRun) -> Scorer:
    """What the learner's own weights say about a probe."""

    def score(prompt: Int32Array, tokens: Int32Array) -> Float32Array:
        ids = torch.from_numpy(np.concatenate([prompt, tokens]).astype(np.int64))
        return run.score(ids, len(prompt)).numpy()

    return score
