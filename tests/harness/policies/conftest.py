"""The real 135M model, loaded once for the room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig


@pytest.fixture(scope="session")
def reference(model_dir: Path) -> PreTrainedModel:
    """The same weights behind transformers' own attention: what our engine must agree with."""
    return AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()


@pytest.fixture
async def policy(model_dir: Path) -> AsyncIterator[TorchPolicy]:
    policy = TorchPolicy(TorchPolicyConfig(model=str(model_dir)))
    yield policy
    await policy.close()
