"""Packed rows: what a row gives does not depend on what lies beside it."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaForCausalLM, MistralConfig, MistralForCausalLM

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
