"""`agentgym tasks import|export|mutate`: files in, registered tasks out, and every refusal with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.main import app
from agentgym.errors import InputError
from agentgym.sandbox.protocol import BackendUnavailable

ROW = {
    "instance_id": "own__mod-1",
    "repo": "own/mod",
    "base_commit": "0123456789abcdef",
    "patch": "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-1\n+2\n",
    "test_patch": "",
    "problem_statement": "It breaks.",
    "FAIL_TO_PASS": '["tests/test_m.py::test_a"]',
    "PASS_TO_PASS": "[]",
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTGYM_STORE", str(tmp_path / "store.db"))

    def invoke(*arguments: str):
        return CliRunner().invoke(app, ["tasks", *arguments])

    return invoke


def test_import_registers_rows_and_lists_refusals(run, tmp_path):
    rows = [ROW, {**ROW, "instance_id": "own__mod-2", "patch": ""}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    result = run("import", "swe-bench", "rows.jsonl", "--json")

    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [task["id"] for task in document["tasks"]] == ["own__mod-1"]
    assert [refusal["place"] for refusal in document["refused"]] == ["rows.jsonl:2"]
    listed = json.loads(run("list", "--json").stdout)["tasks"]
    assert next(task for task in listed if task["id"] == "own__mod-1")["status"] == "registered"


def test_a_file_without_a_usable_row_is_an_error(run, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROW, "FAIL_TO_PASS": "[]"}))

    result = run("import", "swe-bench", "rows.jsonl")

    assert isinstance(result.exception, InputError)


def test_export_writes_directories_or_rows(run, tmp_path):
    assert run("export", "tutorial-duration", "--out", "harbor").exit_code == 0
    assert run("export", "tutorial-duration", "--out", "rows.jsonl").exit_code == 0

    assert Path("harbor/tutorial-duration/task.toml").exists()
    row = json.loads(Path("rows.jsonl").read_text())
    assert "3600" in row["patch"]
    assert "test_hours" in row["test_patch"]


def test_a_family_is_written_registered_and_named_by_its_folder(run, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "sums.py").write_text("def total(a, b):\n    return a + b\n\n\ndef less(a, b):\n    return a - b\n")
    tests = ("total(1, 2) == 3", "less(3, 1) == 2", "total(0, 0) == 0")
    lines = [f"def test_{number}():\n    assert {text}\n" for number, text in enumerate(tests)]
    (code / "test_sums.py").write_text("from sums import less, total\n\n\n" + "\n\n".join(lines))

    result = run("mutate", "code", "--n", "2", "--out", "family", "--show", "module", "--json")
    if isinstance(result.exception, BackendUnavailable):
        pytest.skip(f"no sandboxes here: {result.exception}")

    document = json.loads(result.stdout)
    assert document["family"]["tasks"] == {"all": 2}
    assert document["family"]["operators"] == {"arithmetic": 2}
    registered = json.loads(run("register", "family", "--json").stdout)["tasks"]
    assert {task["digest"] for task in registered} == {task["digest"] for task in document["tasks"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mutate", "snippets", "--sets", "tests=3"], "no set of bugs is described by 'tests=3'"),
        (["mutate", "nothing-here", "--n", "3"], "nothing-here"),
        (["rediscover", "--listed", "nothing.json"], "nothing.json is no list of pairs"),
    ],
)
def test_what_cannot_be_made_is_said(run, arguments, message):
    result = run(*arguments)

    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
