"""From a `--model` argument to a policy and the tokenizer that speaks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from agentgym.cli.output import stderr
from agentgym.config import Config
from agentgym.errors import InputError
from agentgym.models import DEFAULT_MODEL, explaining, resolve

if TYPE_CHECKING:
    from harness.policies.protocol import Policy


class PolicyChoice(Config):
    """Which policy acts, for every command that lets one act."""

    model: str = Field(
        DEFAULT_MODEL, description="Shipped name, transformers directory, hub id, or URL of a vLLM server."
    )
    tokenizer: str | None = Field(None, description="For a server: the directory or hub id its tokenizer comes from.")
    policy_version: int | None = Field(
        None, ge=0, description="Recorded with every sampled token (default: what a trainer's checkpoint says, else 0)."
    )


def version_of(place: Path | str) -> int:
    """The policy version of a trainer's checkpoint, from the `state.json` beside it; 0 for other weights.

    Raises InputError where that file is there and says no version.
    """
    state = Path(place).resolve().parent / "state.json"
    if not state.is_file():
        return 0
    try:
        return int(json.loads(state.read_text(encoding="utf-8"))["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{state} does not say a policy version ({error})", hint="--policy-version") from None


def load_policy(model: str, version: int | None = None) -> Policy:
    """The policy behind a shipped name, a transformers directory, a hub id or the URL of a vLLM server.

    version: recorded with every token it samples; None: `version_of` a directory, 0 for a server.
    """
    with stderr.status(f"loading {model}…"):
        place = resolve(model)
        if isinstance(place, str):
            from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig

            return VllmPolicy(VllmPolicyConfig(url=place), version=version or 0)
        from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig

        quiet_transformers()
        version = version_of(place) if version is None else version
        return TorchPolicy(TorchPolicyConfig(model=str(place)), version=version, name="model")


def quiet_transformers() -> None:
    """No bars of its own: ours are on the screen already."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def load_tokenizer(model: str, tokenizer: str | None) -> Any:
    """The tokenizer of a model; for a server it must be named, since text is never sent there."""
    place = resolve(tokenizer or model)
    if isinstance(place, str):
        raise InputError(
            f"{place} is a server: which tokenizer does its model use?",
            hint="--tokenizer with the directory or hub id of the model",
        )
    from transformers import AutoTokenizer

    with explaining(place):
        return AutoTokenizer.from_pretrained(place, local_files_only=True)
