"""Every token of a trajectory in columns, for the heat map: id, logprob, version, call, and whether it was sampled.

Text is for people: pieces come from the tokenizer of the trajectory's model where this machine has it, and are None
where it does not. Nothing ever turns them back into tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson

from agentgym.models import models_dir
from agentgym.observe.text import visible
from agentgym.store import CorruptError, NotFoundError, Store, Trajectory
from agentgym.store.records import ContextEvent
from agentgym.store.sequences import Sequence, sequences


class Tokenizer(Protocol):
    def decode(self, ids: list[int], skip_special_tokens: bool = ...) -> str: ...

    def decode_batch(self, sequences: list[list[int]], skip_special_tokens: bool = ...) -> list[str]: ...


def tokenizer_of(model: str) -> Tokenizer | None:
    """The fast tokenizer of a model directory, or of a model pulled before; None where there is none. Downloads nothing."""
    for place in (Path(model), models_dir() / model) if model else ():
        if (place / "tokenizer.json").is_file():
            return _loaded(place / "tokenizer.json")
    return None


@functools.lru_cache(maxsize=8)
def _loaded(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer as Fast

    return Fast.from_file(str(file))


def pieces(model: str, ids: Iterable[int]) -> dict[int, str] | None:
    """The text of each distinct token id; bytes that are no whole character show as the replacement sign."""
    tokenizer = tokenizer_of(model)
    if tokenizer is None:
        return None
    known = _texts(model)
    unknown = [one for one in set(ids) if one not in known]
    # One call for all of them: a token at a time, most of the page's time went into crossing over to the tokenizer.
    texts = tokenizer.decode_batch([[one] for one in unknown], skip_special_tokens=False)
    known.update(zip(unknown, map(visible, texts), strict=True))
    return {one: known[one] for one in set(ids)}


@functools.lru_cache(maxsize=8)
def _texts(model: str) -> dict[int, str]:
    """What was decoded before; at most a vocabulary a model."""
    return {}


def token_columns(trajectory: Trajectory, index: int) -> dict[str, Any]:
    """One sequence as a JSON-ready dict of columns, all of the sequence's length. Raises NotFoundError.

    logprobs: nats to four decimals (all digits are in the calls), null where the token was not sampled. pieces: text by
    token id, null where no tokenizer is here.
    """
    found = _sequences(trajectory, index)
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


def credit_columns(
    store: Store, trajectory: Trajectory, index: int, run_id: str | None, step: int | None
) -> dict[str, Any]:
    """What a learner thought of one sequence's tokens: columns of the sequence's length, null where a token was not sampled.

    Of the newest update that the trajectory took part in, or of the one named. updates: all of them, newest first; without
    any, the columns are null. Raises NotFoundError.
    """
    found = _sequences(trajectory, index)
    entries = store.credit(trajectory.id)
    updates = [{"run_id": one.run_id, "step": one.step, "version": one.version} for one in entries]
    wanted = [one for one in entries if run_id in (None, one.run_id) and step in (None, one.step)]
    if not wanted and (run_id, step) != (None, None):
        raise NotFoundError(f"trajectory {trajectory.id[:8]} was in no update {step} of run {run_id!r}")
    columns: dict[str, Any] = dict.fromkeys(("advantage", "ratio", "kept", "value"))
    if wanted and found:
        counts = [one.action_count for one in found]
        credit, first = wanted[0].credit, sum(counts[:index])
        if len(credit.advantages) != sum(counts):
            raise CorruptError(
                f"trajectory {trajectory.id}: credit of {len(credit.advantages)} tokens for {sum(counts)}"
            )
        part, mask = slice(first, first + counts[index]), found[index].action_mask
        numbers = {"advantage": credit.advantages, "ratio": credit.ratios, "kept": credit.kept, "value": credit.values}
        columns = {name: None if flat is None else _spread(flat[part], mask) for name, flat in numbers.items()}
    of = updates[entries.index(wanted[0])] if wanted else None
    return {"trajectory_id": trajectory.id, "sequence": index, "updates": updates, "of": of, **columns}


def _sequences(trajectory: Trajectory, index: int) -> list[Sequence]:
    """All of them; raises NotFoundError where none has this number."""
    found = sequences(trajectory)
    if not 0 <= index < max(1, len(found)):
        raise NotFoundError(f"trajectory {trajectory.id[:8]} has {len(found)} sequences, and no number {index}")
    return found


def _spread(flat: np.ndarray, mask: np.ndarray) -> list[Any]:
    """Numbers of action tokens at their places, to four digits; null elsewhere."""
    values: list[Any] = [None] * len(mask)
    kinds = flat.astype(int).tolist() if flat.dtype == bool else [float(f"{one:.4g}") for one in flat.tolist()]
    for place, value in zip(np.flatnonzero(mask).tolist(), kinds, strict=True):
        values[place] = value
    return values


def dumps(columns: dict[str, Any]) -> bytes:
    return orjson.dumps(columns, option=orjson.OPT_NON_STR_KEYS)
