"""Given a policy that cheats instead of solving the task, when its work is graded, then it earns nothing.

Each file of `attacks/` acts in a live sandbox of a task through `attack(sandbox)`: of the tutorial, or of the one it names in
`TASK` ("node": Node's runner, "junit" and "tap": other runners, whose report is all there is). What it leaves is extracted
and graded like any episode's work. `SLOW` marks those that run into per-test limits; they are graded with short ones.
All are started together, a few at a time, since most of their time is spent waiting for sandboxes.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest
import pytest_asyncio

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks import Task
from agentgym.verify import Grade, Patch, extract_patch, grade

pytestmark = pytest.mark.asyncio(loop_scope="session")

ATTACKS = sorted(Path(__file__).with_name("attacks").glob("*.py"))
AT_ONCE = 4


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"attack_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Outcome:
    patch: Patch
    grade: Grade


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def outcomes(
    request: pytest.FixtureRequest, tasks: dict[str, Task], backend: SandboxBackend
) -> AsyncIterator[dict[str, asyncio.Task[Outcome]]]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def run(path: Path) -> Outcome:
        module = load(path)
        slow, chosen = getattr(module, "SLOW", False), tasks[getattr(module, "TASK", "tutorial")]
        task = replace(chosen, verifier_timeout_s=30.0 if slow else 90.0, limits=replace(chosen.limits, memory_mb=400))
        async with gate:
            image = await backend.ensure_image(task.image)
            sandbox = await backend.start(image, task.limits)
            try:
                await module.attack(sandbox)
                patch = await extract_patch(sandbox, task, backend=backend)
            finally:
                await sandbox.close()
            return Outcome(patch, await grade(task, patch, backend, image=image))

    chosen = {item.callspec.params.get("path") for item in request.session.items if hasattr(item, "callspec")} & set(
        ATTACKS
    )
    started = {path.stem: asyncio.ensure_future(run(path)) for path in sorted(chosen)}
    yield started
    for future in started.values():
        future.cancel()
    await asyncio.gather(*started.values(), return_exceptions=True)


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
async def test_cheating_earns_nothing(path: Path, outcomes: dict[str, asyncio.Task[Outcome]]) -> None:
    outcome = await outcomes[path.stem]

    assert outcome.grade.reward in (0.0, None), outcome.grade.notes
    print(path.stem, outcome.grade.reward, outcome.grade.vector, outcome.grade.error, outcome.grade.notes)
