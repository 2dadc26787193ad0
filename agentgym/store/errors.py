"""What can go wrong between a record and its place in the store."""

from __future__ import annotations

from agentgym.errors import AgentGymError


class StoreError(AgentGymError):
    """The store could not do what was asked; nothing was half-written."""


class NotFoundError(StoreError):
    """No trajectory, document or task has this id, or the prefix fits several."""


class CorruptError(StoreError):
    """Stored bytes are not what was written: a checksum, a length or an invariant fails. Other rows are unaffected."""


class InvalidTrajectoryError(StoreError):
    """The trajectory breaks the data contract and was refused before anything was written. `faults` lists every one."""

    def __init__(self, trajectory_id: str, faults: list[str]) -> None:
        shown = "; ".join(faults[:5]) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")
        super().__init__(f"trajectory {trajectory_id} breaks the data contract: {shown}")
        self.faults = faults
