"""Packed rows: what a row gives does not depend on what lies beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    PretrainedConfig,
    PreTrainedModel,
)

from trainer import attention
from trainer.batch import MicroBatch
from trainer.errors import ModelError
from trainer.evidence import Row
from trainer.models import action_loss, backbone, hidden_states, prepare


def rows(*lengths: int) -> list[Row]:
    torch.manual_seed(3)
    found = []
    for length in lengths:
        positions = torch.arange(2, length)
        nothing = torch.zeros(len(positions))
        found.append(Row(torch.randint(1, 96, (length,)), positions, nothing, nothing, nothing, nothing))
    return found


def packed(*given: Row) -> MicroBatch:
    return MicroBatch.packed(given, [0] * len(given), [0] * len(given))


def windowed(window: int) -> MistralForCausalLM:
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=window, initializer_range=0.2,
    )  # fmt: skip
    return MistralForCausalLM(config)


@pytest.mark.parametrize("window", [None, 5])
def test_packed_rows_are_the_rows_alone(policy: LlamaForCausalLM, window: int | None) -> None:
    """Given rows of several lengths, also with a sliding window, then transformers' own attention says the same of each."""
    model = windowed(window) if window else policy
    given = rows(17, 4, 9)
    with torch.no_grad():
        alone = [backbone(model)(input_ids=row.token_ids[None]).last_hidden_state[0] for row in given]
        prepare(model)
        torch.testing.assert_close(
            hidden_states(backbone(model), packed(*given), "float32"), torch.cat(alone), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("follows", [(-1, -1, -1), (-1, 0, 0), (-1, 0, 1)])
@pytest.mark.parametrize("window", [None, 5])
def test_the_kernel_gets_the_rows_as_it_documents_them(
    monkeypatch, window: int | None, follows: tuple[int, ...]
) -> None:
    """Given torch's variable-length kernel played by a loop over its documented arguments (it runs on GPUs only), then it is
    asked for what the rows give one by one."""

    def played(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa):
        assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
        assert max_q == int(cu_seq_q.diff().max())
        assert max_k == int(cu_seq_k.diff().max())
        found = []
        for (start, end), (first, last) in zip(pairwise(cu_seq_q.tolist()), pairwise(cu_seq_k.tolist()), strict=True):
            place, keys = torch.arange(end - start) + (last - first) - (end - start), torch.arange(last - first)
            mask = place[:, None] >= keys
            if window_size[0] >= 0:
                mask &= place[:, None] - keys <= window_size[0]
            spans = ((query, start, end), (key, first, last), (value, first, last))
            row = (tensor[left:right].transpose(0, 1)[None] for tensor, left, right in spans)
            attended = torch.nn.functional.scaled_dot_product_attention(
                *row, attn_mask=mask, scale=scale, enable_gqa=enable_gqa
            )
            found.append(attended[0].transpose(0, 1))
        return torch.cat(found)

    monkeypatch.setattr(attention, "varlen_attn", played)
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 4, 20, 8), torch.randn(1, 2, 20, 8), torch.randn(1, 2, 20, 8)
    expected, _ = attention.attend(
        torch.nn.Identity(), query, key, value, None, 0.3, lengths=(9, 4, 7), follows=follows, sliding_window=window
    )
    found = attention._kernel(query, key, value, (9, 4, 7), follows, 0.3, window)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [None, 5])
def test_a_row_behind_a_shared_prompt_is_the_whole_row(policy: LlamaForCausalLM, window: int | None) -> None:
    """Given rows with the same prompt, also with a sliding window, then each goes on from it as if it stood before it."""
    model = windowed(window) if window else policy
    prompt = torch.arange(1, 13)
    given = [
        replace(row, token_ids=torch.cat([prompt, row.token_ids]), positions=row.positions + 12) for row in rows(7, 4)
    ]
    given = [replace(row, token_ids=row.token_ids.index_fill(0, torch.tensor([12, 13]), 5)) for row in given]
    with torch.no_grad():
        alone = [backbone(model)(input_ids=row.token_ids[None]).last_hidden_state[0] for row in given]
        prepare(model)
        micro = packed(*given)
        found = hidden_states(backbone(model), micro, "float32")
    assert (micro.lengths, micro.follows) == ((13, 6, 3), (-1, 0, 0))
    torch.testing.assert_close(found, torch.cat([alone[0], alone[1][13:]]), rtol=1e-4, atol=1e-4)


def test_gradients_of_packed_rows_are_the_sum_of_the_rows_alone(policy: LlamaForCausalLM) -> None:
    prepare(policy)
    given = rows(17, 4, 9)

    def gradient(*micro_batches: MicroBatch) -> torch.Tensor:
        policy.zero_grad()
        for micro in micro_batches:
            temperature = torch.ones(len(micro.actions))
            action_loss(policy, micro, temperature, lambda logprob, _, part: logprob.sum())[0].backward()
        return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])

    together, apart = gradient(packed(*given)), gradient(*(packed(row) for row in given))
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-4)


def test_a_model_that_carries_state_across_a_packed_row_is_refused(policy: LlamaForCausalLM) -> None:
    policy.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(ModelError, match="linear_attention"):
        prepare(policy)


SMALL = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
MORE = {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 16, "pad_token_id": 0}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4), "code of its own"),
        (LlamaConfig(**SMALL, rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}), "longest"),
        (GptOssConfig(**SMALL, **MORE, num_local_experts=2, num_experts_per_tok=1), "sinks"),
        (
            Gemma2Config(**SMALL, **MORE, final_logit_softcapping=None, attn_logit_softcapping=2.0),
            "capped scores",
        ),
    ],
    ids=["bloom", "dynamic", "gpt-oss", "gemma2"],
)
def test_a_model_that_attends_otherwise_is_refused(config: PretrainedConfig, why: str) -> None:
    """Given attention that is not ours, or more than ours computes, then it is refused, not scored as another model."""
    model = AutoModelForCausalLM.from_config(config)
    with pytest.raises(ModelError, match=why):
        scored(model)


def test_a_model_with_dropout_in_its_own_code_is_scored_without() -> None:
    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=96, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=32
    )
    model = AutoModelForCausalLM.from_config(config)
    torch.testing.assert_close(scored(model), scored(model), rtol=0, atol=0)


def scored(model: PreTrainedModel) -> torch.Tensor:
    prepare(model)
    return hidden_states(backbone(model), packed(*rows(5, 4)), "float32")
