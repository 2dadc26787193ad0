"""Node's test runner under our own reporter: as for pytest, results that only the runner can sign.

A TAP task whose command is `node --test ...` is run with `inside/node_guard.mjs` in front: tests and reporter in one process,
what decides frozen, files, children and debuggers limited to what Node's --permission allows (the workspace and /tmp), tests
that must fail among the others. Its lines come over stdout, where tested code may print what it likes: only signed ones in
unbroken order count, and nothing counts without the last. Needs Node 24. `--test-reporter` options of the task's command
are for people who run it themselves; other options stay, also further `--allow-...` ones.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import shlex
from importlib import resources

from agentgym.sandbox.protocol import ExecResult, Sandbox
from agentgym.tasks.model import Task
from agentgym.verify.prepare import Workspace, lay
from agentgym.verify.reports import Report, UnreadableReport
from agentgym.verify.reward import worst
from agentgym.verify.workspace import REGULAR, File

CANARIES = 7
"""Results of `inside/canaries.mjs`, all of them failures."""
OUTPUT_BYTES = 96 * 1024 * 1024
_LINE = re.compile(rb"^([0-9a-f]{64}) (\{.*\})$", re.MULTILINE)


def is_node(task: Task) -> bool:
    return task.judge == "tap" and task.test_command[0].rpartition("/")[2] == "node" and "--test" in task.test_command


async def run_node(sandbox: Sandbox, task: Task, workspace: Workspace) -> tuple[ExecResult, Report | None, str]:
    """(how the command ended, what it reported, why that cannot be used)."""
    home = f"/tmp/verify-{secrets.token_hex(16)}"
    folder = resources.files("agentgym.verify.inside")
    scripts = {name: File(REGULAR, folder.joinpath(name).read_bytes()) for name in ("node_guard.mjs", "canaries.mjs")}
    await lay(sandbox, task, workspace, {f"{home}/{name}": file for name, file in scripts.items()})
    key = secrets.token_bytes(32)
    result = await sandbox.exec(
        f"unset NODE_OPTIONS; exec {shlex.join(command(task, home))}",
        timeout=task.verifier_timeout_s,
        cwd=task.workdir,
        env=dict(task.test_env),
        stdin=key,
        output_limit=OUTPUT_BYTES,
    )
    try:
        report = unseal(result.output, key)
    except UnreadableReport as error:
        return result, None, str(error)
    # The tests that must fail did, so Node itself must say that some failed.
    if result.exit_code != 1 and not result.timed_out:
        return result, None, f"tests failed as they must, and yet the exit code is {result.exit_code}"
    return result, report, ""


def command(task: Task, home: str) -> list[str]:
    node, *options = [word for word in task.test_command if not word.startswith("--test-reporter")]
    guard = f"file://{home}/node_guard.mjs"
    places = [f"--allow-fs-{kind}={place}" for place in (task.workdir, "/tmp") for kind in ("read", "write")]
    ours = ["--permission", *places, f"--import={guard}", "--test-isolation=none", f"--test-reporter={guard}"]
    return [node, *ours, f"--import=file://{home}/canaries.mjs", "--test-reporter-destination=stdout", *options]


def unseal(output: bytes, key: bytes) -> Report:
    """What was signed with the key; raises UnreadableReport where the end is missing or tests that must fail did not."""
    found: dict[str, list[str]] = {}
    number = 0
    for match in _LINE.finditer(output):
        mac, text = match.groups()
        good = hmac.new(key, b"%d " % number + text, hashlib.sha256).hexdigest().encode()
        if not hmac.compare_digest(mac, good):
            continue
        number += 1
        line = json.loads(text)
        if "finish" in line:
            if line["finish"] != CANARIES:
                raise UnreadableReport("tests that must fail did not: something agrees with everything")
            return Report({test: worst(verdicts) for test, verdicts in found.items()})
        found.setdefault(line["id"], []).append(line["verdict"])
    raise UnreadableReport("the signed report has no end")


__all__ = ["command", "is_node", "run_node", "unseal"]
