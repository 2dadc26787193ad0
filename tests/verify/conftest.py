"""The tutorial task and a real backend: every test of this room judges work that happened in a live sandbox."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agentgym.sandbox import open_backend
from agentgym.sandbox.protocol import BackendUnavailable, Image, SandboxBackend
from agentgym.tasks import Task, load_task
from agentgym.tasks.toml import table

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tutorial() -> Task:
    return load_task(REPOSITORY / "environments" / "tutorial-duration")


TAP_RUNNER = """\
# A runner of our own, as small as one can be: functions that begin with test_, one line each.
import sys, traceback, unittest.mock
sys.path.insert(0, ".")
lines = []
for name in sys.argv[2:]:
    module = {}
    exec(compile(open(name).read(), name, "exec"), module)
    for test in [value for key, value in list(module.items()) if key.startswith("test_")]:
        try:
            test()
            lines.append(f"ok {len(lines) + 1} - {test.__name__}")
        except Exception:
            traceback.print_exc()
            lines.append(f"not ok {len(lines) + 1} - {test.__name__}")
open(sys.argv[1], "w").write("\\n".join([*lines, f"1..{len(lines)}", ""]))
sys.exit(any(line.startswith("not") for line in lines))
"""
PLAIN_TESTS = """\
from stopwatch.format import format_duration

def test_zero():
    assert format_duration(0) == "0:01"

def test_minutes():
    assert format_duration(600) == "10:00"

def test_seconds():
    assert format_duration(59) == "0:59"

def test_rounding():
    assert format_duration(61) == "1:00"
"""
"""The first and the last of them must fail, whatever the solution is."""


def other_runner(root: Path, judge: str) -> Task:
    """The tutorial, judged by a report of another runner; the image stays the same."""
    shutil.copytree(REPOSITORY / "environments/tutorial-duration", root)
    (root / "tests/hidden/tests/test_plain.py").write_text(PLAIN_TESTS)
    (root / "tests/hidden/tests/run_tap.py").write_text(TAP_RUNNER)
    commands = {
        "tap": (["python3", "tests/run_tap.py", "{report}", "tests/test_plain.py"], ""),
        "junit": (
            ["python3", "-m", "pytest", "-q", "--junitxml={report}", "tests/test_plain.py"],
            "tests.test_plain::",
        ),
    }
    command, prefix = commands[judge]
    manifest = tomllib.loads((root / "task.toml").read_text())
    ours = manifest.pop("agentgym") | {
        "judge": judge,
        "test_command": command,
        "fail_to_pass": [f"{prefix}test_minutes"],
        "pass_to_pass": [f"{prefix}test_seconds"],
        "canaries": [f"{prefix}test_zero", f"{prefix}test_rounding"],
    }
    tables = {**manifest, "agentgym": {k: v for k, v in ours.items() if not isinstance(v, dict)},
              **{f"agentgym.{k}": v for k, v in ours.items() if isinstance(v, dict)}}  # fmt: skip
    version = f'schema_version = "{tables.pop("schema_version")}"\n'
    (root / "task.toml").write_text("\n".join([version, *(table(name, keys) for name, keys in tables.items())]))
    return load_task(root)


@pytest.fixture(scope="session")
def tasks(tutorial: Task, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Task]:
    """The same small problem under every kind of judge."""
    others = {judge: other_runner(tmp_path_factory.mktemp(judge) / "tutorial", judge) for judge in ("junit", "tap")}
    return {"tutorial": tutorial, "node": load_task(REPOSITORY / "environments/tutorial-node-duration"), **others}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backend() -> AsyncIterator[SandboxBackend]:
    try:
        opened = await open_backend("auto", owner="tests/verify")
    except BackendUnavailable as error:
        pytest.skip(f"no sandbox backend on this machine: {error}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def image(backend: SandboxBackend, tutorial: Task) -> Image:
    return await backend.ensure_image(tutorial.image)
