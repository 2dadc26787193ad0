"""The boundaries at which online training can fail; see `agentgym.errors` for the convention."""

from __future__ import annotations

from agentgym.errors import AgentGymError


class RolloutsStalled(AgentGymError):
    """Episodes keep failing for reasons that are not the policy's, or workers keep dying: nothing would be learnt."""
