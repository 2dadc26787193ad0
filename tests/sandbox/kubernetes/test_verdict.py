"""What a pod's status means, from statuses as clusters of several versions give them."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.sandbox.kubernetes import verdict
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
from agentgym.sandbox.protocol import SandboxGone, StartError


def pod(status: dict[str, Any], *, deleted: bool = False) -> dict[str, Any]:
    metadata = {"name": "p", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "i:1"}]}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]}


def disruption(reason: str) -> dict[str, Any]:
    return {
        "phase": "Failed",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}],
    }


@pytest.mark.parametrize(
    ("status", "expected", "retry_safe"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on resource: memory"}, Evicted, True),
        ({"phase": "Failed", "reason": "Evicted", "message": "exceeded its local ephemeral storage"}, Evicted, True),
        (disruption("EvictionByEvictionAPI"), Evicted, True),
        ({"phase": "Failed", "reason": "Preempting", "message": "Preempted in order to admit critical pod"}, Preempted, True),
        (disruption("PreemptionByScheduler"), Preempted, True),
        (disruption("DeletionByTaintManager"), NodeLost, True),
        ({"phase": "Running", "reason": "NodeLost", "message": "Node is unresponsive"}, NodeLost, True),
        ({"phase": "Failed", "reason": "NodeShutdown"}, NodeLost, True),
        ({"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node too long"}, LifetimeOver, True),
        ({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}, Unschedulable, True),
        (container(terminated={"exitCode": 137, "reason": "OOMKilled"}), OutOfMemory, True),
        (container(terminated={"exitCode": 0, "reason": "Completed"}), LifetimeOver, True),
        (container(terminated={"exitCode": 1, "reason": "Error"}), SandboxGone, True),
        (container(running={"startedAt": "…"}), None, None),
        ({"phase": "Pending"}, None, None),
    ],
)  # fmt: skip
def test_why_a_sandbox_is_over(status: dict[str, Any], expected: type | None, retry_safe: bool | None):
    error = verdict.over(pod(status))
    assert (type(error) if error else None) is expected
    assert (error.retry_safe if error else None) is retry_safe


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ErrImageNeverPull", ImageUnavailable),
        ("ImagePullBackOff", ImageUnavailable),
        ("InvalidImageName", ImageUnavailable),
        ("CreateContainerConfigError", Refused),
        ("RunContainerError", Refused),
        ("ErrImagePull", None),  # the node tries again
        ("ContainerCreating", None),
    ],
)
def test_why_waiting_is_in_vain(reason: str, expected: type | None):
    error = verdict.cannot_start(pod(container(waiting={"reason": reason, "message": "m"})))
    assert (type(error) if error else None) is expected
    assert error is None or (not error.retry_safe and "m" in str(error))


def test_a_pod_that_somebody_deletes_is_not_running_any_more():
    dying = pod(container(running={}), deleted=True)
    assert not verdict.running(dying)
    assert isinstance(verdict.over(dying), Deleted)


def test_a_late_pod_says_what_the_scheduler_said():
    waiting = pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                                      "message": "0/3 nodes are available: 3 Insufficient cpu."}]})  # fmt: skip
    error = verdict.too_late(waiting, 10, "")
    assert isinstance(error, Unschedulable)
    assert "Insufficient cpu" in str(error)
    assert type(verdict.too_late(pod({"phase": "Pending"}), 10, "FailedMount: no such secret")) is StartError


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Preempted: by default/x on node n", Preempted),
        ("TaintManagerEviction: Marking for deletion", NodeLost),
        ("", Deleted),
    ],
)
def test_a_pod_that_vanished_is_explained_by_the_last_events(said: str, expected: type):
    assert type(verdict.gone(pod(container(running={})), said)) is expected


def test_a_pod_that_vanished_keeps_the_reason_it_had():
    assert isinstance(verdict.gone(pod({"phase": "Failed", "reason": "Evicted"}), ""), Evicted)
