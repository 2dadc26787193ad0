"""What a learner eats: sequences derived from calls, exact to the token.

Calls are merged while call k+1's prompt starts with call k's prompt + generation; where it does not (compaction, a
rewrite, a retry after an abort), a new sequence begins. Therefore

- every generated token is an action token of exactly one sequence, with its own logprob and policy version: where a
  later sequence shares a prefix with an earlier one, the shared tokens are context there and not trainable again;
- the prefix of an action token in its sequence is exactly the prompt recorded for it (plus what the call had sampled
  so far).

Nothing here looks at text. A segment without any generated token teaches nothing and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from agentgym.store.layout import TokenLayout, layout_of
from agentgym.store.records import Float32Array, Int32Array, Termination, Trajectory

BoolArray = npt.NDArray[np.bool_]
_DType = TypeVar("_DType", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One merged stretch of a trajectory; arrays have length T and must not be written to.

    token_ids: int32. action_mask: bool, True where the policy sampled the token.
    logprobs: float32 nats of the behaviour policy, 0 where not an action.
    policy_version: int32, the version that sampled the token, -1 where not an action.
    call_index: int32, the call that sampled an action token; for any other token the first call of this sequence that
    saw it.
    temperature: float32, the temperature of call `call_index` (`logprobs` are those of the tempered distribution).
    reward, termination: the trajectory's. index: position among the trajectory's sequences, in the order of its calls.
    """

    trajectory_id: str
    index: int
    token_ids: Int32Array
    action_mask: BoolArray
    logprobs: Float32Array
    policy_version: Int32Array
    call_index: Int32Array
    temperature: Float32Array
    reward: float | None
    termination: Termination

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def action_count(self) -> int:
        return int(np.count_nonzero(self.action_mask))


def sequences(trajectory: Trajectory) -> list[Sequence]:
    """The sequences of a trajectory, in the order of its calls."""
    return sequences_of_layout(
        layout_of(trajectory.calls),
        trajectory_id=trajectory.id,
        reward=trajectory.reward,
        termination=trajectory.termination,
    )


def sequences_of_layout(
    layout: TokenLayout, *, trajectory_id: str, reward: float | None, termination: Termination
) -> list[Sequence]:
    """The same from the stored layout, which costs no prompt comparison."""
    own = layout.suffix + layout.generated
    lengths = np.stack([layout.suffix, layout.generated], axis=1).ravel()
    mask = np.repeat(np.tile(np.array([False, True]), layout.calls), lengths)
    call_index = np.repeat(np.arange(layout.calls, dtype=np.int32), own)
    temperature = np.repeat(layout.temperature.astype(np.float32), own)
    actions = np.flatnonzero(mask)
    logprobs = np.zeros(len(mask), np.float32)
    logprobs[actions] = layout.logprobs
    version = np.full(len(mask), -1, np.int32)
    version[actions] = np.repeat(layout.span_version.astype(np.int32), layout.span_length)

    found: list[Sequence] = []
    for first, last, start, tokens in layout.segment_tokens():
        if not layout.generated[first:last].any():
            continue
        part = slice(start, start + int(own[first:last].sum()))
        prefix = int(layout.shared[first])
        found.append(
            Sequence(
                trajectory_id=trajectory_id,
                index=len(found),
                token_ids=tokens,
                action_mask=_prepend(prefix, False, mask[part]),
                logprobs=_prepend(prefix, 0.0, logprobs[part]),
                policy_version=_prepend(prefix, -1, version[part]),
                call_index=_prepend(prefix, first, call_index[part]),
                temperature=_prepend(prefix, float(layout.temperature[first]), temperature[part]),
                reward=reward,
                termination=termination,
            )
        )
    return found


def _prepend(count: int, value: float, array: npt.NDArray[_DType]) -> npt.NDArray[_DType]:
    """`array` with `count` times `value` before it; `array` itself where there is nothing to add."""
    return np.concatenate([np.full(count, value, array.dtype), array]) if count else array
