"""What a pod's status says about its sandbox: is it running, is it over, and by whose doing.

Pure functions of the pod as the API gives it. Words that only some versions use stand beside those of the others: a
preemption is `DisruptionTarget` since 1.26, before that only a deletion with an event.
"""

from __future__ import annotations

from typing import Any

from agentgym.sandbox.kubernetes.errors import (
    Deleted,
    Evicted,
    ImageUnavailable,
    LifetimeOver,
    NodeLost,
    OutOfMemory,
    Preempted,
    Refused,
    Unschedulable,
)
from agentgym.sandbox.protocol import SandboxError, SandboxGone, StartError

Thing = dict[str, Any]

CONTAINER = "main"
"""The container of a sandbox's pod."""

_IMAGE_TROUBLE = {"ErrImageNeverPull", "ImageInspectError", "ImagePullBackOff", "InvalidImageName"}
"""Not `ErrImagePull`: that is a first failure, which the node repeats before it says BackOff."""
_CONTAINER_TROUBLE = {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_NODE_GONE = {"NodeLost", "NodeShutdown", "Terminated", "DeletionByTaintManager", "DeletionByPodGC", "Shutdown"}


def running(pod: Thing) -> bool:
    """Its container runs, and nobody has asked for its end."""
    state = _container(pod).get("state") or {}
    return "running" in state and "deletionTimestamp" not in pod["metadata"]


def over(pod: Thing) -> SandboxError | None:
    """Why the sandbox has ended or can no longer be used, None while it can."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if (disruption := _condition(pod, "DisruptionTarget")) and disruption.get("status") == "True":
        reason, message = disruption.get("reason", ""), disruption.get("message", "")
        if reason == "PreemptionByScheduler":
            return Preempted(f"pod {name} was preempted: {message}")
        if reason in _NODE_GONE:
            return NodeLost(f"pod {name} lost its node: {message}")
        return Evicted(f"pod {name} was evicted: {message or reason}")
    reason, message = status.get("reason") or "", status.get("message") or ""
    if reason == "Evicted":
        return Evicted(f"pod {name} was evicted: {message}")
    if reason == "Preempting":
        return Preempted(f"pod {name} was preempted: {message}")
    if reason in _NODE_GONE:
        return NodeLost(f"pod {name} lost its node: {message or reason}")
    if reason == "DeadlineExceeded":
        return LifetimeOver(f"pod {name}: the lifetime of the sandbox is over")
    if (
        status.get("phase") == "Failed" and reason
    ):  # refused by the kubelet: OutOfcpu, NodeAffinity, UnexpectedAdmissionError, …
        return Unschedulable(f"pod {name} was turned away by its node: {reason}: {message}")
    if ended := (_container(pod).get("state") or {}).get("terminated"):
        if ended.get("reason") == "OOMKilled":
            return OutOfMemory(f"pod {name} was killed at its memory limit")
        if ended.get("exitCode") == 0:
            return LifetimeOver(f"pod {name}: the lifetime of the sandbox is over")
        if "deletionTimestamp" not in pod["metadata"]:
            why = f"{ended.get('reason')}, exit code {ended.get('exitCode')} {ended.get('message', '')}".rstrip()
            return SandboxGone(f"pod {name} has ended: {why}")
    if "deletionTimestamp" in pod["metadata"]:
        return Deleted(f"pod {name} is being deleted, and not by its owner")
    return None


def cannot_start(pod: Thing) -> SandboxError | None:
    """Why waiting for this pod is in vain, None while it may still come up. Room for it may still be made: not a reason."""
    name = pod["metadata"]["name"]
    waiting = (_container(pod).get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _IMAGE_TROUBLE:
        return ImageUnavailable(
            f"pod {name}: the node cannot get image {_image(pod)}: {reason}: {message}",
            hint="push it (`agentgym images push`), name its registry in kubernetes.toml, or load it on the nodes",
        )
    if reason in _CONTAINER_TROUBLE:
        return Refused(f"pod {name}: its container cannot be made: {reason}: {message}")
    return over(pod)


def too_late(pod: Thing, seconds: float, said: str) -> SandboxError:
    """The error for a pod that did not come up in time. said: the last events about it."""
    name = pod["metadata"]["name"]
    scheduled = _condition(pod, "PodScheduled") or {}
    if scheduled.get("reason") == "Unschedulable":
        return Unschedulable(
            f"pod {name} found no node in {seconds:.0f} s: {scheduled.get('message')}",
            hint="give the cluster more nodes, run fewer episodes at once, or check node_selector and tolerations",
        )
    return StartError(f"pod {name} did not run after {seconds:.0f} s: {said or 'the cluster does not say why'}")


def gone(pod: Thing, said: str) -> SandboxError:
    """The error for a pod that is no longer there. pod: as last seen. said: the last events about it."""
    name = pod["metadata"]["name"]
    if "Preempted" in said:
        return Preempted(f"pod {name} was preempted: {said}")
    if "TaintManagerEviction" in said or "NodeNotReady" in said:
        return NodeLost(f"pod {name} lost its node: {said}")
    reason = over(pod)
    if reason is not None and not isinstance(reason, Deleted):
        return reason
    return Deleted(f"pod {name} was deleted, and not by its owner" + (f": {said}" if said else ""))


def image_digest(pod: Thing) -> str | None:
    """What the node really runs, as in `sha256:…`; None where it does not say."""
    reference = str(_container(pod).get("imageID") or "")
    return f"sha256:{reference.rpartition('sha256:')[2]}" if "sha256:" in reference else None


def _container(pod: Thing) -> Thing:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status.get("name") == CONTAINER:
            return status
    return {}


def _condition(pod: Thing, kind: str) -> Thing | None:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def _image(pod: Thing) -> str:
    return next((c["image"] for c in pod["spec"]["containers"] if c["name"] == CONTAINER), "?")
