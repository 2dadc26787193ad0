"""Many episodes in one forward pass without padding: packed tokens, one key/value slab per episode.

The linear layers of a transformer do not care which sequence a token belongs to; only attention does. So the new tokens
of all running episodes, prompt chunks and single decode tokens alike, are packed into one row [1, N], and the attention
function below, registered with transformers under the name `RAGGED`, splits that row into segments: each segment writes
its keys and values into its episode's slab and attends to that slab alone. Episodes join, leave and grow at any step;
the linear layers (where the time goes) always see the whole batch. Any decoder-only model that is full attention in
every layer works unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel

RAGGED = "agentgym_ragged"


class Slab:
    """Keys and values of one episode's prefix. `ids`: the token ids they were computed from, in order."""

    def __init__(self, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> None:
        heads = config.num_key_value_heads or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._shape = (2, config.num_hidden_layers, heads, size)
        self._data = torch.empty((*self._shape[:3], 0, size), dtype=dtype, device=device)
        self.ids: list[int] = []

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def __len__(self) -> int:
        return len(self.ids)

    def common_prefix(self, tokens: np.ndarray) -> int:
        """How many leading tokens of int32[P] this slab holds."""
        length = min(len(self.ids), len(tokens))
        differs = np.flatnonzero(np.asarray(self.ids[:length], dtype=np.int32) != tokens[:length])
        return int(differs[0]) if len(differs) else length

    def crop(self, length: int) -> None:
        del self.ids[length:]

    def reserve(self, length: int) -> None:
        """Room for `length` tokens; grows by half so that appending stays cheap."""
        capacity = self._data.shape[3]
        if length <= capacity:
            return
        kept = self._data[:, :, :, : len(self.ids)]
        two, layers, heads, size = self._shape
        self._data = kept.new_empty((two, layers, heads, max(length, capacity * 3 // 2, 256), size))
        self._data[:, :, :, : len(self.ids)] = kept

    def copy_prefix(self, donor: Slab, length: int) -> None:
        """Take over the first `length` tokens of another episode (a shared system prompt, say)."""
        self.crop(0)
        self.reserve(length)
        self.ids = donor.ids[:length]
        self._data[:, :, :, :length] = donor._data[:, :, :, :length]

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Put [H, n, D] behind the prefix (reserved before); returns views [H, len+n, D]."""
        start = len(self.ids)
        end = start + keys.shape[1]
        self._data[0, layer, :, start:end] = keys
        self._data[1, layer, :, start:end] = values
        return self._data[0, layer, :, :end], self._data[1, layer, :, :end]


@dataclass(frozen=True, slots=True)
class Segment:
    """Columns [start, end) of the packed row are the next tokens of `slab`."""

    start: int
    end: int
    slab: Slab


def unsupported_reason(config: PreTrainedConfig) -> str | None:
    """Why a model cannot run ragged, or None: every layer must be full attention."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        return f"layers of type {', '.join(sorted(kinds - {'full_attention'}))} are not supported in-process"
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return f"sliding-window attention ({config.sliding_window}) is not supported in-process"
    if config.is_encoder_decoder:
        return "encoder-decoder models are not supported in-process"
    return None


def forward(model: PreTrainedModel, work: Sequence[tuple[Slab, Sequence[int], bool]]) -> torch.Tensor:
    """Run the next tokens of several slabs; returns logits [W, V] after the last token of those marked True."""
    device = model.device
    ids: list[int] = []
    positions: list[int] = []
    wanted: list[int] = []
    segments: list[Segment] = []
    for slab, tokens, wants_logits in work:
        start = len(ids)
        slab.reserve(len(slab) + len(tokens))
        ids.extend(tokens)
        positions.extend(range(len(slab), len(slab) + len(tokens)))
        segments.append(Segment(start, len(ids), slab))
        if wants_logits:
            wanted.append(len(ids) - 1)
    output = model(
        input_ids=torch.tensor([ids], device=device),
        position_ids=torch.tensor([positions], device=device),
        logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=device),
        use_cache=False,
        segments=segments,
    )
    for slab, tokens, _ in work:
        slab.ids.extend(tokens)
    return output.logits[0]


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    segments: Sequence[Segment] = (),
    **_: object,
) -> tuple[torch.Tensor, None]:
    """query [1, Hq, N, D], key and value [1, Hkv, N, D] -> [1, N, Hq, D]."""
    heads = []
    for segment in segments:
        columns = slice(segment.start, segment.end)
        keys, values = segment.slab.write(module.layer_idx, key[0, :, columns], value[0, :, columns])  # type: ignore[arg-type]
        heads.append(_attend(query[0, :, columns], keys, values, scaling))
    return torch.cat(heads, dim=1).transpose(0, 1).unsqueeze(0), None


def _attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Causal attention of the last n positions: query [Hq, n, D] over keys and values [Hkv, L, D] -> [Hq, n, D]."""
    query_heads, new, size = query.shape
    kv_heads, length, _ = keys.shape
    group = query_heads // kv_heads
    if new == 1:
        # All queries of a group see every key: let the group stand where query positions stand, and copy nothing.
        grouped = query.reshape(1, kv_heads, group, size)
        return functional.scaled_dot_product_attention(grouped, keys[None], values[None], scale=scale).reshape(
            query_heads, 1, size
        )
    mask = None
    if length > new:
        mask = torch.ones(new, length, dtype=torch.bool, device=query.device).tril(length - new)
    return functional.scaled_dot_product_attention(
        query[None],
        keys.repeat_interleave(group, dim=0)[None],
        values.repeat_interleave(group, dim=0)[None],
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
    )[0]


AttentionInterface.register(RAGGED, _attention)
