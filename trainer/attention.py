"""Attention over packed rows: segments end to end in one row, none sees another, nothing is padded.

The linear layers of a transformer do not care which sequence a token belongs to; only attention does. So the rows of a
micro-batch are laid end to end, [1, T], and the function below, registered with transformers under the name `PACKED`, is
block-diagonal and causal: torch's variable-length kernel where one runs (CUDA, half precision), else one call of scaled
dot-product attention per segment. Both take the lengths from the forward pass (`lengths=`); without them the row is one
sequence. A segment that goes on from another (`follows=`: a row behind the prompt it shares) sees its keys too, and those of
all that one goes on from.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

from trainer.errors import ModelError

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
    follows: tuple[int, ...] = (),
    sliding_window: int | None = None,
    s_aux: Tensor | None = None,
    softcap: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """query [1, Hq, T, D], key and value [1, Hkv, T, D] → [1, T, Hq, D]. follows: per segment the earlier one it goes on from,
    −1 for none. sliding_window: keys a token sees, itself included. Raises ModelError for sinks (s_aux) and capped scores."""
    if s_aux is not None or softcap is not None:
        what = "sinks" if s_aux is not None else "capped scores"
        raise ModelError(f"{type(module).__name__} attends with {what}, which the trainer's attention does not compute")
    lengths = lengths or (query.shape[2],)
    follows = follows or (-1,) * len(lengths)
    if query.is_cuda and (dtype := _compute_type(query)) in (torch.bfloat16, torch.float16):
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        return _kernel(query, key, value, lengths, follows, scaling, sliding_window), None
    queries, keys, values = (tensor.split(list(lengths), dim=2) for tensor in (query, key, value))
    rows = [
        _row(own, _seen(keys, path), _seen(values, path), scaling, sliding_window)
        for own, path in zip(queries, _paths(follows), strict=True)
    ]
    return torch.cat(rows, dim=2).transpose(1, 2), None


def _paths(follows: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Per segment all that it sees, from the first to itself."""
    paths: list[tuple[int, ...]] = []
    for own, before in enumerate(follows):
        paths.append((*paths[before], own) if before >= 0 else (own,))
    return paths


def _seen(parts: tuple[Tensor, ...], path: tuple[int, ...]) -> Tensor:
    return parts[path[0]] if len(path) == 1 else torch.cat([parts[part] for part in path], dim=2)


def _row(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None) -> Tensor:
    length, mask = query.shape[2], None
    before = key.shape[2] - length
    if before or (window is not None and window < length):
        mask = torch.ones(length, before + length, dtype=torch.bool, device=query.device).tril(before)
        mask = mask if window is None else mask.triu(before + 1 - window)
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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: tuple[int, ...],
    follows: tuple[int, ...],
    scale: float | None,
    window: int | None,
) -> Tensor:
    """Queries that see more keys than there are of them are aligned to the last ones, as the kernel's causal mask is."""
    flat = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]  # [T, H, D]
    seen = lengths
    if max(follows) >= 0:
        paths = _paths(follows)
        parts = [tensor.split(list(lengths)) for tensor in flat[1:]]
        flat[1:] = [torch.cat([tensors[part] for path in paths for part in path]) for tensors in parts]
        seen = tuple(sum(lengths[part] for part in path) for path in paths)
    found: Any = varlen_attn(
        flat[0],
        flat[1],
        flat[2],
        cu_seq_q=torch.tensor((0, *lengths), device=query.device).cumsum(0).to(torch.int32),
        cu_seq_k=torch.tensor((0, *seen), device=query.device).cumsum(0).to(torch.int32),
        max_q=max(lengths),
        max_k=max(seen),
        scale=scale,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return found[None]


AttentionInterface.register(PACKED, attend)
