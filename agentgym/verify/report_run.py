"""Tests of any language: one command that writes a JUnit XML or TAP report, and the exit code that must agree with it.

The report's place is made for this run (a nonce in folder and file name, outside the workspace) and nothing is there
before the command starts. The command's own word is believed only as a whole:

- no report, half a report or one that cannot be read: every expected test failed, whatever the exit code says;
- exit code 0 although a test failed, or another one although none did: the two contradict each other, so neither counts;
- a test that must fail (`canaries` of the manifest, the first and the last to run among them) did not: something has
  made the runner agree with everything;
- an expected test that the report does not have: missing, which is a failure. Ids compare exactly.

The tested code shares a process with most runners, and can forge what that process writes. For pytest that is what our
plugin is for (`pytest_run`), for Node see `node_run`. With any other runner it is what the canaries are for: a solution
cannot tell them from the tests that it fails to pass. That is weaker: one that rewrites some results and guesses right
which ones are canaries earns what it does not deserve. `Grade.judge` says what was believed.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass

from agentgym.sandbox.protocol import ExecResult, FileError, Sandbox
from agentgym.tasks.model import Task
from agentgym.verify.grade import Grade
from agentgym.verify.node_run import is_node, run_node
from agentgym.verify.prepare import Workspace, lay
from agentgym.verify.reports import Report, UnreadableReport, parse_junit, parse_tap
from agentgym.verify.reward import FAILED, MISSING, PASSED, expected_ids, outcome, rewarded

REPORT_BYTES = 32 * 1024 * 1024
PLACE = "{report}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended and what it wrote: None where there is no readable report, then `why` says so."""

    result: ExecResult
    report: Report | None
    why: str = ""


async def grade_by_report(sandbox: Sandbox, task: Task, workspace: Workspace) -> Grade:
    """Run the task's command and judge its report."""
    if is_node(task):
        return judge(task, Ended(*await run_node(sandbox, task, workspace)), workspace.notes, sealed=True)
    await lay(sandbox, task, workspace, {})
    home = f"/tmp/.verify-{secrets.token_hex(16)}"
    path = f"{home}/{secrets.token_hex(16)}.{'xml' if task.judge == 'junit' else 'tap'}"
    argv = [word.replace(PLACE, path) for word in task.test_command]
    result = await sandbox.exec(
        f"mkdir -m 700 {home} && exec {shlex.join(argv)}",
        timeout=task.verifier_timeout_s,
        cwd=task.workdir,
        env=dict(task.test_env),
    )
    return judge(task, await _read(sandbox, task, path, result), workspace.notes)


async def _read(sandbox: Sandbox, task: Task, path: str, result: ExecResult) -> Ended:
    try:
        data = await sandbox.read_file(path, max_bytes=REPORT_BYTES)
        return Ended(result, parse_junit(data) if task.judge == "junit" else parse_tap(data))
    except FileError as error:
        return Ended(result, None, f"no report was written ({error})")
    except UnreadableReport as error:
        return Ended(result, None, str(error))


def judge(task: Task, ended: Ended, notes: tuple[str, ...] = (), *, sealed: bool = False) -> Grade:
    """The grade that a command's end amounts to. sealed: `node_run` has compared report and exit code already."""
    result, report = ended.result, ended.report
    reported = report.verdicts if report else {}
    verdicts = {test: reported.get(test, MISSING) for test in expected_ids(task)}
    log = result.text[-20_000:]
    failed = any(verdict == FAILED for verdict in verdicts.values())
    limit = ""
    if result.timed_out:
        limit = f"the tests did not end within {task.verifier_timeout_s:g} s"
    elif result.oom_killed and outcome(task, verdicts) == 0.0:
        limit = f"the memory limit of {task.limits.memory_mb} MiB killed the tests"
    if limit and not failed:
        return Grade(None, verdicts, error=limit, log=log, notes=notes, judge=task.judge)
    contradiction = _contradiction(task, ended, sealed=sealed)
    if contradiction:
        verdicts = {test: MISSING if verdict == PASSED else verdict for test, verdict in verdicts.items()}
        notes = (*notes, f"not believed: {contradiction}")
    return rewarded(task, verdicts, log=log, notes=notes, judge=task.judge)


def _contradiction(task: Task, ended: Ended, *, sealed: bool) -> str:
    """Why the report is not believed; "" where it is."""
    if ended.report is None:
        return f"exit code {ended.result.exit_code}, and {ended.why}"
    if not ended.report.complete:
        return "the report ends before its plan does"
    for canary in task.canaries:
        if ended.report.verdicts.get(canary) != FAILED:
            return f"{canary!r} must fail, and is reported {ended.report.verdicts.get(canary, MISSING)}"
    order = list(ended.report.verdicts)
    if task.canaries and not {order[0], order[-1]} <= set(task.canaries):
        return "the first and the last test must be canaries: what is between them could be rewritten unseen"
    if not sealed and ended.report.all_good != (ended.result.exit_code == 0):
        words = "no test failed" if ended.report.all_good else "tests failed"
        return f"{words}, and the exit code is {ended.result.exit_code}"
    return ""


__all__ = ["Ended", "grade_by_report", "judge"]
