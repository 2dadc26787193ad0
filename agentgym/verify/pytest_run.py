"""Run the expected tests under our supervisor and turn what it signed into verdicts.

Two keys, two boundaries. The host gives the supervisor (`inside/supervisor.py`) a key over stdin; the supervisor
gives each test process (`inside/runner.py`) another one through a pipe. The tested code shares a process with the
second only. Verdicts need: the answer signed with the first key and our nonce; no line that failed the second; a
finish line; an exit code equal to the one in it; no canary that passed and no verdict-deciding function that was
replaced. stdout is for people, never for verdicts.

Read as a solution's own fault, hence a verdict: a failing, hanging (per-test limit) or crashing test, a hang while
collecting, a run that ends early. Read as the verifier's: no signed answer (unless it repeats on fresh sandboxes
while the sandbox itself stays well), and the whole-run limit reached with no test failed.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import json
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from agentgym.sandbox.protocol import ExecResult, Sandbox
from agentgym.tasks.model import Task, TaskError
from agentgym.verify.grade import Grade
from agentgym.verify.prepare import Workspace, lay
from agentgym.verify.reward import (
    ERROR,
    FAILED,
    MISSING,
    PASSED,
    expected_ids,
    no_solution,
    outcome,
    rewarded,
    vector_of,
    worst,
)
from agentgym.verify.workspace import REGULAR, File

JUDGE = "plugin"
SCRIPTS = ("supervisor.py", "runner.py", "integrity.py", "honesty.py")
MAX_RUNS = 5
TEST_SECONDS = 60.0
CANARIES = 5
ANSWER_BYTES = 96 * 1024 * 1024
ALWAYS = ("-p", "no:cacheprovider", "--continue-on-collection-errors", "--maxfail=0")
_PRELOAD = ("unittest", "unittest.case", "doctest", "difflib", "traceback", "logging", "threading")


@dataclass(frozen=True, slots=True)
class Command:
    """python: argv of the interpreter. options: pytest's. cwd_on_path: `python -m pytest` puts the workdir on
    sys.path.
    """

    python: tuple[str, ...]
    options: tuple[str, ...]
    cwd_on_path: bool


def parse_command(task: Task, shebang: str) -> Command:
    """`python [flags] -m pytest [options]` or `pytest [options]`; raises TaskError for anything else."""
    argv = task.test_command
    if _names_python(task):
        split = argv.index("-m")
        return Command(argv[:split], argv[split + 2 :], cwd_on_path=True)
    if argv and PurePosixPath(argv[0]).name in ("pytest", "py.test"):
        python = tuple(shlex.split(shebang.removeprefix("#!"))) if shebang.startswith("#!") else ("python3",)
        return Command(python, argv[1:], cwd_on_path=False)
    raise TaskError(
        f"task {task.id}: test_command {list(argv)} is neither `python -m pytest ...` nor `pytest ...`",
        hint="give the task a tests/test.sh that writes a reward file, or a pytest command",
    )


def _names_python(task: Task) -> bool:
    argv = task.test_command
    return "-m" in argv and argv[argv.index("-m") + 1 : argv.index("-m") + 2] == ("pytest",) and "python" in argv[0]


async def grade_by_pytest(sandbox: Sandbox, task: Task, workspace: Workspace, *, order: int, last: bool) -> Grade:
    """Run the expected tests in `sandbox`. order: see `grade`. last: no retry follows, so a repeated silent death is the
    solution's.
    """
    ids = expected_ids(task)
    if not ids:
        raise TaskError(f"task {task.id}: no FAIL_TO_PASS and no PASS_TO_PASS", hint="validate the task first")
    nonce, key = secrets.token_hex(16), secrets.token_bytes(32)
    home = f"/tmp/.verify-{nonce}"
    python_path, command = await _place(sandbox, task, workspace, home)
    budget = task.verifier_timeout_s
    test_seconds = max(3.0, min(TEST_SECONDS, budget / 6))
    orders = {
        "key": key.hex(),
        "nonce": nonce,
        "ids": ids,
        "python": [*command.python, "-B"],
        "runner": f"{home}/runner.py",
        "workdir": task.workdir,
        "env": {**task.test_env, "PYTHONPATH": python_path},
        "test_s": test_seconds,
        "collect_s": test_seconds,
        "budget_s": budget,
        "max_runs": MAX_RUNS,
        "request": {
            "options": [*command.options, *ALWAYS, f"--rootdir={task.workdir}"],
            "cwd_on_path": command.cwd_on_path,
            "local_names": _local_names(workspace, task.workdir, python_path),
            "preload": [*_PRELOAD, *_imported_by(workspace.hidden)],
            "owned_files": [
                path for path in (*workspace.hidden, *workspace.pristine.nodes) if path.endswith("conftest.py")
            ],
            "order": order,
            "allow_gc": _mentions(workspace.hidden, b"gc.get_"),
        },
    }
    start = shlex.join([*command.python, "-I", "-S", "-B", f"{home}/supervisor.py"])
    result = await sandbox.exec(
        f"exec {start}", timeout=budget + 60.0, cwd="/", stdin=json.dumps(orders).encode(), output_limit=ANSWER_BYTES
    )
    answer = _signed_answer(result.output, key, nonce)
    if answer is None:
        return _unanswered(task, result, workspace, last=last)
    return judge(task, answer, workspace.notes, oom_killed=result.oom_killed)


def judge(task: Task, answer: Mapping[str, Any], notes: tuple[str, ...] = (), *, oom_killed: bool = False) -> Grade:
    """The grade that a signed answer of the supervisor amounts to. oom_killed: the memory limit killed something."""
    reports: dict[str, list[str]] = {}
    tampering: list[str] = []
    for run in answer["runs"]:
        for event in run["events"]:
            if event["event"] == "end":
                reports.setdefault(event["id"], []).append(event["verdict"])
        if run["running"] is not None and run["killed"] != "budget":
            reports.setdefault(run["running"], []).append(FAILED if run["killed"] == "test" else ERROR)
        tampering += _tampering(run)
    verdicts = {test: worst(reports[test]) if test in reports else MISSING for test in expected_ids(task)}
    log = "\n".join(run["log"] for run in answer["runs"])[-20_000:]
    vector = vector_of(task, verdicts)
    if tampering:
        notes = (*notes, *(f"tampering: {what}" for what in dict.fromkeys(tampering)))
        return Grade(reward=0.0, verdicts=verdicts, vector=vector, log=log, notes=notes, judge=JUDGE)
    if not any(event["event"] == "open" for run in answer["runs"] for event in run["events"]):
        why = "pytest did not start in the image, before any file of the workspace was read"
        return Grade(reward=None, verdicts=verdicts, vector=vector, error=why, log=log, notes=notes)
    last = answer["runs"][-1] if answer["runs"] else {"killed": "budget"}
    judged_bad = any(verdict not in (PASSED, MISSING) for verdict in verdicts.values())
    if last["killed"] == "budget" and not judged_bad:
        limit = f"the tests did not end within {task.verifier_timeout_s:g} s"
        return Grade(reward=None, verdicts=verdicts, vector=vector, error=limit, log=log, notes=notes)
    if last["killed"] == "collection":
        notes = (*notes, "collecting the tests did not end: the solution hangs when it is imported")
    if oom_killed and not any(verdict == FAILED for verdict in verdicts.values()) and outcome(task, verdicts) == 0.0:
        limit = f"the memory limit of {task.limits.memory_mb} MiB killed the tests before any of them failed"
        return Grade(reward=None, verdicts=verdicts, vector=vector, error=limit, log=log, notes=notes, judge=JUDGE)
    return rewarded(task, verdicts, log=log, notes=notes, judge=JUDGE)


def _tampering(run: Mapping[str, Any]) -> list[str]:
    """Why the verdicts of this run cannot be believed."""
    found = [f"{run['forged']} unsigned or reordered report lines"] if run["forged"] else []
    finish = [event for event in run["events"] if event["event"] == "finish"]
    ends = [event["id"] for event in run["events"] if event["event"] == "end"]
    if len(finish) > 1 or len(ends) != len(set(ends)):
        found.append("a test or the finish was reported twice")
    for event in run["events"][-1:]:
        found += event["tampering"]
    for event in finish:
        if run["code"] != event["code"]:
            found.append(f"exit code {run['code']}, but the runner finished with {event['code']}")
        if event["code"] == 0 and event["canaries"] != CANARIES:
            found.append(f"{event['canaries']} of {CANARIES} canaries were run")
    if not finish and ends and run["running"] is None and run["killed"] is None:
        found.append(f"the test process left with exit code {run['code']} before the run was finished")
    return found


def _unanswered(task: Task, result: ExecResult, workspace: Workspace, *, last: bool) -> Grade:
    what = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
    why = f"the supervisor {what} without a signed answer"
    if last and not result.timed_out and not result.oom_killed:
        # Three fresh sandboxes, each alive enough to run the command, and each time something killed the supervisor.
        return no_solution(task, f"{why} on every attempt: the solution kills it")
    return Grade(reward=None, error=f"{why}: {result.text[-500:]}", log=result.text[-20_000:], notes=workspace.notes)


def _signed_answer(output: bytes, key: bytes, nonce: str) -> dict[str, Any] | None:
    for line in reversed(output.split(b"\n")):
        mac, _, body = line.partition(b" ")
        if len(mac) == 64 and hmac.compare_digest(mac, hmac.new(key, body, hashlib.sha256).hexdigest().encode()):
            answer = json.loads(body)
            return answer if answer["nonce"] == nonce else None
    return None


async def _place(sandbox: Sandbox, task: Task, workspace: Workspace, home: str) -> tuple[str, Command]:
    """Write the workspace and our scripts, and ask for PYTHONPATH as the tests would see it and for the command."""
    folder = resources.files("agentgym.verify.inside")
    scripts = {f"{home}/{name}": File(REGULAR, folder.joinpath(name).read_bytes()) for name in SCRIPTS}
    program = shlex.quote(task.test_command[0])
    ask = 'printf "%s\\n" "$PYTHONPATH"'
    if not _names_python(task):
        ask += f'; head -n 1 "$(command -v {program})" 2>/dev/null | tr -d "\\0"'
    python_path, _, shebang = (await lay(sandbox, task, workspace, scripts, ask)).partition("\n")
    return python_path, parse_command(task, shebang.strip())


def _local_names(workspace: Workspace, workdir: str, python_path: str) -> list[str]:
    """Top-level module names that the image's own workspace offers on `sys.path`: these must not be preloaded from
    elsewhere.
    """
    names: set[str] = set()
    for entry in {"", *python_path.split(":")}:
        try:
            base = PurePosixPath(workdir, entry).relative_to(workdir).as_posix()
        except ValueError:
            continue  # Outside the workspace.
        prefix = "" if base == "." else f"{base}/"
        for path in workspace.pristine.nodes:
            if path.startswith(prefix) and path.endswith((".py", ".so", ".pyi")):
                names.add(path[len(prefix) :].split("/")[0].split(".")[0])
    return sorted(names)


def _imported_by(hidden: Mapping[str, File]) -> list[str]:
    """Modules that the hidden tests import by absolute name."""
    return sorted({name for path, file in hidden.items() if path.endswith(".py") for name in _imports(file.data)})


@lru_cache(maxsize=1024)
def _imports(source: bytes) -> frozenset[str]:
    """Kept, since the tests of a task are the same in every grading and large ones take a second to parse."""
    names: set[str] = set()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()  # Written for another Python; pytest in the image will say so.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            if node.module == "unittest":  # `from unittest import mock` loads a module too, and a large one
                names.update(f"unittest.{alias.name}" for alias in node.names)
    return frozenset(names)


def _mentions(files: Mapping[str, File], text: bytes) -> bool:
    return any(text in file.data for file in files.values())


__all__: Sequence[str] = ("Command", "grade_by_pytest", "judge", "parse_command")
