"""Where a trajectory went wrong, as far as its record says: for credit that does not blame what came before.

invalid        the first call that could not be carried out (malformed, unknown tool)
failed_edit    the first edit that changed nothing: refused, or ended with an error
broken         the step that undid a solved state (`metadata["broken_at"]`, a step index, where somebody has looked)
"""

from __future__ import annotations

from agentgym.store.records import Step, Trajectory


def marks(trajectory: Trajectory) -> dict[str, int]:
    """Signal → index of the model call from which it holds; absent where it never does."""
    found: dict[str, int] = {}
    for step in trajectory.steps:
        if not step.valid:
            found.setdefault("invalid", step.call_index)
        if "edit" in step.tool and _failed(step):
            found.setdefault("failed_edit", step.call_index)
    broken = trajectory.metadata.get("broken_at")
    if isinstance(broken, int) and 0 <= broken < len(trajectory.steps):
        found["broken"] = trajectory.steps[broken].call_index
    return found


def _failed(step: Step) -> bool:
    return not step.valid or step.exit_code not in (None, 0)
