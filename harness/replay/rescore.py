"""Re-scoring: the logprobs of a trajectory, computed again from its token ids by teacher forcing.

With the weights that sampled it, the gap to what was recorded measures how exact the record is; with other weights it
is the log importance ratio a trainer would see. The forward pass is transformers' own and shares nothing with the
engine that sampled, so agreement is evidence. Sampling parameters are applied as they were recorded, call by call.
`harness.replay.server_rescore` asks a server for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from agentgym.errors import InputError
from agentgym.models import ModelNotFound, load_causal_lm, resolve
from agentgym.store import Sequence, Trajectory
from agentgym.store.records import Float32Array, Int32Array, ModelCall, PolicyKind
from agentgym.store.sequences import sequences
from harness.policies.sampling import recompute

_ROWS = 2048
"""Rows of logits held at once: 400 MB for a vocabulary of 49k in fp32."""


@dataclass(frozen=True, slots=True)
class TokenGap:
    """One sampled token: what was recorded for it, and what is computed now."""

    call_index: int
    position: int
    token_id: int
    recorded: float
    recomputed: float
    gap: float


@dataclass(frozen=True, slots=True, eq=False)
class RescoreReport:
    """Recorded and recomputed logprobs, arrays of length N over the compared action tokens, in order.

    token_ids: int32. call_index: int32, the call that sampled the token; position: int32, its place in what that call
    sampled. recorded, recomputed: float32 nats. skipped: action tokens that were not compared, because of their policy
    version or sampling parameters.
    """

    trajectory_id: str
    token_ids: Int32Array
    call_index: Int32Array
    position: Int32Array
    recorded: Float32Array
    recomputed: Float32Array
    skipped: int = 0

    @property
    def gaps(self) -> npt.NDArray[np.float32]:
        return np.abs(self.recomputed - self.recorded)

    @property
    def max_gap(self) -> float:
        """Largest |recomputed − recorded|, 0 where there is no token to compare."""
        return float(self.gaps.max(initial=0.0))

    @property
    def mean_gap(self) -> float:
        return float(self.gaps.mean()) if len(self.gaps) else 0.0

    def quantile(self, share: float) -> float:
        """The gap that this share of the tokens stays within."""
        return float(np.quantile(self.gaps, share)) if len(self.gaps) else 0.0

    def table(self, rows: int) -> list[TokenGap]:
        """The `rows` tokens with the largest gaps, largest first; all in order where `rows` is negative."""
        gaps = self.gaps
        order = np.arange(len(gaps)) if rows < 0 else np.argsort(-gaps, kind="stable")[:rows]
        return [
            TokenGap(
                call_index=int(self.call_index[i]),
                position=int(self.position[i]),
                token_id=int(self.token_ids[i]),
                recorded=float(self.recorded[i]),
                recomputed=float(self.recomputed[i]),
                gap=float(gaps[i]),
            )
            for i in order.tolist()
        ]


class Rescorer:
    """Holds one model, to score many trajectories with it."""

    def __init__(self, model: str | Path, *, dtype: str = "float32", device: str = "cpu") -> None:
        path = resolve(str(model))
        if isinstance(path, str):
            raise ModelNotFound(f"{path} is a server", hint="harness.replay.server_rescore.ServerRescorer asks it")
        loaded = load_causal_lm(path, dtype=getattr(torch, dtype))
        self._model = loaded.to(torch.device(device)).eval()  # type: ignore[arg-type]

    def score(self, trajectory: Trajectory, *, version: int | None = None) -> RescoreReport:
        """Compare all action tokens, or those that policy `version` sampled. Raises InputError for a script's."""

        def recomputed(sequence: Sequence, positions: npt.NDArray[np.intp]) -> Float32Array:
            return self._sequence(sequence, positions, trajectory)

        return compare_tokens(trajectory, recomputed, version=version)

    def _sequence(self, sequence: Sequence, positions: npt.NDArray[np.intp], trajectory: Trajectory) -> Float32Array:
        recomputed = np.zeros(len(positions), dtype=np.float32)
        done = 0
        for rows, logits in self._logits(sequence.token_ids, positions):
            calls = sequence.call_index[rows]
            for call in np.unique(calls):
                mine = np.flatnonzero(calls == call)
                tokens = torch.from_numpy(sequence.token_ids[rows[mine]].astype(np.int64)).to(logits.device)
                sampling = trajectory.calls[int(call)].sampling
                recomputed[done + mine] = recompute(logits[mine], tokens, sampling).cpu().numpy()
            done += len(rows)
        return recomputed

    @torch.inference_mode()
    def _logits(
        self, token_ids: Int32Array, positions: npt.NDArray[np.intp]
    ) -> Iterator[tuple[npt.NDArray[np.intp], torch.Tensor]]:
        """Chunks of positions with the logits [n, V] that predicted the tokens there."""
        device = self._model.device
        for start in range(0, len(positions), _ROWS):
            rows = positions[start : start + _ROWS]
            ids = torch.from_numpy(token_ids[: rows[-1]].astype(np.int64)).to(device)
            keep = torch.from_numpy(rows - 1).to(device)
            yield rows, self._model(input_ids=ids[None], use_cache=False, logits_to_keep=keep).logits[0]


Recompute = Callable[[Sequence, npt.NDArray[np.intp]], Float32Array]
"""float32[n] logprobs of the tokens at n positions of a sequence, given all tokens before each."""


def compare_tokens(
    trajectory: Trajectory,
    recompute: Recompute,
    *,
    version: int | None = None,
    comparable: Callable[[ModelCall], bool] = lambda call: True,
) -> RescoreReport:
    """Compare the action tokens of `version` (None: of all) in calls that are `comparable`. Raises InputError for a script's.

    A generation that begins its sequence has no context to score it from, so its first token is skipped.
    """
    if trajectory.policy_kind is not PolicyKind.MODEL:
        raise InputError(f"trajectory {trajectory.id[:8]} was played from a script: there is nothing to re-score")
    usable = np.array([comparable(call) for call in trajectory.calls], bool)
    parts: list[tuple[Int32Array, Int32Array, Int32Array, Float32Array, Float32Array]] = []
    for sequence in sequences(trajectory):
        actions = np.flatnonzero(sequence.action_mask)
        calls, first = np.unique(sequence.call_index[actions], return_index=True)
        begins = dict(zip(calls.tolist(), actions[first].tolist(), strict=True))
        wanted = usable[sequence.call_index[actions]] & (actions > 0)
        if version is not None:
            wanted &= sequence.policy_version[actions] == version
        at = actions[wanted]
        if not len(at):
            continue
        call_index = sequence.call_index[at]
        position = at - np.array([begins[call] for call in call_index.tolist()])
        found = recompute(sequence, at)
        parts.append((sequence.token_ids[at], call_index, position.astype(np.int32), sequence.logprobs[at], found))
    kinds = (np.int32, np.int32, np.int32, np.float32, np.float32)
    columns: list[Any] = [
        np.concatenate([np.zeros(0, kind), *(part[i] for part in parts)]) for i, kind in enumerate(kinds)
    ]
    total = sum(len(call.generation_token_ids) for call in trajectory.calls)
    return RescoreReport(trajectory.id, *columns, skipped=total - len(columns[0]))
