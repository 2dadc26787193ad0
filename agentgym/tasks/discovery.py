"""Find FAIL_TO_PASS and PASS_TO_PASS by running: the grader itself judges every test, with the gold patch and without.

    ids     what pytest collects from the hidden tests on the solved tree
    gold    tests that pass in every repeat with the gold patch
    empty   of those: never passed without it → FAIL_TO_PASS; always passed → PASS_TO_PASS; else unstable, and dropped
    apart   the FAIL_TO_PASS tests without each other: one that passes then had only been spoilt by another's failure (a
            registration left behind, a changed global), and is dropped as unstable too

Going through `agentgym.verify.grade` means that hangs, crashes and lost results mean here what they will mean for a
reward.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym.errors import MachineError
from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.tasks.failures import reasons
from agentgym.tasks.model import Task, TaskError
from agentgym.verify import Grade, Patch, grade

PATIENCE = 3
"""Tests that take this much longer without the solution hang there; running them apart would hang again and again."""

_COLLECTOR = """
import json, os

def pytest_collection_finish(session):
    with open(os.environ["COLLECTED"], "w") as out:
        json.dump(sorted({item.nodeid for item in session.items}), out)
"""


@dataclass(frozen=True, slots=True)
class Discovery:
    """fail_to_pass, pass_to_pass: sorted ids. broken: fail although solved. unstable: disagreed between repeats.

    reasons: FAIL_TO_PASS id → the first line of its failure on the unsolved tree, where the log has it. seconds: one
    graded run.
    """

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    broken: tuple[str, ...] = ()
    unstable: tuple[str, ...] = ()
    reasons: Mapping[str, str] | None = None
    seconds: float = 0.0


async def discover(task: Task, backend: SandboxBackend, *, repeats: int = 2) -> Discovery:
    """Run the hidden tests of `task` (whose own expected ids are ignored); raises TaskError where none can be collected."""
    image = await backend.ensure_image(task.image)
    ids = await _collect(task, backend, image)
    wide = {**task.test_env, "COLUMNS": "250"}  # pytest cuts its one-line summaries to the width of the terminal
    everything = replace(task, fail_to_pass=ids, pass_to_pass=(), test_env=wide)
    solved = [await _judge(everything, task.material.gold_patch(), backend, image) for _ in range(repeats)]
    sound = [test for test in ids if all(_passed(one, test) for one in solved)]
    if not sound:
        raise TaskError(
            f"{task.id}: none of {len(ids)} tests passes with the gold patch: {solved[0].log[-800:].strip()}"
        )
    unsolved = [
        await _judge(replace(everything, fail_to_pass=tuple(sound)), b"", backend, image) for _ in range(repeats)
    ]
    failing = [test for test in sound if not any(_passed(one, test) for one in unsolved)]
    fail_to_pass = tuple(failing)
    if max(one.duration for one in unsolved) < PATIENCE * max(one.duration for one in solved):
        spoilt = await _spoilt(replace(everything, pass_to_pass=()), failing, backend, image)
        fail_to_pass = tuple(test for test in failing if test not in spoilt)
    pass_to_pass = tuple(test for test in sound if all(_passed(one, test) for one in unsolved))
    stable = {*fail_to_pass, *pass_to_pass}
    broken = tuple(test for test in ids if not any(_passed(one, test) for one in solved))
    return Discovery(
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        broken=broken,
        unstable=tuple(test for test in ids if test not in stable and test not in broken),
        reasons=reasons(unsolved[0].log, fail_to_pass),
        seconds=max(one.duration for one in (*solved, *unsolved)),
    )


async def _spoilt(task: Task, failing: Sequence[str], backend: SandboxBackend, image: Image) -> set[str]:
    """Those of the failing tests that pass on the unsolved tree when some of the others do not run."""
    found: set[str] = set()
    for part in apart(failing):
        one = await _judge(replace(task, fail_to_pass=part), b"", backend, image)
        found.update(test for test in part if _passed(one, test))
    return found


def apart(tests: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Parts of the tests such that any two are without each other at least once: halves by each bit of their number."""
    for bit in range(max(0, len(tests) - 1).bit_length()):
        for value in (0, 1):
            yield tuple(test for number, test in enumerate(tests) if number >> bit & 1 == value)


def _passed(one: Grade, test: str) -> bool:
    return one.verdicts.get(test) == "passed"


async def _judge(task: Task, diff: bytes, backend: SandboxBackend, image: Image) -> Grade:
    result = await grade(task, Patch(diff=diff), backend, image=image)
    if result.reward is None:
        raise MachineError(
            f"{task.id}: the verifier gave no verdict: {result.error}", hint="try again on a quieter machine"
        )
    return result


async def _collect(task: Task, backend: SandboxBackend, image: Image) -> tuple[str, ...]:
    """Test ids on the solved tree. Nothing here is trusted with a verdict: ids that do not exist will not pass."""
    hidden = task.material.hidden_tests()
    modules = sorted(
        path.relative_to(hidden).as_posix()
        for path in hidden.rglob("*.py")
        if path.name.startswith("test_") or path.name.endswith("_test.py") or path.name in ("tests.py", "test.py")
    )
    if not modules:
        raise TaskError(f"{task.id}: the newer release ships no test modules")
    sandbox = await backend.start(image, task.limits)
    try:
        await sandbox.write_file("/tmp/collect/agentgym_collector.py", _COLLECTOR.encode())
        applied = await sandbox.exec(
            "git apply --whitespace=nowarn -", cwd=task.workdir, stdin=task.material.gold_patch()
        )
        if applied.exit_code != 0:
            raise TaskError(f"{task.id}: the gold patch does not apply: {applied.text[-500:]}")
        owned = " ".join(shlex.quote(path) for path in _owned_roots(task))
        await sandbox.exec(f"rm -rf {owned}", cwd=task.workdir)
        await sandbox.upload(hidden, task.workdir)
        command = [*task.test_command, "--collect-only", "-p", "agentgym_collector", *modules]
        result = await sandbox.exec(
            f'PYTHONPATH=/tmp/collect:"$PYTHONPATH" {shlex.join(command)}',
            cwd=task.workdir,
            env={**task.test_env, "COLLECTED": "/tmp/collect/ids.json"},
            timeout=task.verifier_timeout_s,
        )
        found = await sandbox.exec("cat /tmp/collect/ids.json", output_limit=64_000_000)
        ids = tuple(json.loads(found.output)) if found.exit_code == 0 else ()
        if not ids:
            raise TaskError(f"{task.id}: pytest collected nothing: {result.text[-800:].strip()}")
        return ids
    finally:
        await sandbox.close()


def _owned_roots(task: Task) -> list[str]:
    """Test-owned folders and files as plain paths: enough for what `guess_test_paths` writes."""
    return [glob.removesuffix("/**") for glob in task.test_paths if "*" not in glob.removesuffix("/**")]
