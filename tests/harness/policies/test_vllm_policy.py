"""The vLLM policy against a real server: exact ids, exact logprobs, weight updates that are checked, typed failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from agentgym.store.records import FinishReason, Sampling, VersionSpan
from harness.policies.protocol import PolicyError, PublishError
from harness.policies.sampling import recompute
from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig


def with_server(test):
    """Starting the server takes up to some minutes on a busy machine."""
    return pytest.mark.vllm(pytest.mark.timeout(1500)(test))


@pytest.fixture
async def served(vllm_url: str):
    policy = VllmPolicy(VllmPolicyConfig(url=vllm_url + "/v1"))
    yield policy
    await policy.close()


def prompt_of(tokenizer: PreTrainedTokenizerFast, text: str) -> np.ndarray:
    ids = tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
    return np.asarray(ids, dtype=np.int32)


def gap(model: PreTrainedModel, prompt: np.ndarray, answer, sampling: Sampling) -> float:
    return float(gaps(model, prompt, answer, sampling).max())


def gaps(model: PreTrainedModel, prompt: np.ndarray, answer, sampling: Sampling) -> np.ndarray:
    """Per generated token: how far the reported logprob is from the model's."""
    ids = torch.from_numpy(np.concatenate([prompt, answer.token_ids]).astype(np.int64))
    with torch.inference_mode():
        logits = model(input_ids=ids[None]).logits[0, len(prompt) - 1 : -1]
    return np.abs(recompute(logits, ids[len(prompt) :], sampling).numpy() - answer.logprobs)


@with_server
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=1),
        Sampling(temperature=0.5, seed=2),
        Sampling(temperature=1.4, top_k=10, seed=3),
        Sampling(top_p=0.8, seed=4),
        Sampling(temperature=0.0),
    ],
    ids=str,
)
async def test_logprobs_are_those_of_the_sampled_distribution(served, reference, tokenizer, sampling) -> None:
    prompt = prompt_of(tokenizer, "Write a haiku about a compiler.")
    answer = await served.generate(prompt, sampling=sampling, max_tokens=16, stop_token_ids=(2,), episode_id="a")
    assert answer.token_ids.dtype == np.int32
    assert answer.logprobs.dtype == np.float32
    assert answer.versions == (VersionSpan(0, 0, len(answer.token_ids)),)
    assert gap(reference, prompt, answer, sampling) < 1e-3


@with_server
async def test_the_stop_token_is_part_of_the_generation_and_seeds_decide(served, tokenizer) -> None:
    prompt = prompt_of(tokenizer, "What is the capital of France?")
    options = {"max_tokens": 40, "stop_token_ids": (2,), "episode_id": "a"}
    answer = await served.generate(prompt, sampling=Sampling(temperature=0.0), **options)
    assert answer.finish_reason is FinishReason.STOP
    assert answer.token_ids[-1] == 2
    assert (answer.logprobs == 0).all()
    one, same = [await served.generate(prompt, sampling=Sampling(seed=5), **options) for _ in range(2)]
    assert one.token_ids.tolist() == same.token_ids.tolist()


@with_server
async def test_the_context_is_the_servers(served) -> None:
    assert served.context_length == 4096
    full = np.full(4092, 100, dtype=np.int32)
    cut = await served.generate(full, sampling=Sampling(), max_tokens=50, stop_token_ids=(), episode_id="a")
    assert (len(cut.token_ids), cut.finish_reason) == (4, FinishReason.LENGTH)
    with pytest.raises(PolicyError, match="context of 4096"):
        await served.generate(
            np.full(4096, 100, dtype=np.int32), sampling=Sampling(), max_tokens=1, stop_token_ids=(), episode_id="a"
        )


def scaled(directory: Path, factor: float, target: Path) -> PreTrainedModel:
    """Other weights of the same model, saved to `target`."""
    changed = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.mul_(factor)
    changed.save_pretrained(target)
    return changed.eval()


@with_server
async def test_a_streamed_answer_is_told_token_by_token_and_recorded_as_a_whole(served, reference, tokenizer) -> None:
    prompt, sampling = prompt_of(tokenizer, "Tell a story."), Sampling(seed=5)
    told: list[list[int]] = []
    options = {"sampling": sampling, "max_tokens": 24, "stop_token_ids": (), "episode_id": "a"}
    answer = await served.stream(prompt, on_tokens=told.append, **options)
    assert [token for ids in told for token in ids] == answer.token_ids.tolist()
    assert len(told) > 4
    assert answer.versions == (VersionSpan(0, 0, 24),)
    assert gap(reference, prompt, answer, sampling) < 1e-3


@with_server
async def test_a_generation_crosses_a_weight_update_and_says_where(
    served, untied_dir, reference, tokenizer, tmp_path: Path
) -> None:
    """Given a generation under way, when weights are exchanged, then it goes on, and each token has the logprob of the
    version its span names."""
    changed = scaled(untied_dir, 1.01, tmp_path / "next")
    prompt, sampling = prompt_of(tokenizer, "Tell a story."), Sampling(seed=9)
    running = asyncio.create_task(
        served.generate(prompt, max_tokens=400, sampling=sampling, stop_token_ids=(), episode_id="a")
    )
    await asyncio.sleep(1.0)
    try:
        assert await served.load_weights(tmp_path / "next", 7) < 1e-3
        assert served.version == 7
        answer = await running
        first, second = answer.versions
        assert (first.version, second.version, second.end) == (0, 7, len(answer.token_ids))
        assert first.end == second.start > 0
        old, new = (gaps(model, prompt, answer, sampling) for model in (reference, changed))
        assert old[: first.end].max() < 1e-3
        assert new[first.end :].max() < 1e-3
        assert old[first.end :].max() > 1e-2
        assert (served.server.label() or "").startswith("7-")
    finally:
        await served.load_weights(untied_dir, 0)


@with_server
async def test_a_publish_that_did_not_arrive_is_an_error_and_changes_nothing(
    served, untied_dir, reference, tokenizer, tmp_path: Path, monkeypatch
) -> None:
    """Given a server that answers but keeps its weights, then the update fails, and version and weights stay."""
    scaled(untied_dir, 1.3, tmp_path / "next")
    post = served.server.post

    async def ignoring_reload(path, body, **options):
        return None if path == "/collective_rpc" else await post(path, body, **options)

    with monkeypatch.context() as patched:
        patched.setattr(served.server, "post", ignoring_reload)
        with pytest.raises(PublishError, match="does not serve those weights"):
            await served.load_weights(tmp_path / "next", 1)
    assert served.version == 0
    prompt, sampling = prompt_of(tokenizer, "Count."), Sampling(seed=3)
    answer = await served.generate(prompt, sampling=sampling, max_tokens=8, stop_token_ids=(), episode_id="a")
    assert answer.versions == (VersionSpan(0, 0, 8),)
    assert gap(reference, prompt, answer, sampling) < 1e-3


@with_server
async def test_a_tied_head_that_stays_behind_is_noticed(served, untied_dir, tmp_path: Path) -> None:
    """Given a checkpoint whose head is not in its file, as a tied one's is not, then the server keeps its old head and says
    nothing; the probe does."""
    changed = scaled(untied_dir, 1.05, tmp_path / "next")
    state = {name: tensor for name, tensor in changed.state_dict().items() if name != "lm_head.weight"}
    save_file(state, tmp_path / "next" / "model.safetensors", metadata={"format": "pt"})

    def score(prompt: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        ids = torch.from_numpy(np.concatenate([prompt, tokens]).astype(np.int64))
        with torch.inference_mode():
            logits = changed(input_ids=ids[None]).logits[0, len(prompt) - 1 : -1]
        return recompute(logits, ids[len(prompt) :], Sampling()).numpy()

    with pytest.raises(PublishError, match=r"off by|did not answer"):
        await served.load_weights(tmp_path / "next", 1, score=score)
    assert served.version == 0


@with_server
async def test_a_server_that_came_back_with_its_first_weights_gets_the_published_ones_again(
    served, untied_dir, tokenizer, tmp_path: Path
) -> None:
    changed = scaled(untied_dir, 1.01, tmp_path / "next")
    first_label = served.server.label()
    prompt, sampling = prompt_of(tokenizer, "Count."), Sampling(seed=3)
    try:
        await served.load_weights(tmp_path / "next", 4)
        await served.server.exchange(untied_dir, first_label)  # what a restart leaves, behind the client's back
        answer = await served.generate(prompt, sampling=sampling, max_tokens=8, stop_token_ids=(), episode_id="a")
        assert answer.versions == (VersionSpan(4, 0, 8),)
        assert gap(changed, prompt, answer, sampling) < 1e-3
    finally:
        await served.load_weights(untied_dir, 0)


@with_server
async def test_a_refused_request_is_an_error_at_once(served) -> None:
    with pytest.raises(PolicyError, match="HTTP 400"):
        await served.generate(
            np.asarray([10**6], dtype=np.int32), sampling=Sampling(), max_tokens=1, stop_token_ids=(), episode_id="a"
        )


def test_no_server_is_a_policy_error_with_the_command() -> None:
    with pytest.raises(PolicyError, match="api_server"):
        VllmPolicy(VllmPolicyConfig(url="http://127.0.0.1:9"))
