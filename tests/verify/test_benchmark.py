"""A row of SWE-bench, from import to reward, with swebench's own specification and log parser.

The git host is not asked: a small repository of our own, under the name of one that swebench knows, stands in for it. Its row
has the irregularities of real ones: lists as JSON strings, an id cut at its first blank, unicode in an id, null hints, CRLF,
another commit for the environment, a test patch that adds, edits and moves files.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox.protocol import SandboxBackend
from agentgym.tasks import Task, load_task
from agentgym.tasks.importers import import_rows
from agentgym.tasks.swebench import MissingPackage, package
from agentgym.tasks.validation import validate
from agentgym.verify import Patch, grade
from agentgym.verify.log_run import between

in_session = pytest.mark.asyncio(loop_scope="session")

BASE = {
    "requirements/dev.txt": "-r tests.txt\n-e .\n# tools\n",
    "requirements/tests.txt": "pytest==8.4.2\n",
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "flask"\nversion = "2.3.0"\n[tool.setuptools]\npackages = ["flask"]\npackage-dir = {"" = "src"}\n',
    "src/flask/__init__.py": 'def join(*parts):\n    return "/".join(parts)\n\n\ndef title(text):\n    return text.upper()\n',
    "tests/test_join.py": 'import flask\n\n\ndef test_join():\n    assert flask.join("a", "b") == "a/b"\n',
    "tests/old_title.py": 'import flask\n\n\ndef test_title():\n    assert flask.title("ab") == "AB"\n',
}
FIX = {
    "src/flask/__init__.py": 'def join(*parts):\n    return "/".join(filter(None, parts))\n\n\ndef title(text):\n'
    "    return text.capitalize()\n",
    "tests/test_join.py": 'import flask\nimport pytest\n\n\ndef test_join():\n    assert flask.join("a", "b") == "a/b"\n\n\n'
    '@pytest.mark.parametrize("middle", ["", None], ids=["no text", "ü"])\ndef test_gap(middle):\n'
    '    assert flask.join("a", middle, "b") == "a/b"\n',
    "tests/test_title.py": 'import flask\n\n\ndef test_title():\n    assert flask.title("ab") == "Ab"\n',
}


def git(repository: Path, *arguments: str) -> str:
    identity = {"GIT_AUTHOR_DATE": "2023-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2023-01-01T00:00:00Z"}
    command = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **identity}).stdout


def commit(repository: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "a commit")
    return git(repository, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Task:
    try:
        package()
    except MissingPackage as error:
        pytest.skip(str(error))
    sources = tmp_path_factory.mktemp("sources")
    repository = sources / "pallets__flask"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    set_up = commit(repository, {**BASE, "tests/test_join.py": "# not there yet\n"})
    git(repository, "tag", "2.3.0")
    base = commit(repository, BASE)
    (repository / "tests/old_title.py").unlink()
    fix = commit(repository, FIX)
    diff = ("diff", "-M20%", "--full-index", base, fix, "--")
    row = {
        "repo": "pallets/flask",
        "instance_id": "pallets__flask-1",
        "base_commit": base,
        "environment_setup_commit": set_up,
        "version": "2.3",
        "patch": git(repository, *diff, "src"),
        "test_patch": git(repository, *diff, "tests"),
        "problem_statement": "Gaps.\r\n\r\nEmpty parts of a path should go away.",
        "hints_text": None,
        "created_at": "2023-01-01T00:00:00Z",
        "FAIL_TO_PASS": json.dumps(["tests/test_join.py::test_gap[no", "tests/test_join.py::test_gap[\\xfc]",
                                    "tests/test_title.py::test_title"]),
        "PASS_TO_PASS": json.dumps(["tests/test_join.py::test_join"]),
    }  # fmt: skip
    file = tmp_path_factory.mktemp("rows") / "rows.json"
    file.write_text(json.dumps([row]))
    report = import_rows("swe-bench", file, tmp_path_factory.mktemp("tasks"), sources=sources)
    assert (report.refused, report.ungraded, report.published) == ((), (), ())
    return load_task(report.written[0])


def test_the_environment_is_the_specification_s(imported: Task) -> None:
    dockerfile = (imported.root / "environment/Dockerfile").read_text()
    run = (imported.root / "tests/run.sh").read_text()

    assert dockerfile.startswith("FROM python:3.11-bookworm\n")
    assert "pip install setuptools==70.0.0 click==8.1.3" in dockerfile
    assert (imported.root / "environment/requirements.txt").read_text() == "pytest==8.4.2\n"  # from the set-up commit
    assert "pip install -e ." in (imported.root / "environment/set-up.sh").read_text()
    assert "\npytest -rA tests/test_join.py tests/test_title.py\n" in run
    assert "git " not in run
    assert imported.material.source.parser == "swebench:pallets/flask"


@in_session
async def test_the_gate_lets_it_through(imported: Task, backend: SandboxBackend) -> None:
    report = await validate(imported, backend, repeats=1)

    assert (report.status, report.reason) == ("valid", "")
    assert report.judge == "stdout"


@in_session
async def test_solved_or_not_and_marked_as_judged_by_the_log(imported: Task, backend: SandboxBackend) -> None:
    solved = await grade(imported, Patch(imported.material.gold_patch()), backend)
    empty = await grade(imported, Patch(b""), backend)

    assert (solved.reward, solved.judge) == (1.0, "stdout"), solved
    assert set(solved.verdicts.values()) == {"passed"}
    assert solved.vector == {"fail_to_pass": 1.0, "pass_to_pass": 1.0}
    assert (empty.reward, empty.vector["pass_to_pass"]) == (0.0, 1.0)
    assert empty.verdicts["tests/test_title.py::test_title"] == "failed"


@in_session
async def test_what_the_solution_does_to_the_tests_is_undone(imported: Task, backend: SandboxBackend) -> None:
    hunk = "--- a/{0}\n+++ b/{0}\n@@ -1,5 +1,2 @@\n-import flask\n-\n-\n-def test_join():\n"
    hunk += '-    assert flask.join("a", "b") == "a/b"\n+def test_join():\n+    pass\n'

    result = await grade(imported, Patch(hunk.format("tests/test_join.py").encode()), backend)

    assert result.reward == 0.0
    assert any("owned by the tests" in note for note in result.notes)


@in_session
async def test_a_run_that_does_not_come_to_its_end_fails(imported: Task, backend: SandboxBackend) -> None:
    source = imported.root / "environment/repo/src/flask/__init__.py"
    code = source.read_text() + "\nimport os\nos.kill(os.getppid(), 9)\n"
    lines = [f"+{line}" for line in code.splitlines()]
    old = [f"-{line}" for line in source.read_text().splitlines()]
    head = f"--- a/src/flask/__init__.py\n+++ b/src/flask/__init__.py\n@@ -1,{len(old)} +1,{len(lines)} @@\n"

    result = await grade(imported, Patch("\n".join([head + old[0], *old[1:], *lines, ""]).encode()), backend)

    assert result.reward == 0.0
    assert any("did not come to their end" in note for note in result.notes)


@in_session
async def test_a_script_that_hangs_is_no_verdict(imported: Task, backend: SandboxBackend) -> None:
    (imported.root / "tests/run.sh").write_text("sleep 600\n")

    result = await grade(replace(imported, verifier_timeout_s=1.0), Patch(b""), backend)

    assert result.reward is None
    assert "did not end within 1 s" in str(result.error)


def test_only_what_stands_between_the_marks_is_read() -> None:
    output = "PASSED a\nM begin\nPASSED b\nM end 0\nPASSED c\nM end 1\n trailer"

    assert between(output, "M") == ("PASSED b\nM end 0\nPASSED c\n", True)
    assert between("M begin\nPASSED b\n", "M") == ("PASSED b\n", False)
