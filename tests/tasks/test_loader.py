"""A task directory becomes a Task, or one error that lists everything that is wrong with it."""

from __future__ import annotations

import json
import shutil

import pytest

from agentgym.tasks import TaskError, load_task, shipped_tasks


def faults_of(directory, manifest: str) -> list[str]:
    (directory / "task.toml").write_text(manifest)
    with pytest.raises(TaskError) as caught:
        load_task(directory)
    return [line.removeprefix("  - ") for line in str(caught.value).splitlines()[1:]]


def manifest_of(directory) -> str:
    return (directory / "task.toml").read_text()


def test_fields_come_from_harbors_tables_and_ours(directory):
    task = load_task(directory)

    assert (task.id, task.instruction) == ("sample", "Mend it.\n")
    assert task.fail_to_pass == ("tests/test_a.py::test_a",)
    assert task.pass_to_pass == ("tests/test_a.py::test_b[x y::z]",)
    assert (task.limits.cpus, task.limits.memory_mb) == (2.0, 1024)
    assert task.limits.network is False  # what Harbor's own scripts may do is no permission for the agent
    assert task.image.context == directory / "environment"
    assert task.material.hidden_tests() == directory / "tests/hidden"


@pytest.mark.parametrize(
    ("size", "mebibytes"), [('"2G"', 2048), ('"512M"', 512), ('"1.5GiB"', 1536), ('"1048576K"', 1024), ("300", 300)]
)
def test_harbors_older_sizes_are_read(directory, size, mebibytes):
    (directory / "task.toml").write_text(manifest_of(directory).replace('"1G"', size))

    assert load_task(directory).limits.memory_mb == mebibytes


def test_every_fault_is_named_at_once_with_the_nearest_key(directory):
    (directory / "instruction.md").write_text("  \n")
    broken = (
        manifest_of(directory)
        .replace("cpus = 2", 'cpus = "many"')
        .replace('"1G"', '"1 lot"')
        .replace("test_paths", "test_path")
        + 'splitt = "train"\n[agentgym.source]\nkind = "pypi"\npackag = "x"\n'
    )

    faults = "\n".join(faults_of(directory, broken))

    for expected in (
        "environment.cpus: Input should be a valid number",
        "environment.memory: '1 lot' is not a size",
        "agentgym.test_paths: missing",
        "agentgym.test_path: unknown key (did you mean 'test_paths'?)",
        "agentgym.splitt: unknown key (did you mean 'split'?)",
        "agentgym.source.pypi.packag: unknown key (did you mean 'package'?)",
    ):
        assert expected in faults


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("[agent]\ntimeout_secs = 3\n", "agent.timeout_secs: unknown key (did you mean 'timeout_sec'?)"),
        ('[[environment.mcp_servers]]\nname = "x"\n', "environment.mcp_servers"),
        ('[[steps]]\nname = "one"\n', "steps: tasks of several steps are not supported"),
    ],
)
def test_what_would_be_silently_lost_is_a_fault(directory, table, fault):
    assert any(line.startswith(fault) for line in faults_of(directory, manifest_of(directory) + table))


def test_keys_that_harbor_may_add_later_are_left_alone(directory):
    (directory / "task.toml").write_text(manifest_of(directory) + '[verifier]\nreward_kind = "ternary"\n')

    assert load_task(directory).id == "sample"


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("instruction.md", "instruction.md: missing"),
        ("environment/Dockerfile", "environment: neither"),
        ("tests/test.sh", "tests/test.sh: missing"),
        ("tests/hidden", "agentgym.source.hidden: tests/hidden is no directory"),
        ("solution/gold.patch", "agentgym.source.gold: solution/gold.patch is no file"),
    ],
)
def test_a_missing_part_is_named(directory, path, fault):
    target = directory / path
    shutil.rmtree(target) if target.is_dir() else target.unlink()

    assert any(line.startswith(fault) for line in faults_of(directory, manifest_of(directory)))


def test_test_ids_may_lie_in_a_file(directory):
    ids = {"fail_to_pass": ["a b::c[é\n]"], "pass_to_pass": []}
    (directory / "tests/expected.json").write_text(json.dumps(ids))
    lines = [line for line in manifest_of(directory).splitlines() if "_to_pass" not in line]
    (directory / "task.toml").write_text("\n".join([*lines, 'expected = "tests/expected.json"\n']))

    assert load_task(directory).fail_to_pass == ("a b::c[é\n]",)


@pytest.mark.parametrize("text", ["", "[]", '{"fail_to_pass": "x", "pass_to_pass": []}', "\xff"])
def test_an_unusable_file_of_test_ids_is_a_fault(directory, text):
    (directory / "tests/expected.json").write_text(text, encoding="latin-1")
    lines = [line for line in manifest_of(directory).splitlines() if "_to_pass" not in line]

    faults = faults_of(directory, "\n".join([*lines, 'expected = "tests/expected.json"\n']))

    assert faults[0].startswith("agentgym.expected: tests/expected.json")


def test_contradictory_test_ids_are_a_fault(directory):
    twice = manifest_of(directory).replace("test_b[x y::z]", "test_a")

    assert faults_of(directory, twice)[0].startswith("agentgym.pass_to_pass: also in fail_to_pass")


def test_a_folder_that_is_no_task_says_so(tmp_path):
    with pytest.raises(TaskError, match=r"has no task\.toml"):
        load_task(tmp_path)


def test_the_digest_is_of_content_alone(directory, tmp_path):
    digest = load_task(directory).digest
    copy = tmp_path / "elsewhere" / "sample"
    shutil.copytree(directory, copy)
    (copy / "tests/__pycache__").mkdir()
    (copy / "tests/__pycache__/x.pyc").write_bytes(b"x")
    (copy / "instruction.md").touch()

    assert load_task(copy).digest == digest
    (copy / "tests/test.sh").chmod(0o755)
    assert load_task(copy).digest != digest


def test_the_image_digest_covers_what_the_build_reads_only(directory):
    before = load_task(directory).image.digest
    (directory / "instruction.md").write_text("Mend it well.\n")
    assert load_task(directory).image.digest == before
    (directory / "environment/Dockerfile").write_text("FROM debian:bookworm\n")
    assert load_task(directory).image.digest != before


@pytest.mark.parametrize("path", shipped_tasks(), ids=lambda path: path.name)
def test_shipped_tasks_load(path):
    task = load_task(path)

    assert task.instruction.strip()
    assert task.difficulty in ("easy", "medium", "hard")
    assert task.source["licence"]
