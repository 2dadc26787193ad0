"""The in-process policy: what it reports is what it sampled from, whoever shares the batch and whatever is cached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from agentgym.models import ModelNotFound
from agentgym.store.records import FinishReason, Int32Array, PolicyKind, Sampling, VersionSpan
from harness.policies.protocol import Generation, PolicyError
from harness.policies.sampling import recompute
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig

STOP = (2,)


def chat(tokenizer: PreTrainedTokenizerFast, *messages: str) -> Int32Array:
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(messages)]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return np.asarray(tokenizer.encode(text), dtype=np.int32)


def full_forward(model: PreTrainedModel, prompt: Int32Array, answer: Generation, sampling: Sampling) -> torch.Tensor:
    ids = torch.tensor([[*prompt.tolist(), *answer.token_ids.tolist()]])
    with torch.inference_mode():
        logits = model(ids).logits[0, len(prompt) - 1 : -1]
    return recompute(logits, ids[0, len(prompt) :], sampling)


def assert_exact(model: PreTrainedModel, prompt: Int32Array, answer: Generation, sampling: Sampling) -> None:
    again = full_forward(model, prompt, answer, sampling).numpy()
    assert np.abs(again - answer.logprobs).max() < 2e-4


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, seed=1),
        Sampling(temperature=0.6, seed=2),
        Sampling(temperature=1.3, top_k=20, seed=3),
        Sampling(temperature=1.0, top_p=0.8, seed=4),
    ],
    ids=str,
)
async def test_logprobs_are_those_of_the_sampled_distribution(
    policy: TorchPolicy, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, sampling: Sampling
) -> None:
    prompt = chat(tokenizer, "Write a haiku about a compiler.")
    answer = await policy.generate(prompt, sampling=sampling, max_tokens=24, stop_token_ids=STOP, episode_id="a")
    assert answer.token_ids.dtype == np.int32
    assert answer.logprobs.dtype == np.float32
    assert (answer.logprobs <= 0).all()
    assert answer.versions == (VersionSpan(0, 0, len(answer.token_ids)),)
    assert_exact(reference, prompt, answer, sampling)


async def test_greedy_is_a_point_mass_and_agrees_with_transformers(
    policy: TorchPolicy, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    prompt = chat(tokenizer, "What is the capital of France?")
    greedy = Sampling(temperature=0.0)
    answer = await policy.generate(prompt, sampling=greedy, max_tokens=20, stop_token_ids=STOP, episode_id="a")
    theirs = reference.generate(torch.from_numpy(prompt)[None].long(), max_new_tokens=20, do_sample=False)
    assert answer.token_ids.tolist() == theirs[0, len(prompt) :].tolist()
    assert answer.finish_reason is FinishReason.STOP
    assert answer.token_ids[-1] == 2
    assert (answer.logprobs == 0).all()
    assert full_forward(reference, prompt, answer, greedy).abs().max() == 0


async def test_a_later_turn_reuses_the_cache_and_stays_exact(
    policy: TorchPolicy, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampling = Sampling(seed=7)
    prompt = chat(tokenizer, "Name three colours.")
    for turn in range(3):
        answer = await policy.generate(prompt, sampling=sampling, max_tokens=12, stop_token_ids=STOP, episode_id="a")
        assert_exact(reference, prompt, answer, sampling)
        observation = tokenizer.encode(f"<|im_end|>\n<|im_start|>user\nturn {turn}<|im_end|>\n<|im_start|>assistant\n")
        prompt = np.concatenate([prompt, answer.token_ids, np.asarray(observation, dtype=np.int32)])


async def test_a_rewritten_history_does_not_use_stale_keys(
    policy: TorchPolicy, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampling = Sampling(seed=7)
    for text in ("Count the letters in banana, please.", "Count the words in this, please."):
        prompt = chat(tokenizer, text)
        answer = await policy.generate(prompt, sampling=sampling, max_tokens=8, stop_token_ids=STOP, episode_id="a")
        assert_exact(reference, prompt, answer, sampling)


async def test_concurrent_episodes_do_not_see_each_other(
    policy: TorchPolicy, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    prompts = [chat(tokenizer, "Tell me about " + "very " * i + "old ships.") for i in range(6)]

    async def ask(index: int) -> Generation:
        return await policy.generate(
            prompts[index],
            sampling=Sampling(seed=index),
            max_tokens=6 + 2 * index,
            stop_token_ids=STOP,
            episode_id=str(index),
        )

    together = await asyncio.gather(*(ask(i) for i in range(6)))
    for index, answer in enumerate(together):
        assert_exact(reference, prompts[index], answer, Sampling(seed=index))
    alone = await ask(3)
    assert alone.token_ids.tolist() == together[3].token_ids.tolist()


async def test_a_seed_decides_and_seeds_differ(policy: TorchPolicy, tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = chat(tokenizer, "Invent a word.")

    async def ask(seed: int | None) -> list[int]:
        answer = await policy.generate(
            prompt, sampling=Sampling(temperature=1.5, seed=seed), max_tokens=10, stop_token_ids=STOP, episode_id="a"
        )
        return answer.token_ids.tolist()

    assert await ask(1) == await ask(1)
    assert await ask(1) != await ask(2)
    assert await ask(None) != await ask(None)


async def test_budget_and_context_cut_with_length(model_dir: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = chat(tokenizer, "Recite the alphabet at great length.")
    policy = TorchPolicy(TorchPolicyConfig(model=str(model_dir), context_length=len(prompt) + 5))
    try:
        for max_tokens, expected in ((3, 3), (50, 5)):
            answer = await policy.generate(
                prompt, sampling=Sampling(temperature=0), max_tokens=max_tokens, stop_token_ids=(), episode_id="a"
            )
            assert (len(answer.token_ids), answer.finish_reason) == (expected, FinishReason.LENGTH)
        with pytest.raises(PolicyError, match="context of"):
            await policy.generate(
                np.tile(prompt, 2), sampling=Sampling(), max_tokens=1, stop_token_ids=(), episode_id="b"
            )
    finally:
        await policy.close()


async def test_a_weight_update_mid_generation_splits_the_versions(
    policy: TorchPolicy, reference: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    changed = AutoModelForCausalLM.from_pretrained(policy.path, dtype=torch.float32)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.mul_(1.01)
    changed.save_pretrained(tmp_path / "next")
    prompt, sampling = chat(tokenizer, "Write a long story."), Sampling(temperature=1.0, seed=5)
    running = asyncio.create_task(
        policy.generate(prompt, sampling=sampling, max_tokens=160, stop_token_ids=(), episode_id="a")
    )
    await asyncio.sleep(0.3)
    await policy.load_weights(tmp_path / "next", 1)
    answer = await running
    assert policy.version == 1
    first, second = answer.versions
    assert (first.version, second.version, first.end, second.end) == (0, 1, second.start, 160)
    old = full_forward(reference, prompt, answer, sampling)
    new = full_forward(changed.eval(), prompt, answer, sampling)
    recorded = torch.from_numpy(answer.logprobs)
    assert (recorded - old)[: first.end].abs().max() < 2e-4
    assert (recorded - new)[first.end :].abs().max() < 2e-4
    assert (recorded - old)[first.end :].abs().max() > 1e-3


async def test_cancelling_frees_the_engine(policy: TorchPolicy, tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = chat(tokenizer, "Go on for ever.")
    endless = asyncio.create_task(
        policy.generate(prompt, sampling=Sampling(), max_tokens=5000, stop_token_ids=(), episode_id="a")
    )
    await asyncio.sleep(0.2)
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    await policy.end_episode("a")
    answer = await asyncio.wait_for(
        policy.generate(prompt, sampling=Sampling(), max_tokens=2, stop_token_ids=(), episode_id="b"), 60
    )
    assert len(answer.token_ids) == 2


async def test_a_failing_model_is_a_policy_error_and_not_the_end(
    policy: TorchPolicy, tokenizer: PreTrainedTokenizerFast
) -> None:
    beyond_the_vocabulary = np.asarray([1, 10**6], dtype=np.int32)
    with pytest.raises(PolicyError, match="inference failed"):
        await policy.generate(
            beyond_the_vocabulary, sampling=Sampling(), max_tokens=2, stop_token_ids=STOP, episode_id="a"
        )
    answer = await policy.generate(
        chat(tokenizer, "hi"), sampling=Sampling(), max_tokens=2, stop_token_ids=STOP, episode_id="a"
    )
    assert len(answer.token_ids) > 0


def test_it_is_a_model_policy_and_refuses_servers() -> None:
    assert TorchPolicy.kind is PolicyKind.MODEL
    with pytest.raises(ModelNotFound, match="vllm policy"):
        TorchPolicy(TorchPolicyConfig(model="http://127.0.0.1:1"))
