"""Re-scoring: the logprobs of a trajectory, computed again from its token ids by teacher forcing.

With the weights that sampled it, the gap to what was recorded measures how exact the record is; with other weights it
is the log importance ratio a trainer would see. The forward pass is transformers' own and shares nothing with the
engine that sampled, so agreement is evidence. Sampling parameters are applied as they were recorded, call by call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from agentgym.errors import InputError
from agentgym.models import ModelNotFound, load_causal_lm, resolve
from agentgym.store import Sequence, Trajectory
from agentgym.store.records import Float32Array, Int32Array, PolicyKind
from agentgym.store.sequences import sequences
from harness.policies.sampling import recompute

_ROWS = 2048
"""Rows of logits held at once: 400 MB for a vocabulary of 49k in fp32."""


@dataclass(frozen=True, slots=True, eq=False)
class RescoreReport:
    """Recorded and recomputed logprobs, arrays of length N over the compared action tokens, in order.

    token_ids: int32. call_index: int32, the call that sampled the token. recorded, recomputed: float32 nats.
    skipped: action tokens of other policy versions than the one asked for.
    """

    trajectory_id: str
    token_ids: Int32Array
    call_index: Int32Array
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


class Rescorer:
    """Holds one model, to score many trajectories with it."""

    def __init__(self, model: str | Path, *, dtype: str = "float32", device: str = "cpu") -> None:
        path = resolve(str(model))
        if isinstance(path, str):
            raise ModelNotFound(f"{path} is a server", hint="re-scoring needs the checkpoint's directory")
        loaded = load_causal_lm(path, dtype=getattr(torch, dtype))
        self._model = loaded.to(torch.device(device)).eval()  # type: ignore[arg-type]

    def score(self, trajectory: Trajectory, *, version: int | None = None) -> RescoreReport:
        """Compare all action tokens, or those that policy `version` sampled. Raises InputError for a script's."""
        if trajectory.policy_kind is not PolicyKind.MODEL:
            raise InputError(f"trajectory {trajectory.id[:8]} was played from a script: there is nothing to re-score")
        parts = [self._sequence(sequence, trajectory, version) for sequence in sequences(trajectory)]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else _NOTHING
        token_ids, call_index, recorded, recomputed = columns
        total = sum(len(call.generation_token_ids) for call in trajectory.calls)
        return RescoreReport(trajectory.id, token_ids, call_index, recorded, recomputed, skipped=total - len(token_ids))

    def _sequence(
        self, sequence: Sequence, trajectory: Trajectory, version: int | None
    ) -> tuple[Int32Array, Int32Array, Float32Array, Float32Array]:
        wanted = sequence.action_mask & (True if version is None else sequence.policy_version == version)
        positions = np.flatnonzero(wanted)
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
        return (
            sequence.token_ids[positions],
            sequence.call_index[positions],
            sequence.logprobs[positions],
            recomputed,
        )

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


_NOTHING = [
    np.zeros(0, np.int32),
    np.zeros(0, np.int32),
    np.zeros(0, np.float32),
    np.zeros(0, np.float32),
]


def rescore(trajectory: Trajectory, model: str | Path, *, version: int | None = None) -> RescoreReport:
    """Load `model` (name or directory) in fp32 and score one trajectory with it; see `Rescorer`."""
    return Rescorer(model).score(trajectory, version=version)
