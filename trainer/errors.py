"""The boundaries at which training can fail; see `agentgym.errors` for the convention."""

from __future__ import annotations

from agentgym.errors import AgentGymError, InputError


class TrainConfigError(InputError):
    """A config that would train something other than what its author means."""


class ModelError(InputError):
    """A directory that does not hold a causal language model this trainer can score exactly."""


class EvidenceError(AgentGymError):
    """The store holds nothing a step could learn from."""


class CheckpointError(AgentGymError):
    """A checkpoint is incomplete, altered, or of another run."""


class DivergenceError(AgentGymError):
    """A loss or gradient is not finite; the step was not taken."""


class TransferError(AgentGymError):
    """Weights did not get to the server's workers whole."""
