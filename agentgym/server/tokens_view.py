"""Every token of a trajectory in columns, for the heat map: id, logprob, version, call, and whether it was sampled.

Text is for people: pieces come from the tokenizer of the trajectory's model where this machine has it, and are None
where it does not. Nothing ever turns them back into tokens.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agentgym.models import models_dir
from agentgym.observe.text import visible
from agentgym.store import NotFoundError, Trajectory
from agentgym.store.records import ContextEvent
from agentgym.store.sequences import sequences


class Tokenizer(Protocol):
    def decode(self, ids: list[int], skip_special_tokens: bool = ...) -> str: ...


@functools.lru_cache(maxsize=8)
def tokenizer_of(model: str) -> Tokenizer | None:
    """The fast tokenizer of a model directory, or of a model pulled before; None where there is none. Downloads nothing."""
    from tokenizers import Tokenizer as Fast

    for place in (Path(model), models_dir() / model) if model else ():
        file = place / "tokenizer.json"
        if file.is_file():
            return Fast.from_file(str(file))
    return None


def pieces(model: str, ids: Iterable[int]) -> dict[int, str] | None:
    """The text of each distinct token id; bytes that are no whole character show as the replacement sign."""
    tokenizer = tokenizer_of(model)
    if tokenizer is None:
        return None
    return {one: visible(tokenizer.decode([one], skip_special_tokens=False)) for one in sorted(set(ids))}


def token_columns(trajectory: Trajectory, index: int) -> dict[str, Any]:
    """One sequence as a JSON-ready dict of columns, all of the sequence's length. Raises NotFoundError.

    logprobs: nats to four decimals (all digits are in the calls), null where the token was not sampled. pieces: text by
    token id, null where no tokenizer is here.
    """
    found = sequences(trajectory)
    if not 0 <= index < max(1, len(found)):
        raise NotFoundError(f"trajectory {trajectory.id[:8]} has {len(found)} sequences, and no number {index}")
    shared = {
        "trajectory_id": trajectory.id,
        "sequence": index,
        "sequences": len(found),
        "context_events": [
            {"call": number, "event": call.context_event.value}
            for number, call in enumerate(trajectory.calls)
            if call.context_event is not ContextEvent.APPEND
        ],
    }
    if not found:
        empty: dict[str, list[Any]] = {name: [] for name in ("ids", "sampled", "logprobs", "version", "call")}
        return shared | empty | {"pieces": None}
    one = found[index]
    ids = one.token_ids.tolist()
    logprobs = np.round(one.logprobs.astype(np.float64), 4).tolist()
    sampled = one.action_mask.astype(int).tolist()
    return shared | {
        "ids": ids,
        "pieces": pieces(trajectory.model, ids),
        "sampled": sampled,
        "logprobs": [value if mask else None for value, mask in zip(logprobs, sampled, strict=True)],
        "version": one.policy_version.tolist(),
        "call": one.call_index.tolist(),
    }


def dumps(columns: dict[str, Any]) -> bytes:
    return json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
