"""What the harness's tests share: the real tokenizer of the default model and its renderer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from agentgym.models import pull
from harness.render import GuardedRenderer, load_renderer


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(pull())


@pytest.fixture(scope="session")
def renderer(tokenizer: PreTrainedTokenizerBase) -> GuardedRenderer:
    return load_renderer(tokenizer)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    root = Path(os.environ.get("AGENTGYM_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    if not (root / "data").is_dir():
        pytest.skip(f"the shared sample data is not at {root} (AGENTGYM_SHARED names it)")
    return root / "data"
