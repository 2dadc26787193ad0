"""Attention over packed rows: sequences end to end in one row, none sees another, nothing is padded.

The linear layers of a transformer do not care which sequence a token belongs to; only attention does. So the rows of a
micro-batch are laid end to end, [1, T], and the function below, registered with transformers under the name `PACKED`, is
block-diagonal and causal: torch's variable-length kernel where one runs (CUDA, half precision), else one call of scaled
dot-product attention per row. Both take the lengths from the forward pass (`lengths=`); without them the row is one sequence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

PACKED = "agentgym_packed"
LAYERS = {"full_attention", "sliding_attention"}
"""Kinds of decoder layers that keep packed sequences apart; a recurrent one would carry its state across."""


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    lengths: tuple[int, ...] = (),
    sliding_window: int | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """query [1, Hq, T, D], key and value [1, Hkv, T, D] → [1, T, Hq, D]. sliding_window: keys a token sees, itself included."""
    lengths = lengths or (query.shape[2],)
    if query.is_cuda and (dtype := _compute_type(query)) in (torch.bfloat16, torch.float16):
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        return _kernel(query, key, value, lengths, scaling, sliding_window), None
    queries, keys, values = (tensor.split(list(lengths), dim=2) for tensor in (query, key, value))
    rows = [_row(q, k, v, scaling, sliding_window) for q, k, v in zip(queries, keys, values, strict=True)]
    return torch.cat(rows, dim=2).transpose(1, 2), None


def _row(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None) -> Tensor:
    length, mask = query.shape[2], None
    if window is not None and window < length:
        mask = torch.ones(length, length, dtype=torch.bool, device=query.device).tril().triu(1 - window)
    return functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def _compute_type(query: Tensor) -> torch.dtype:
    """Autocast knows torch's own attention, not the kernel; and rotary embeddings have made queries float32 again."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype


def _kernel(
    query: Tensor, key: Tensor, value: Tensor, lengths: tuple[int, ...], scale: float | None, window: int | None
) -> Tensor:
    bounds = torch.tensor((0, *lengths), device=query.device).cumsum(0).to(torch.int32)
    found: Any = varlen_attn(
        query[0].transpose(0, 1),  # [T, H, D], as all of them
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        cu_seq_q=bounds,
        cu_seq_k=bounds,
        max_q=max(lengths),
        max_k=max(lengths),
        scale=scale,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return found[None]


AttentionInterface.register(PACKED, attend)
