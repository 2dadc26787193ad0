"""A child of a prefix replay, put back behind the part of its parent that it goes on from.

The child records only its own calls and steps. To run its actions again, to branch off it or to read it as a conversation,
what came before is needed too; the parts are joined exactly where they were cut. The result is for replay alone and is
never stored: its first tokens are the parent's, and would be trained twice.
"""

from __future__ import annotations

from dataclasses import replace

from agentgym.errors import InputError
from agentgym.store import NotFoundError, Store, Trajectory
from agentgym.store.records import ContextEvent


def whole(trajectory: Trajectory, store: Store) -> Trajectory:
    """The trajectory with everything before its branch; itself where it has no parent. Raises InputError where a parent is
    not in the store."""
    if trajectory.parent_id is None or trajectory.branch_step is None:
        return trajectory
    try:
        parent = store.get(trajectory.parent_id)
    except NotFoundError:
        raise InputError(
            f"trajectory {trajectory.id[:8]} goes on from {trajectory.parent_id[:8]}, which is not in this store",
            hint="import its parent first",
        ) from None
    joined = whole(parent, store)
    kept = len(joined.steps) - len(parent.steps) + trajectory.branch_step
    cut = first_call_at(joined, kept)
    calls = list(trajectory.calls)
    if calls and cut:
        event = joined.calls[cut].context_event if cut < len(joined.calls) else ContextEvent.APPEND
        calls[0] = replace(calls[0], context_event=event)
    own = [replace(step, call_index=step.call_index + cut) for step in trajectory.steps]
    steps = (*joined.steps[:kept], *own)
    return replace(trajectory, calls=(*joined.calls[:cut], *calls), steps=steps, parent_id=None, branch_step=None)


def first_call_at(trajectory: Trajectory, step: int) -> int:
    """The call that asked for step `step`, or would have, behind the last one."""
    steps = trajectory.steps
    if step < len(steps):
        return steps[step].call_index
    return steps[-1].call_index + 1 if steps else 0
