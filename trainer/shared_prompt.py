"""Rows that begin with the same prompt go through the model with that prompt once.

Several rollouts of one prompt differ only in what was sampled, and in the first turn the prompt is most of a row. So the prompt
runs alone, its keys and values are repeated for every row, and the rows run behind them. Gradients flow through the repeated
keys and values, so they are those of whole rows: n rows of P + A tokens cost P + nA instead of n(P + A).
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import DynamicCache


def hidden_states(stack: nn.Module, shared: Tensor | None, own: Tensor) -> tuple[Tensor | None, Tensor]:
    """Last hidden states of both parts, [1, S, H] and [R, T, H].

    stack: a transformers decoder without its head. shared: [1, S] token ids or [1, S, H] embeddings that all rows begin with,
    None for nothing. own: how each of the R rows goes on.
    """
    name = "inputs_embeds" if own.is_floating_point() else "input_ids"
    if shared is None:
        return None, stack(**{name: own}, use_cache=False).last_hidden_state
    cache = DynamicCache()
    before = stack(**{name: shared}, cache=cache, use_cache=True).last_hidden_state
    cache.batch_repeat_interleave(len(own))
    return before, stack(**{name: own}, cache=cache, use_cache=True).last_hidden_state
