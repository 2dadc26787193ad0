"""`pull` builds a sound checkpoint; `resolve` leads a model argument to something loadable or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from agentgym.models import DEFAULT_MODEL, ModelNotFound, pull, resolve, untie


@pytest.fixture(scope="module")
def directory() -> Path:
    return pull()


@pytest.fixture(scope="module")
def tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(directory)


def test_pull_is_cached_and_leaves_nothing_behind(directory: Path) -> None:
    before = (directory / "model.safetensors").stat()
    assert pull() == directory
    assert (directory / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns
    assert not [path for path in directory.parent.iterdir() if path.name.startswith(f".{DEFAULT_MODEL}-")]


def test_control_tokens_are_single_ids_and_end_of_turn_is_eos(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>") == [1, *tokenizer.encode("user\nhi"), 2]
    assert tokenizer.eos_token_id == 2
    rendered = tokenizer.apply_chat_template(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert rendered == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"


def test_digits_are_split_before_byte_level_bpe(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("x =  12")) == ["x", "Ġ=", "ĠĠ", "1", "2"]


def test_bytes_survive_the_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "naïve\t“quotes”\r\n\n  def f(x):\n\treturn '🦀'  \n"
    assert tokenizer.decode(tokenizer.encode(text), clean_up_tokenization_spaces=False) == text


def test_weights_are_fp32_tied_and_know_the_world(directory: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    with safe_open(directory / "model.safetensors", "pt") as tensors:
        assert {tensors.get_tensor(name).dtype for name in tensors.keys()} == {torch.float32}  # noqa: SIM118
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert model.config.tie_word_embeddings
    assert getattr(model.config, "quantization_config", None) is None
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt"
    )
    answer = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(answer)


def test_untied_copy_computes_the_same_function(directory: Path, tmp_path: Path) -> None:
    copy = untie(directory, tmp_path / "untied")
    with safe_open(copy / "model.safetensors", "pt") as tensors:
        assert "lm_head.weight" in tensors.keys()  # noqa: SIM118
    tokens = torch.tensor([[1, 4093, 198, 6004, 2]])
    with torch.inference_mode():
        ours = AutoModelForCausalLM.from_pretrained(copy)(tokens).logits
        theirs = AutoModelForCausalLM.from_pretrained(directory)(tokens).logits
    assert torch.equal(ours, theirs)
    assert AutoTokenizer.from_pretrained(copy).eos_token_id == 2


def test_resolve_accepts_directories_names_and_server_urls(directory: Path) -> None:
    assert resolve(DEFAULT_MODEL) == directory
    assert resolve(str(directory)) == directory.resolve()
    assert resolve("http://127.0.0.1:8000/v1/") == "http://127.0.0.1:8000"


@pytest.mark.parametrize("model", ["no-such-model", "./missing", "/missing/dir", "a/b/c", ""])
def test_resolve_names_what_it_would_take(model: str) -> None:
    with pytest.raises(ModelNotFound, match="→ use"):
        resolve(model)


def test_resolve_refuses_a_directory_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        resolve(str(tmp_path))
