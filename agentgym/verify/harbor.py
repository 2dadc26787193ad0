"""Tasks whose tests are a script: Harbor's `tests/test.sh`, which writes `/logs/verifier/reward.txt` or
`reward.json`.

The script runs in a fresh sandbox after the patch was applied, with `tests/` at `/tests`, as Harbor does it. Its
verdict is a file at a known path, so a solution that the script executes could write it; what is guarded is that
nothing is there before the script starts and that only the script's own end, with everything it started dead, makes
it count.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from agentgym.sandbox.protocol import FileError, ImageError, Sandbox
from agentgym.tasks.model import Task
from agentgym.verify.grade import Grade
from agentgym.verify.prepare import Workspace, lay

REWARDS = "/logs/verifier"


async def grade_by_script(sandbox: Sandbox, task: Task, workspace: Workspace) -> Grade:
    """Run `bash /tests/test.sh` and read its reward file."""
    await lay(sandbox, task, workspace, {})
    made = await sandbox.exec(
        f"mkdir -p {REWARDS} /logs/agent /logs/artifacts /tests && find {REWARDS} /tests -mindepth 1 -delete",
        timeout=30.0,
    )
    if made.exit_code != 0:
        raise ImageError(
            f"task {task.id}: its image does not let its user make /logs and /tests: {made.text.strip()}",
            hint="in the Dockerfile: RUN mkdir -p /logs /tests /solution && chmod 777 /logs /tests /solution",
        )
    await sandbox.upload(task.root / "tests", "/tests")
    result = await sandbox.exec(
        "exec bash /tests/test.sh", timeout=task.verifier_timeout_s, cwd=task.workdir, env=dict(task.test_env)
    )
    log = result.text[-20_000:]
    if result.timed_out:
        why = f"tests/test.sh did not end within {task.verifier_timeout_s:g} s"
        return Grade(reward=None, error=why, log=log, notes=workspace.notes)
    vector = await _read_rewards(sandbox)
    if vector is None:
        why = f"tests/test.sh ended with exit code {result.exit_code} and left no readable reward file in {REWARDS}"
        return Grade(reward=None, error=why, log=log, notes=workspace.notes)
    reward = vector.get("reward", min(vector.values()))
    reward = min(1.0, max(0.0, reward)) if task.reward == "fraction" else float(reward >= 1.0)
    return Grade(reward=reward, vector=dict(vector), log=log, notes=workspace.notes, judge="reward file")


async def _read_rewards(sandbox: Sandbox) -> Mapping[str, float] | None:
    """reward.json (name -> number) if there is one, else reward.txt (one number); None where neither can be read."""
    for name in ("reward.json", "reward.txt"):
        try:
            raw = await sandbox.read_file(f"{REWARDS}/{name}", max_bytes=100_000)
        except FileError:
            continue
        try:
            parsed = json.loads(raw)
            vector = parsed if isinstance(parsed, dict) else {"reward": parsed}
            numbers = {k: float(v) for k, v in vector.items() if isinstance(v, (int, float)) and math.isfinite(v)}
        except (ValueError, OverflowError, RecursionError):  # the task's own script wrote it
            return None
        return numbers if numbers and len(numbers) == len(vector) else None
    return None
