"""A child of a prefix replay, put back behind the part of its parent that it goes on from.

The child records only its own calls and steps. To run its actions again, to branch off it or to read it as a conversation,
what came before is needed too; the parts are joined exactly where they were cut. The result is for replay alone and is
never stored: its first tokens are the parent's, and would be trained twice.
"""

from __future__ import annotations

from dataclasses import replace

from agentgym.errors import InputError
from agentgym.store import NotFoundError, Store, Trajectory
from agentgym.store.errors import CorruptError
from agentgym.store.records import ContextEvent, first_call_at


def whole(trajectory: Trajectory, store: Store) -> Trajectory:
    """The trajectory with everything before its branch; itself where it has no parent. Raises InputError where a parent is
    not in the store or cannot be read, has not the step that its child hangs on, or the parents are a circle."""
    line = [trajectory]
    while (parent_id := line[-1].parent_id) is not None:
        child = line[-1]
        if any(one.id == parent_id for one in line):
            raise InputError(f"trajectory {trajectory.id[:8]} has no beginning: its parents go round in a circle")
        try:
            line.append(store.get(store.exactly(parent_id).id))
        except NotFoundError:
            raise InputError(
                f"trajectory {child.id[:8]} goes on from {parent_id[:8]}, which is not in this store",
                hint="import its parent first",
            ) from None
        except CorruptError as error:
            raise InputError(f"trajectory {child.id[:8]} goes on from what cannot be read: {error}") from error
        if (child.branch_step or 0) > len(line[-1].steps):
            raise InputError(
                f"trajectory {child.id[:8]} goes on from step {child.branch_step} of {parent_id[:8]}, which has "
                f"{len(line[-1].steps)}"
            )
    joined = line.pop()
    own_steps = len(joined.steps)
    while line:
        child = line.pop()
        joined, own_steps = _behind(joined, own_steps, child), len(child.steps)
    return joined


def _behind(joined: Trajectory, own_steps: int, child: Trajectory) -> Trajectory:
    """The child behind its parent, which is `joined` already; own_steps: how many of the steps are the parent's own."""
    kept = len(joined.steps) - own_steps + (child.branch_step or 0)
    cut = first_call_at(joined, kept)
    calls = list(child.calls)
    if calls and cut:
        event = joined.calls[cut].context_event if cut < len(joined.calls) else ContextEvent.APPEND
        calls[0] = replace(calls[0], context_event=event)
    own = [replace(step, call_index=step.call_index + cut) for step in child.steps]
    steps = (*joined.steps[:kept], *own)
    return replace(child, calls=(*joined.calls[:cut], *calls), steps=steps, parent_id=None, branch_step=None)
