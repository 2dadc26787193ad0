"""Real logs of real runs are read as the benchmarks themselves read them: same tests, same verdict, same word for solved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym.tasks.swebench import BenchmarkPackage
from agentgym.tasks.swebench.client import LogVerdicts, NotRunnable, PackageFailed


def reports(shared: Path, folder: str, suffix: str) -> list[Path]:
    found = sorted((shared / "data/logs" / folder).glob(f"*{suffix}"))
    assert found
    return found


def compare(read: LogVerdicts, report: dict) -> None:
    status = report["tests_status"]
    for group in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        assert all(read.verdicts[test] == "passed" for test in status[group]["success"])
        assert all(read.verdicts[test] != "passed" for test in status[group]["failure"])
    assert read.resolved == report["resolved"]


def expected(report: dict) -> tuple[list[str], list[str]]:
    status = report["tests_status"]
    groups = (status[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    first, second = (group["success"] + group["failure"] for group in groups)
    return first, second


def test_swe_bench_logs(shared: Path, swebench: BenchmarkPackage) -> None:
    solved = 0
    for file in reports(shared, "swebench", ".report.json"):
        ((instance, report),) = json.loads(file.read_text()).items()
        log = file.with_name(file.name.replace(".report.json", ".test_output.txt")).read_text()
        repo = instance.rpartition("-")[0].replace("__", "/")

        read = swebench.read(f"swebench:{repo}", log, *expected(report))

        compare(read, report)
        solved += read.resolved
    assert solved == 7


@pytest.mark.parametrize(
    ("name", "repo"),
    [
        ("getmoto__moto.694ce1f4.pr_7331", "swesmith/getmoto__moto.694ce1f4"),
        ("pandas-dev__pandas.95280573.pr_53652", "swesmith/pandas-dev__pandas.95280573"),
    ],
)
def test_swe_smith_logs(shared: Path, swebench: BenchmarkPackage, name: str, repo: str) -> None:
    folder = shared / "data/logs/swesmith"
    report = json.loads((folder / f"run_evaluation__{name}__report.json").read_text())
    log = (folder / f"run_evaluation__{name}__test_output.txt").read_text()

    compare(swebench.read(f"swesmith:{repo}", log, *expected(report)), report)


def test_a_log_without_tests_solves_nothing(shared: Path, swebench: BenchmarkPackage) -> None:
    log = (shared / "data/logs/generated/pytest_killed_at_collection.log").read_text()

    read = swebench.read("swebench:pallets/flask", log, ["a.py::test_a"], [])

    assert (read.verdicts, read.resolved, read.read) == ({"a.py::test_a": "missing"}, False, 0)


def test_what_the_package_does_not_have_is_said(swebench: BenchmarkPackage) -> None:
    row = {"repo": "own/mod", "version": "1", "base_commit": "0" * 40, "instance_id": "own__mod-1"}

    with pytest.raises(NotRunnable, match=r"swebench 4\.\S+ has no specification for own/mod 1"):
        swebench.spec("swe-bench", row, None)
    with pytest.raises(NotRunnable, match="source code, which is never run"):
        swebench.spec("swe-bench-live", {**row, "test_cmds": ["x"], "log_parser": "def parse(log): ..."}, None)
    with pytest.raises(NotRunnable, match="no parser called parse_log_klingon"):
        swebench.spec(
            "swe-rebench", {**row, "install_config": {"log_parser": "parse_log_klingon", "test_cmd": "x"}}, None
        )


def test_rows_that_carry_their_own_specification(swebench: BenchmarkPackage) -> None:
    config = {
        "python": "3.11",
        "install": "pip install -e .",
        "log_parser": "parse_log_pytest",
        "test_cmd": "pytest -rA",
    }
    patch = "diff --git a/tests/test_a.py b/tests/test_a.py\n"
    rebench = {"repo": "own/mod", "install_config": json.dumps(config), "test_patch": patch}
    live = {"repo": "own/mod", "test_cmds": ["make check"], "rebuild_cmds": ["make"], "log_parser": "pytest"}

    assert swebench.spec("swe-rebench", rebench, None)["test"] == ["pytest -rA tests/test_a.py"]
    assert swebench.spec("swe-bench-live", live, None)["parser"] == "swebench:parse_log_pytest"


def test_a_worker_that_dies_is_replaced(swebench: BenchmarkPackage) -> None:
    with pytest.raises((PackageFailed, KeyError)):
        swebench._ask({"op": "spec"}, 30.0)
    swebench.close()

    assert swebench.versions()["swebench"].startswith("4.")
