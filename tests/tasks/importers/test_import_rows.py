"""Every row of a benchmark file becomes a task that keeps it whole, or is refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym.errors import InputError
from agentgym.tasks import TaskError, load_task
from agentgym.tasks.digest import tree_digest
from agentgym.tasks.export import export_harbor, export_swe_bench
from agentgym.tasks.importers import import_rows
from agentgym.tasks.importers.read import UnreadableRows
from agentgym.tasks.importers.rows import RowRefused
from agentgym.tasks.importers.terminal_bench import import_terminal_bench

PATCH = "diff --git a/src/mod.py b/src/mod.py\n--- a/src/mod.py\n+++ b/src/mod.py\n@@ -1 +1 @@\n-old\n+new\n"
TEST_PATCH = PATCH.replace("src/mod.py", "tests/test_mod.py")


def row(**changes: object) -> dict[str, object]:
    """A row with the irregularities of real ones: lists as JSON text, CRLF, null hints, ids with blanks and a lost end."""
    return {
        "instance_id": "own__mod-1",
        "repo": "own/mod",
        "base_commit": "0123456789abcdef0123456789abcdef01234567",
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        "problem_statement": "It breaks.\r\n\r\n🐍 \u2028 End",
        "hints_text": None,
        "created_at": "2020-01-01T00:00:00Z",
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps(["tests/test_mod.py::test_a[x y", "tests/test_mod.py::test_é"]),
        "PASS_TO_PASS": ["tests/test_mod.py::test_b[::]"],
        "environment_setup_commit": None,
        **changes,
    }


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in rows), encoding="utf-8")
    return path


def test_a_row_becomes_a_task_and_keeps_its_irregularities(tmp_path):
    report = import_rows("swe-bench", write(tmp_path / "rows.jsonl", row()), tmp_path / "tasks")

    task = load_task(report.written[0])
    assert report.refused == ()
    assert task.fail_to_pass == ("tests/test_mod.py::test_a[x y", "tests/test_mod.py::test_é")
    assert (task.root / "instruction.md").read_bytes() == "It breaks.\r\n\r\n🐍 \u2028 End".encode()
    assert task.material.gold_patch() == PATCH.encode()
    assert task.test_paths == ("tests/test_mod.py",)
    assert task.image.docker_image == "swebench/sweb.eval.x86_64.own_1776_mod-1:latest"
    assert {"truncated-test-ids", "crlf"} <= set(task.tags)


def test_swe_smith_patches_are_turned_round(tmp_path):
    bug = row(image_name="swesmith.x86_64.own__mod.01234567")
    report = import_rows("swe-smith", write(tmp_path / "rows.jsonl", bug), tmp_path / "tasks")

    assert b"-new\n+old\n" in load_task(report.written[0]).material.gold_patch()


def test_rows_inside_rollouts_are_found(tmp_path):
    nested = {"responses_create_params": {"metadata": {"instance_dict": json.dumps(row())}}}

    assert len(import_rows("swe-bench", write(tmp_path / "rows.jsonl", nested), tmp_path / "tasks").written) == 1


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (row(FAIL_TO_PASS=""), "FAIL_TO_PASS is empty"),
        (row(FAIL_TO_PASS="['single quotes']"), "FAIL_TO_PASS is a string that is not JSON"),
        (row(FAIL_TO_PASS=[1]), "FAIL_TO_PASS is no list of test ids"),
        (row(patch=" "), "patch is empty"),
        (row(problem_statement=None), "problem_statement is empty"),
        (row(instance_id="../../etc"), "cannot name a task"),
        ({"messages": []}, "recorded conversation"),
        ([1, 2], "a row must be an object"),
    ],
)
def test_an_unusable_row_is_listed_with_its_reason_and_hides_no_other(tmp_path, entry, reason):
    report = import_rows(
        "swe-bench", write(tmp_path / "rows.jsonl", entry, row(instance_id="own__mod-2")), tmp_path / "tasks"
    )

    assert [path.name for path in report.written] == ["own__mod-2"]
    assert reason in report.refused[0].reason
    assert report.refused[0].place == "rows.jsonl:1"


def test_a_repeated_id_is_refused(tmp_path):
    report = import_rows("swe-bench", write(tmp_path / "rows.jsonl", row(), row()), tmp_path / "tasks")

    assert (len(report.written), report.refused[0].reason) == (
        1,
        "an earlier row of this file has the same instance_id",
    )


def test_broken_lines_are_refused_one_by_one(tmp_path):
    file = write(tmp_path / "rows.jsonl", row())
    file.write_text("{broken\n" + file.read_text())

    report = import_rows("swe-bench", file, tmp_path / "tasks")

    assert (len(report.written), len(report.refused)) == (1, 1)


@pytest.mark.parametrize("kind", ["json", "array", "yaml", "parquet"])
def test_other_file_formats(tmp_path, kind):
    file = tmp_path / f"rows.{'json' if kind == 'array' else kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist([row()]), file)
    elif kind == "yaml":
        yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
        file.write_text(yaml.safe_dump([row()], allow_unicode=True), encoding="utf-8")
    else:
        file.write_text(json.dumps([row()] if kind == "array" else row()))

    assert len(import_rows("swe-bench", file, tmp_path / "tasks").written) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"), ("{not json", "is not JSON")],
)
def test_a_file_that_is_no_data_says_so(tmp_path, text, message):
    (tmp_path / "rows.json").write_text(text)

    with pytest.raises(UnreadableRows, match=message):
        import_rows("swe-bench", tmp_path / "rows.json", tmp_path / "tasks")


def test_an_unknown_benchmark_is_a_usage_error(tmp_path):
    with pytest.raises(InputError, match="there are multi-swe-bench"):
        import_rows("swe-bunch", write(tmp_path / "rows.jsonl", row()), tmp_path / "tasks")


def test_import_export_import_is_the_identity(tmp_path):
    first = import_rows(
        "swe-bench", write(tmp_path / "rows.jsonl", row(), row(instance_id="own__mod-2")), tmp_path / "first"
    )
    export_swe_bench([load_task(path) for path in first.written], tmp_path / "exported.jsonl")

    second = import_rows("swe-bench", tmp_path / "exported.jsonl", tmp_path / "second")

    assert [tree_digest(path) for path in second.written] == [tree_digest(path) for path in first.written]


FILES = {
    "swebench": "swe-bench", "swegym": "swe-gym", "swesmith": "swe-smith", "swerebench": "swe-rebench",
    "swebenchpro": "swe-bench-pro", "multiswebench": "multi-swe-bench",
}  # fmt: skip


@pytest.mark.parametrize("folder", FILES)
def test_real_rows_import_or_are_refused_and_survive_the_round_trip(shared, tmp_path, folder):
    written, refused = 0, 0
    for file in sorted((shared / "data" / folder).iterdir()):
        if ".lfs-pointer." in file.name:
            with pytest.raises(UnreadableRows, match="Git LFS pointer"):
                import_rows(FILES[folder], file, tmp_path)
            continue
        report = import_rows(FILES[folder], file, tmp_path / file.name)
        tasks = [load_task(path) for path in report.written]
        assert all(refusal.reason for refusal in report.refused)
        export_swe_bench(tasks, tmp_path / "exported.jsonl")
        again = import_rows(FILES[folder], tmp_path / "exported.jsonl", tmp_path / "again" / file.name)
        assert [tree_digest(path) for path in again.written] == [tree_digest(path) for path in report.written]
        written, refused = written + len(report.written), refused + len(report.refused)
    assert written + refused


def test_an_exported_directory_is_the_same_task(directory, tmp_path):
    (directory / "tests/__pycache__").mkdir()
    task = load_task(directory)

    copy = load_task(export_harbor(task, tmp_path / "out"))

    assert copy.digest == task.digest
    assert not (copy.root / "tests/__pycache__").exists()


def terminal_bench(root: Path) -> Path:
    files = {
        "task.yaml": "# t-bench-canary GUID 1\ninstruction: |-\n  Do it.\ntags: [a]\nmax_test_timeout_sec: 60.0\n",
        "Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /app\n",
        "solution.sh": "echo done > /app/out\n",
        "tests/test_outputs.py": "def test_it(): pass\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_old_terminal_bench_directories(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML is not installed")

    task = load_task(import_terminal_bench(terminal_bench(tmp_path / "old-task"), tmp_path / "tasks"))

    assert (task.id, task.instruction, task.workdir, task.verifier_timeout_s) == ("old-task", "Do it.", "/app", 60.0)
    assert task.split == "held-out"  # its canary says that it must not be trained on
    assert not (task.root / "environment/task.yaml").exists()


def test_an_incomplete_terminal_bench_directory_says_what_it_lacks(tmp_path):
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    directory = terminal_bench(tmp_path / "old-task")
    (directory / "Dockerfile").unlink()

    with pytest.raises(RowRefused, match="lacks Dockerfile"):
        import_terminal_bench(directory, tmp_path / "tasks")


def test_real_harbor_directories_load_or_say_what_they_lack(shared):
    for directory in sorted(path.parent for path in (shared / "data/harbor_tasks").glob("*/task.toml")):
        # The collection holds manifests and instructions only, no environments: every one must say at least that.
        with pytest.raises(TaskError) as caught:
            load_task(directory)
        faults = str(caught.value)
        assert "tests/test.sh: missing" in faults or "instruction.md" in faults
        assert "unknown key" not in faults
