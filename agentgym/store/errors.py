"""What can go wrong between a record and its place in the store."""

from __future__ import annotations

from agentgym.errors import AgentGymError, InputError, MachineError


class StoreError(AgentGymError):
    """The store could not do what was asked; nothing was half-written."""


class StoreNotFoundError(StoreError, InputError):
    """What the user named is no store: a missing file, a directory, a file of something else."""

    exit_code = InputError.exit_code


class StoreMissingError(StoreNotFoundError):
    """There is nothing at this path (yet)."""


class StoreUnusableError(StoreError, MachineError):
    """It may be a store, but not for this machine as it is: no space, no permission, no server, a newer schema."""

    exit_code = MachineError.exit_code


class NotFoundError(StoreError, InputError):
    """No trajectory, document or task has this id, or the prefix fits several."""

    exit_code = InputError.exit_code


class TakenError(StoreError):
    """The id belongs to a different trajectory already; that one is as it was."""


class CorruptError(StoreError):
    """Stored bytes are not what was written: a checksum, a length or an invariant fails. Other rows are unaffected."""


class InvalidTrajectoryError(StoreError):
    """The trajectory breaks the data contract and was refused before anything was written. `faults` lists every one."""

    def __init__(self, trajectory_id: str, faults: list[str]) -> None:
        shown = "; ".join(faults[:5]) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")
        super().__init__(f"trajectory {trajectory_id} breaks the data contract: {shown}")
        self.faults = faults
