"""What validation measured limits what comes after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.cli.shared import usable
from agentgym.tasks import Registry, ValidationReport, load_task
from agentgym.tasks.measured import FLOOR_MB, with_measured_limits
from agentgym.tasks.report import Measured


def report(task, **changes) -> ValidationReport:
    fields = {
        "task_id": task.id, "task_digest": task.digest, "environment_digest": "sha256:e", "backend": "docker",
        "status": "valid", "measured": Measured(seconds=4.0, peak_memory_mb=60.0, memory_mb=256, verifier_timeout_s=30.0),
    }  # fmt: skip
    return ValidationReport(**{**fields, **changes})


@pytest.fixture
def task(directory):
    task = load_task(directory)
    return replace(task, limits=replace(task.limits, memory_mb=2048), verifier_timeout_s=300.0)


def test_memory_shrinks_to_what_was_measured_but_leaves_an_agent_room(task):
    large = Measured(memory_mb=1216, verifier_timeout_s=30.0)

    assert with_measured_limits(task, report(task)).limits == replace(task.limits, memory_mb=FLOOR_MB)
    assert with_measured_limits(task, report(task, measured=large)).limits.memory_mb == 1216


def test_memory_never_grows_and_stays_where_nothing_counted_it(task):
    more = report(task, measured=Measured(memory_mb=4096))
    unknown = report(task, measured=Measured(memory_mb=None))
    small = replace(task, limits=replace(task.limits, memory_mb=128))

    assert with_measured_limits(task, more).limits == task.limits
    assert with_measured_limits(task, unknown).limits == task.limits
    assert with_measured_limits(small, report(small)).limits.memory_mb == 128


def test_the_time_of_the_verifier_only_grows(task):
    slow = report(task, measured=Measured(verifier_timeout_s=900.0))

    assert with_measured_limits(task, report(task)).verifier_timeout_s == 300.0
    assert with_measured_limits(task, slow).verifier_timeout_s == 900.0


def test_only_a_valid_verdict_on_this_very_version_counts(task):
    assert with_measured_limits(task, None) == task
    assert with_measured_limits(task, report(task, status="error")) == task
    assert with_measured_limits(task, report(task, task_digest="sha256:other")) == task


def test_what_is_rolled_out_has_these_limits(directory, tmp_path):
    registry = Registry(tmp_path / "store.db")
    registered = load_task(directory)
    registry.register(registered)
    registry.set_validation(report(registered))

    (found,) = usable([registered.id], registry, split="all", any_status=False)

    assert found.limits.memory_mb == min(registered.limits.memory_mb, FLOOR_MB) < 2048
    assert found.digest == registered.digest
