"""Proof that a store keeps the data contract, trajectory by trajectory.

The check rebuilds every call's prompt the slow and obvious way (token after token into one buffer), so that it does
not trust the code it checks, and then proves for each trajectory:

- its blobs have the right checksums and lengths, the counts in the columns are those of the blobs, and the other columns,
  tokens, steps, verdicts and all else are those that were recorded together (what was written before there were seals says
  nothing of that, and is counted as unsealed);
- the record obeys the contract (`agentgym.store.validate`): spans cover, events are honest, failures have no reward;
- every generated token is an action token of exactly one sequence, with its own logprob (bit for bit) and version;
- the tokens before a call's first action token are exactly its recorded prompt;
- no other token is trainable, or carries a logprob or a version;
- the trajectory that it goes on from is in the store too, is of the same task, has the step that it hangs on, and was asked
  there what it was asked, or behind its last call ends with what the child goes on from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from agentgym.store.codec import decode_calls, decode_layout
from agentgym.store.detail import is_sealed
from agentgym.store.errors import CorruptError, NotFoundError, StoreError, StoreUnusableError
from agentgym.store.filter import COUNT_FIELDS, RECORD_FIELDS, TrajectoryFilter, TrajectorySummary
from agentgym.store.layout import TokenLayout, shared_prefix
from agentgym.store.records import ContextEvent, Int32Array, ModelCall, first_call_at
from agentgym.store.rows import decode_trajectory
from agentgym.store.sequences import Sequence, sequences_of_layout
from agentgym.store.store import Store
from agentgym.store.validate import faults


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule. trajectory_id: "" where the fault is the database's own."""

    trajectory_id: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was read and what was wrong. tokens: distinct tokens; unsealed: trajectories whose record nothing vouches for
    (see `agentgym.store.detail`); seconds: wall time.
    """

    trajectories: int
    sequences: int
    tokens: int
    action_tokens: int
    unsealed: int
    faults: tuple[Fault, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.faults


def check_store(
    store: Store,
    where: TrajectoryFilter = TrajectoryFilter(),
    *,
    on_progress: Callable[[str], None] = lambda trajectory_id: None,
) -> CheckReport:
    """Check every matching trajectory. `on_progress` is called with each id when it is done."""
    start = time.perf_counter()
    found = [Fault("", message) for message in store.database_faults()]
    trajectories = sequences = tokens = actions = unsealed = 0

    def corrupt(trajectory_id: str, error: CorruptError) -> None:
        found.append(Fault(trajectory_id, str(error)))

    try:
        for summary, token_blob, detail_blob in store.iter_blobs(where, on_corrupt=corrupt):
            trajectories += 1
            try:
                layout = decode_layout(token_blob)
                derived = sequences_of_layout(
                    layout, trajectory_id=summary.id, reward=summary.reward, termination=summary.termination
                )
                messages = list(_trajectory_faults(summary, layout, derived, token_blob, detail_blob))
                sealed = is_sealed(summary, token_blob, detail_blob)
                unsealed += sealed is None
                messages += [_NOT_AS_RECORDED] if sealed is False else []
                sequences += len(derived)
                tokens += len(layout.stream)
                actions += len(layout.logprobs)
            except (CorruptError, TypeError, ValueError) as error:
                messages = [str(error)]
            found += [Fault(str(summary.id), message) for message in messages]
            if summary.parent_id is not None and not messages:
                found += [Fault(summary.id, message) for message in _lineage_faults(store, summary, token_blob)]
            on_progress(summary.id)
    except StoreUnusableError:
        raise
    except StoreError as error:  # a torn page of the table itself: what was found until here is not lost
        found.append(Fault("", f"the rest could not be read: {error.args[0]}"))
    seconds = time.perf_counter() - start
    return CheckReport(trajectories, sequences, tokens, actions, unsealed, tuple(found), seconds)


_NOT_AS_RECORDED = (
    "the columns, the tokens or the detail are not those that were recorded (a blob, or one of "
    f"{', '.join(RECORD_FIELDS)} was changed)"
)


def _trajectory_faults(
    summary: TrajectorySummary, layout: TokenLayout, derived: list[Sequence], token_blob: bytes, detail_blob: bytes
) -> Iterator[str]:
    trajectory = decode_trajectory(summary, token_blob, detail_blob)
    yield from faults(trajectory, layout)
    yield from _count_faults(summary, layout, len(trajectory.steps))
    yield from _sequence_faults(trajectory.calls, layout, derived)


def _count_faults(summary: TrajectorySummary, layout: TokenLayout, steps: int) -> Iterator[str]:
    sampled = layout.span_version[layout.span_length > 0]
    told = {
        "calls": layout.calls,
        "steps": steps,
        "tokens": len(layout.stream),
        "action_tokens": len(layout.logprobs),
        "version_min": int(sampled.min()) if len(sampled) else None,
        "version_max": int(sampled.max()) if len(sampled) else None,
    }
    for name in COUNT_FIELDS:
        if getattr(summary, name) != told[name]:
            yield f"column {name} says {getattr(summary, name)}, the blobs say {told[name]}"


def _lineage_faults(store: Store, child: TrajectorySummary, token_blob: bytes) -> Iterator[str]:
    """How a child does not hang where it says; a parent that cannot be read has a fault of its own."""
    line, above = {child.id}, child.parent_id
    try:
        while above is not None:
            if above in line:
                yield f"its parents go round in a circle, by way of {above}"
                return
            line.add(above)
            above = store.exactly(above).parent_id
        parent = store.get(child.parent_id or "")
        step = child.branch_step or 0
        if step > len(parent.steps):
            yield f"it goes on from step {step} of {parent.id}, which has {len(parent.steps)}"
            return
        while not parent.calls and parent.parent_id is not None:  # it added nothing to its own parent
            parent, step = store.get(parent.parent_id), parent.branch_step or 0
    except NotFoundError:
        yield f"it goes on from {above}, which is not in this store"
        return
    except CorruptError:
        return
    if child.task_digest != parent.task_digest:
        yield f"it goes on from {parent.id}, which is of another task"
    for own in decode_calls(token_blob)[:1]:
        at = first_call_at(parent, step)
        if at < len(parent.calls):
            if not np.array_equal(parent.calls[at].prompt_token_ids, own.prompt_token_ids):
                yield f"its first prompt is not the one that {parent.id} was given at step {step}"
        elif parent.calls and own.context_event is ContextEvent.APPEND:
            last = parent.calls[-1]
            context = len(last.prompt_token_ids) + len(last.generation_token_ids)
            if shared_prefix(own.prompt_token_ids, last) < context:
                yield f"its first prompt does not go on from the last call of {parent.id}, and context_event is append"


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A call's prompt by the definition of the format. displaced: the token of the last context that its suffix took the
    place of, if any. memory: holds it at its start; the next prompt overwrites it.
    """

    memory: bytearray
    length: int
    displaced: int | None

    def equals(self, tokens: Int32Array) -> bool:
        return len(tokens) == self.length and self.memory.startswith(tokens.data)

    def token(self, at: int) -> int | None:
        return int(np.frombuffer(self.memory, np.int32, 1, 4 * at)[0]) if at < self.length else None


def _literal_prompts(layout: TokenLayout) -> Iterator[_Prompt]:
    """Each call's prompt, laid out token by token: keep the shared part of the last context, append the suffix."""
    memory = bytearray(4 * int(layout.context.max(initial=0)))
    context, length, offset = np.frombuffer(memory, np.int32), 0, 0
    for shared, suffix, generated in zip(
        layout.shared.tolist(), layout.suffix.tolist(), layout.generated.tolist(), strict=True
    ):
        displaced = int(context[shared]) if shared < length else None
        length = shared + suffix + generated
        context[shared:length] = layout.stream[offset : offset + suffix + generated]
        offset += suffix + generated
        yield _Prompt(memory, shared + suffix, displaced)


def _sequence_faults(calls: tuple[ModelCall, ...], layout: TokenLayout, derived: list[Sequence]) -> Iterator[str]:
    home: dict[int, tuple[Sequence, int]] = {}
    for sequence in derived:
        positions = np.flatnonzero(sequence.action_mask)
        owners, starts = np.unique(sequence.call_index[positions], return_index=True)
        for call, start in zip(owners.tolist(), positions[starts].tolist(), strict=True):
            if call in home:
                yield f"tokens of call {call} are in two sequences"
            home[call] = (sequence, start)
        idle = ~sequence.action_mask
        if sequence.logprobs[idle].any() or (sequence.policy_version[idle] != -1).any():
            yield f"sequence {sequence.index}: a token that is no action has a logprob or a version"
        expected = sum(len(calls[call].generation_token_ids) for call in owners.tolist())
        if len(positions) != expected:
            yield f"sequence {sequence.index}: {len(positions)} action tokens for {expected} generated ones"
    for k, (call, prompt) in enumerate(zip(calls, _literal_prompts(layout), strict=True)):
        if not prompt.equals(call.prompt_token_ids):
            yield f"call {k}: the decoded prompt is not the stored one"
        shared = int(layout.shared[k])
        if prompt.displaced is not None and prompt.displaced == prompt.token(shared):
            yield f"call {k}: the stored shared prefix of {shared} tokens is not the longest one"
        if not len(call.generation_token_ids):
            continue
        if k not in home:
            yield f"call {k}: its generated tokens are in no sequence"
            continue
        sequence, start = home[k]
        yield from (f"call {k}: {fault}" for fault in _action_faults(call, prompt, sequence, start))


def _action_faults(call: ModelCall, prompt: _Prompt, sequence: Sequence, start: int) -> Iterator[str]:
    """How the action tokens of a call, which begin at `start` of their sequence, are not what it recorded."""
    part = slice(start, start + len(call.generation_token_ids))
    spans = call.policy_versions
    versions = np.repeat(np.array([s.version for s in spans], np.int32), [s.end - s.start for s in spans])
    if not prompt.equals(sequence.token_ids[:start]):
        yield "its prompt is not the prefix of its action tokens"
    if sequence.token_ids[part].tobytes() != call.generation_token_ids.tobytes():
        yield "its tokens are not those it generated"
    if not sequence.action_mask[part].all():
        yield "its action tokens are not contiguous"
    if sequence.logprobs[part].tobytes() != call.logprobs.tobytes():
        yield "its logprobs are not its own"
    if sequence.policy_version[part].tobytes() != versions.tobytes():
        yield "its versions are not its own"
