"""Imported benchmarks whose own specification judges by the log: the one place where output decides.

The row's commands run in a fresh sandbox, over the solution and the hidden tests that the host has laid there; what they
print between two marks is read by the benchmark's own package on the host (`agentgym.tasks.swebench`), whose word counts.
The tested code can print what a parser takes for a verdict, so grades made this way say so (`judge = "stdout"`), and a task
of one's own should never be judged like this. What is guarded: the marks are unguessable before the run, the tests must
have come to their end, and a log that holds no test at all is no verdict but a failure of every test.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex

from agentgym.errors import AgentGymError
from agentgym.sandbox.protocol import Sandbox
from agentgym.tasks.model import Task
from agentgym.tasks.sources import BenchmarkMaterial
from agentgym.tasks.swebench.client import PackageFailed, package
from agentgym.tasks.swebench.environment import MARK
from agentgym.verify.grade import Grade
from agentgym.verify.prepare import Workspace, lay
from agentgym.verify.reward import MISSING, expected_ids, rewarded
from agentgym.verify.workspace import REGULAR, File

LOG_BYTES = 32 * 1024 * 1024


async def grade_by_log(sandbox: Sandbox, task: Task, workspace: Workspace) -> Grade:
    """Run the row's script and let its benchmark's parser say what happened. Raises TaskError, MissingPackage."""
    assert isinstance(task.material, BenchmarkMaterial)
    reader = package()
    mark = secrets.token_hex(16)
    place = f"/tmp/.verify-{secrets.token_hex(8)}.sh"
    script = task.material.run_script().replace(MARK, mark)
    await lay(sandbox, task, workspace, {place: File(REGULAR, script.encode("utf-8", "surrogatepass"))})
    result = await sandbox.exec(
        f"exec bash {shlex.quote(place)} 2>&1",
        timeout=task.verifier_timeout_s,
        cwd=task.workdir,
        env=dict(task.test_env),
        output_limit=LOG_BYTES,
    )
    output = result.output.decode("utf-8", errors="replace")
    tail = result.text[-20_000:]
    if result.timed_out:
        why = f"the benchmark's script did not end within {task.verifier_timeout_s:g} s"
        return Grade(reward=None, error=why, log=tail, notes=workspace.notes, judge="stdout")
    log, ended = between(output, mark)
    notes = (*workspace.notes, "judged by the benchmark's own reading of the test log")
    if not ended:
        verdicts = dict.fromkeys(expected_ids(task), MISSING)
        why = f"the tests did not come to their end: exit code {result.exit_code}"
        return rewarded(task, verdicts, log=tail, notes=(*notes, why), judge="stdout")
    try:
        read = await asyncio.to_thread(
            reader.read, task.material.source.parser, log, task.fail_to_pass, task.pass_to_pass
        )
    except PackageFailed as error:
        return Grade(reward=None, error=str(error), log=tail, notes=notes, judge="stdout")
    except AgentGymError as error:
        raise type(error)(f"task {task.id}: {error}") from error
    return rewarded(task, read.verdicts, log=tail, notes=notes, judge="stdout")


def between(output: str, mark: str) -> tuple[str, bool]:
    """(what stands between the marks, whether the end mark was there)."""
    _, _, rest = output.partition(f"{mark} begin\n")
    log, found, _ = rest.rpartition(f"{mark} end ")
    return (log, True) if found else (rest, False)


__all__ = ["between", "grade_by_log"]
