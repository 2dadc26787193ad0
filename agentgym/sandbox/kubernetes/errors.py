"""What a cluster does to sandboxes, each with its own name, and whether a fresh sandbox may fare better.

Before anything ran (`StartError`): Unschedulable, QuotaFull, ImageUnavailable (an `ImageError`: not retried), Refused (the
cluster's own rules forbid the pod: not retried). While it ran (`SandboxGone`): Evicted, Preempted, NodeLost, OutOfMemory,
LifetimeOver, Deleted. The connection only (`TransportError`, from `protocol`): the pod may live, the command's fate is unknown.
"""

from __future__ import annotations

from agentgym.errors import MachineError
from agentgym.sandbox.protocol import ImageError, SandboxError, SandboxGone, StartError


class ApiError(SandboxError):
    """The API server refused a request. status: HTTP status; reason: Kubernetes' word for it, as in `AlreadyExists`."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"kubernetes: {message or reason} (status {status})")
        self.status = status
        self.reason = reason
        self.message = message


class Unschedulable(StartError):
    """No node took the pod in time: too little room, or a selector that no node fits."""


class QuotaFull(StartError):
    """The namespace's ResourceQuota stayed full."""


class Refused(StartError):
    """The cluster does not permit such a pod: a right is missing, an admission rule or a limit forbids it."""

    retry_safe = False


class ImageUnavailable(ImageError):
    """The node cannot get the image."""


class Evicted(SandboxGone):
    """The node took the pod down for its own sake: disk (also more than its disk limit), memory, pids."""


class Preempted(SandboxGone):
    """The scheduler gave the pod's place to one of higher priority."""


class NodeLost(SandboxGone):
    """The pod's node went away or stopped to answer."""


class OutOfMemory(SandboxGone):
    """The whole sandbox was killed at its memory limit, not just a process in it."""


class LifetimeOver(SandboxGone):
    """The sandbox's time was up."""


class Deleted(SandboxGone):
    """Somebody else deleted the pod: a reaper, an operator, a drain of its node."""


class NetworkLeak(MachineError):
    """The cluster does not keep sandboxes off the network, so code nobody has read will not be run on it."""
