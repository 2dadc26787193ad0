"""From names in a config to the parts of an online run: tasks, policy, profile, sandboxes, publisher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.store import Store
from agentgym.tasks import Task
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig
from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig
from harness.profile import load_profile
from harness.render import load_renderer
from trainer.errors import TrainConfigError
from trainer.online.config import OnlineConfig
from trainer.online.held_out import held_out_measurement
from trainer.online.loop import Parts
from trainer.online.publisher import publisher_for
from trainer.online.rollouts import Acting

POLICY = "policy"
"""The name online policies act under, so that a run's episodes keep their identity when it goes on."""


@asynccontextmanager
async def assembled(
    config: OnlineConfig,
    tasks: Sequence[Task],
    held_out: Sequence[Task],
    tokenizer: Any,
    backend: SandboxBackend,
    store: Store,
) -> AsyncIterator[Parts]:
    """The parts, with the policy open; closed at the end."""
    profile = load_profile(config.profile)
    sampling = profile.sampling
    if sampling.temperature <= 0 or sampling.top_p < 1 or sampling.top_k > 0:
        raise TrainConfigError(
            f"profile {profile.name!r} samples with temperature {sampling.temperature}, top_p {sampling.top_p}, "
            f"top_k {sampling.top_k}: without the kept sets the ratios of such tokens are undefined",
            hint="train with temperature > 0, top_p = 1, top_k = -1",
        )
    policy = _policy(config)
    try:
        acting = Acting(policy, load_renderer(tokenizer), profile)
        measure = held_out_measurement(config, held_out, acting, backend, store) if held_out else None
        yield Parts(tasks, acting, backend, publisher_for(policy, config), measure)
    finally:
        await policy.close()


def _policy(config: OnlineConfig) -> TorchPolicy | VllmPolicy:
    if config.server is None:
        settings = TorchPolicyConfig(
            model=str(config.model), max_batch=config.concurrency, publish_tolerance=config.publish_tolerance
        )
        return TorchPolicy(settings, version=config.model_version, name=POLICY)
    settings = VllmPolicyConfig(
        url=config.server,
        publish_tolerance=config.publish_tolerance,
        retries=5 + int(config.patience_s / 15),  # the waits grow to 15 s
    )
    policy = VllmPolicy(settings, version=config.model_version, name=POLICY)
    if not policy.server.labelled:
        raise TrainConfigError(
            f"the server at {policy.server.url} does not say which weights sampled a token, so staleness has no versions",
            hint="start vLLM 0.32 or later with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out",
        )
    return policy
