"""Tasks and harbor, both ways: harbor's own models read every task of ours, and its own task runs here with its oracle."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from harbor_package import ask_harbor, harbor_folder

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable
from agentgym.tasks import load_task, shipped_tasks
from agentgym.tasks.export import export_harbor
from agentgym.tasks.registry import Registry
from agentgym.tasks.validation import validate

_READ = """
from harbor.models.task.task import Task
found = {}
for place in sys.argv[1:]:
    task = Task(place)
    config = task.config
    found[place] = [task.name, task.instruction, config.agent.timeout_sec, config.verifier.timeout_sec,
                    config.environment.memory_mb, Task.is_valid_dir(place)]
print(json.dumps(found))
"""


def test_harbor_reads_every_shipped_task(tmp_path: Path) -> None:
    tasks = [load_task(root) for root in shipped_tasks()]
    exported = export_harbor(tasks[0], tmp_path)

    found = ask_harbor(_READ, *(task.root for task in tasks), exported)

    assert len(found) == len(tasks) + 1 > 60
    for task in tasks:
        expected = [
            f"agentgym/{task.id}",
            task.instruction,
            task.agent_timeout_s,
            task.verifier_timeout_s,
            task.limits.memory_mb,
            True,
        ]
        assert found[str(task.root)] == expected
    assert found[str(exported)] == found[str(tasks[0].root)]


@pytest.mark.timeout(600)
async def test_harbors_own_task_registers_and_its_oracle_is_rewarded(tmp_path: Path) -> None:
    template = harbor_folder() / "harbor/cli/template-adapter/task-template"
    root = Path(shutil.copytree(template, tmp_path / "harbor-template"))
    # The one thing that is changed: this machine may have no image of Python 3.13.
    dockerfile = root / "environment/Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("python:3.13-slim", "python:3.11-slim-bookworm"))
    try:
        backend = await open_backend("auto", owner="tests/tasks")
    except BackendUnavailable as error:
        pytest.skip(f"no sandbox backend on this machine: {error}")
    try:
        task = load_task(root)
        entry = Registry(tmp_path / "store.db").register(task)
        report = await validate(task, backend, repeats=1)
    finally:
        await backend.close()

    assert entry.status == "registered"
    assert report.gold_rewards == [1.0], report
    assert report.reason == "tests/test.sh rewards no solution at all"  # as the template's script does
