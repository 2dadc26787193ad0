"""The data contract, checked on a trajectory before it is written and again on everything a store holds.

`faults` returns sentences, one per broken rule, with the value that breaks it; an empty list means a sound trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from agentgym.store.errors import InvalidTrajectoryError
from agentgym.store.kinds import DEEPEST, nested_deeper, wrong_kinds
from agentgym.store.layout import TokenLayout, layout_of
from agentgym.store.records import ContextEvent, ModelCall, Sampling, Step, Trajectory, VersionSpan

LOGPROB_SLACK = 1e-3
"""How far above 0 a logprob may lie: float32 softmax rounding, not a probability above one."""

_COLUMN_TEXT = (
    "id",
    "run_id",
    "group_id",
    "task_id",
    "task_digest",
    "split",
    "harness_digest",
    "backend",
    "image_digest",
    "policy",
    "model",
)
_ARRAYS = (
    ("prompt_token_ids", np.dtype(np.int32)),
    ("generation_token_ids", np.dtype(np.int32)),
    ("logprobs", np.dtype(np.float32)),
)
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_YEAR_10000 = 253_402_300_800


def faults(trajectory: Trajectory, layout: TokenLayout | None = None) -> list[str]:
    """Every way in which a trajectory breaks the data contract. `layout`: that of its calls, if at hand."""
    return _inspect(trajectory, layout)[1]


def sound_layout(trajectory: Trajectory) -> TokenLayout:
    """The layout of a sound trajectory's calls. Raises InvalidTrajectoryError for any other."""
    layout, found = _inspect(trajectory)
    if layout is None or found:
        raise InvalidTrajectoryError(trajectory.id, found)
    return layout


def fits_column(text: str) -> bool:
    """Whether the SQL columns that people query by can hold a text, in every database: no NUL and no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _inspect(trajectory: Trajectory, layout: TokenLayout | None = None) -> tuple[TokenLayout | None, list[str]]:
    """Values are looked at only where every field is of its kind, and tokens only where they have a layout."""
    broken = [*_wrong(trajectory)] or [
        *(f"step {k}: {fault}" for k, step in enumerate(trajectory.steps) for fault in _wrong(step)),
        *(f"call {k}: {fault}" for k, call in enumerate(trajectory.calls) for fault in _call_kinds(call)),
    ]
    if broken:
        return None, broken
    layout = layout or layout_of(trajectory.calls)
    found = [*_record_faults(trajectory), *_step_faults(trajectory)]
    found += [f"call {k}: {fault}" for k, call in enumerate(trajectory.calls) for fault in _sampling_faults(call)]
    return layout, [*found, *_layout_faults(trajectory, layout)]


def _wrong(record: Trajectory | Step | ModelCall | Sampling | VersionSpan) -> Iterator[str]:
    yield from wrong_kinds(type(record), {one.name: getattr(record, one.name) for one in fields(record)})


def _call_kinds(call: ModelCall) -> Iterator[str]:
    if wrong := [*_wrong(call)]:
        yield from wrong
        return
    for name, kind in _ARRAYS:
        array = getattr(call, name)
        if array.ndim != 1 or array.dtype != kind:
            yield f"{name} is not a one-dimensional {kind} array but {array.dtype}{list(array.shape)}"
    yield from _wrong(call.sampling)
    for span in call.policy_versions:
        yield from _wrong(span)
        if not 0 <= span.version <= _INT32_MAX:
            yield f"policy version {span.version} is not between 0 and {_INT32_MAX}"
        if not 0 <= span.start <= span.end <= _INT32_MAX:
            yield f"version span [{span.start}, {span.end}) is none"


def _record_faults(trajectory: Trajectory) -> Iterator[str]:
    if not trajectory.id or len(trajectory.id) > 64:
        yield f"id {trajectory.id!r} is not 1 to 64 characters"
    for name in (*_COLUMN_TEXT, *(["parent_id"] if trajectory.parent_id is not None else [])):
        value = getattr(trajectory, name)
        if not fits_column(value):
            yield f"{name} {value!r} holds NUL or a lone surrogate"
    if nested_deeper(trajectory.metadata, DEEPEST):
        yield f"metadata is nested deeper than {DEEPEST} levels"
    reward = trajectory.reward
    if reward is not None and not math.isfinite(reward):
        yield f"reward is {reward}"
    if reward is not None and trajectory.termination.is_failure:
        yield f"reward {reward} although the episode ended as {trajectory.termination.value}, which is never a verdict"
    if (trajectory.parent_id is None) != (trajectory.branch_step is None):
        yield f"parent_id {trajectory.parent_id!r} and branch_step {trajectory.branch_step!r} must come together"
    if trajectory.parent_id is not None and trajectory.parent_id == trajectory.id:
        yield "it goes on from itself"
    if trajectory.branch_step is not None and not 0 <= trajectory.branch_step <= _INT32_MAX:
        yield f"branch_step {trajectory.branch_step} is not between 0 and {_INT32_MAX}"
    if trajectory.seed is not None and not -_INT64_MAX - 1 <= trajectory.seed <= _INT64_MAX:
        yield f"seed {trajectory.seed} does not fit 64 bits"
    if not _is_date(trajectory.created_at):
        yield f"created_at is {trajectory.created_at}, no time before the year 10000"


def _step_faults(trajectory: Trajectory) -> Iterator[str]:
    for k, step in enumerate(trajectory.steps):
        if not 0 <= step.call_index < len(trajectory.calls):
            yield f"step {k}: call_index {step.call_index}, but there are {len(trajectory.calls)} calls"
        if nested_deeper(step.arguments, DEEPEST):
            yield f"step {k}: arguments are nested deeper than {DEEPEST} levels"


def _sampling_faults(call: ModelCall) -> Iterator[str]:
    count = len(call.generation_token_ids)
    if len(call.logprobs) != count:
        yield f"{len(call.logprobs)} logprobs for {count} generated tokens"
    end = 0
    for span in call.policy_versions:
        if span.start != end:
            yield f"version span [{span.start}, {span.end}) does not continue at token {end}"
        end = span.end
    if end != count:
        yield f"version spans cover {end} of {count} generated tokens"
    sampling = call.sampling
    if sampling.seed is not None and not -_INT64_MAX - 1 <= sampling.seed <= _INT64_MAX:
        yield f"sampling seed {sampling.seed} does not fit 64 bits"
    if not -1 <= sampling.top_k <= _INT32_MAX:
        yield f"top_k {sampling.top_k} is not between -1 and {_INT32_MAX}"
    if not 0 <= sampling.temperature < math.inf:
        yield f"temperature {sampling.temperature} is not a number from 0 on"
    if not 0 <= sampling.top_p <= 1:
        yield f"top_p {sampling.top_p} is not between 0 and 1"
    if not (_is_date(call.started_at) and math.isfinite(call.duration)):
        yield f"it started at {call.started_at} and took {call.duration} s"


def _is_date(seconds: float) -> bool:
    """Unix seconds that a calendar has a date for."""
    return 0 <= seconds < _YEAR_10000


def _layout_faults(trajectory: Trajectory, layout: TokenLayout) -> Iterator[str]:
    if len(layout.stream) and int(layout.stream.min()) < 0:
        yield f"token id {int(layout.stream.min())} is negative"
    wrong = ~(layout.logprobs <= LOGPROB_SLACK) | np.isinf(layout.logprobs)
    if wrong.any():
        yield f"logprob {layout.logprobs[wrong][0]} is not finite and at most 0"
    context, shared = layout.context, layout.shared
    for k in (np.flatnonzero(shared[1:] != context[:-1]) + 1).tolist():
        if trajectory.calls[k].context_event is ContextEvent.APPEND:
            yield (
                f"call {k}: context_event is append, but its prompt leaves the previous prompt + generation "
                f"({context[k - 1]} tokens) at token {shared[k]}; record compacted, truncated or rewritten"
            )
