"""Given a report in JUnit XML or TAP, when it is read, then every test has the verdict and the exact id that it was given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox.protocol import ExecResult
from agentgym.tasks import Task, load_task
from agentgym.tasks.model import TaskError
from agentgym.verify.node_run import unseal
from agentgym.verify.report_run import Ended, judge
from agentgym.verify.reports import Report, UnreadableReport, parse_junit, parse_tap

NODE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites>
  <testcase name="a # b" classname="test" file="/x.mjs"/>
  <testsuite name="group"><testcase name="x" classname="test"><failure>no</failure></testcase>
    <testsuite name="inner"><testcase name="z &lt; \xc3\xbc" classname="test"/></testsuite></testsuite>
  <testcase name="later" classname="test"><skipped type="todo"/><failure/></testcase>
</testsuites>"""
PYTEST = b"""<testsuites><testsuite name="pytest" tests="3">
  <testcase classname="tests.test_a.TestB" name="test_c[x y::z]"/>
  <testcase classname="tests.test_a" name="test_d"><error message="setup"/></testcase>
  <testcase classname="tests.test_a" name="test_e"><failure/></testcase>
  <testcase classname="tests.test_a" name="test_e"/>
</testsuite></testsuites>"""
SUREFIRE = b"""<testsuite name="org.X"><testcase name="t" classname="org.X"><rerunFailure/></testcase></testsuite>"""


@pytest.mark.parametrize(
    ("document", "verdicts"),
    [
        (NODE, {"a # b": "passed", "group::x": "failed", "group::inner::z < ü": "passed", "later": "skipped"}),
        (
            PYTEST,
            {
                "tests.test_a.TestB::test_c[x y::z]": "passed",
                "tests.test_a::test_d": "error",
                "tests.test_a::test_e": "failed",  # reported twice: the worse counts
            },
        ),
        (SUREFIRE, {"org.X::t": "failed"}),
    ],
)
def test_junit(document: bytes, verdicts: dict[str, str]) -> None:
    assert parse_junit(document).verdicts == verdicts


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"<testsuites><testsuite>", "no XML"),
        (b"", "no XML"),
        (b"<html/>", "outer element is <html>"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', "declares entities"),
    ],
)
def test_half_a_junit_report_is_none(document: bytes, why: str) -> None:
    with pytest.raises(UnreadableReport, match=why):
        parse_junit(document)


TAP = b"""TAP version 14
# Subtest: parent
    # Subtest: child \\# one
    ok 1 - child \\# one
    not ok 2 - other
    1..2
not ok 1 - parent
  ---
  error: |-
    ok 9 - decoy
  ...
ok 2 - skipped # SKIP not here
not ok 3 - later # TODO
ok 4 - same
not ok 5 - same
ok
1..6
"""


def test_tap() -> None:
    report = parse_tap(TAP)

    assert report.complete
    assert report.verdicts == {
        "parent > child # one": "passed",
        "parent > other": "failed",
        "parent": "failed",
        "skipped": "skipped",
        "later": "skipped",
        "same": "failed",
        "": "passed",
    }


@pytest.mark.parametrize(
    "text", ["ok 1 - a\n", "ok 1 - a\n1..2\n", "1..1\nok 1 - a\nBail out! no\n", "ok 1\n  ---\n1..1\n"]
)
def test_a_tap_report_that_ends_early_is_not_complete(text: str) -> None:
    assert not parse_tap(text.encode()).complete


def test_a_tap_report_without_results_is_none() -> None:
    with pytest.raises(UnreadableReport):
        parse_tap(b"TAP version 13\n1..0\n")


def test_a_real_tap_log(shared: Path) -> None:
    report = parse_tap((shared / "data/logs/generated/qs_6.14.0_tape.tap").read_bytes())

    assert report.complete
    assert report.all_good
    assert len(report.verdicts) == 289


@pytest.fixture
def task(tasks: dict[str, Task]) -> Task:
    canaries = ("first", "last")
    return replace(tasks["tap"], fail_to_pass=("a",), pass_to_pass=("b",), canaries=canaries, groups={"g": ("b",)})


def ended(code: int | None, *, complete: bool = True, **verdicts: str) -> Ended:
    found = {"first": "failed", **verdicts}
    found.setdefault("last", "failed")
    return Ended(ExecResult(code, b"", timed_out=code is None), Report(found, complete))


def test_a_report_that_agrees_with_the_exit_code_counts(task: Task) -> None:
    solved = judge(task, ended(1, a="passed", b="passed"))
    half = judge(task, ended(1, a="failed", b="passed"))

    assert (solved.reward, solved.judge) == (1.0, "tap")
    assert (half.reward, half.vector) == (0.0, {"fail_to_pass": 0.0, "pass_to_pass": 1.0, "g": 1.0})


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (ended(0, a="passed", b="passed"), "exit code is 0"),
        (ended(1, a="passed", b="passed", complete=False), "ends before its plan"),
        (Ended(ExecResult(0, b""), None, "no report was written"), "no report was written"),
        (ended(1, a="passed", b="passed", last="passed"), "'last' must fail"),
        (Ended(ExecResult(1, b""), Report({"a": "passed", "b": "passed"})), "'first' must fail, and is reported missing"),
        (
            Ended(ExecResult(1, b""), Report({"first": "failed", "last": "failed", "a": "passed", "b": "passed"})),
            "the first and the last test must be canaries",
        ),
    ],
)  # fmt: skip
def test_a_report_that_contradicts_itself_earns_nothing(task: Task, what: Ended, why: str) -> None:
    for rule in ("outcome", "fraction"):
        result = judge(replace(task, reward=rule), what)

        assert result.reward == 0.0
        assert why in result.notes[-1]


def test_an_expected_test_that_is_missing_fails_and_ids_are_exact(task: Task) -> None:
    result = judge(task, ended(1, **{"a ": "passed", "b": "passed"}))

    assert (result.reward, result.verdicts["a"]) == (0.0, "missing")


def test_a_time_out_is_no_verdict_unless_a_test_had_failed(task: Task) -> None:
    assert judge(task, Ended(ExecResult(None, b"", timed_out=True), None, "no report")).reward is None
    assert judge(task, ended(None, a="failed")).reward == 0.0


def test_running_out_of_memory_is_no_verdict(task: Task) -> None:
    killed = ExecResult(137, b"", oom_killed=True)

    result = judge(task, Ended(killed, None, "no report"))

    assert result.reward is None
    assert "memory limit" in str(result.error)


def test_a_sealed_report_needs_its_end_and_its_order() -> None:
    import hashlib
    import hmac

    def line(number: int, text: str) -> bytes:
        mac = hmac.new(b"key", f"{number} {text}".encode(), hashlib.sha256).hexdigest()
        return f"noise\n{mac} {text}\n".encode()

    good, finish = '{"id": "a", "verdict": "passed"}', '{"finish": 7}'

    assert unseal(line(0, good) + b"0" * 64 + b' {"id": "b"}\n' + line(1, finish), b"key").verdicts == {"a": "passed"}
    for output in (line(0, good), line(0, good) + line(0, finish), line(1, finish), line(0, '{"finish": 6}')):
        with pytest.raises(UnreadableReport):
            unseal(output, b"key")


def test_a_manifest_without_a_place_for_the_report_or_canaries_is_refused(
    tasks: dict[str, Task], tmp_path: Path
) -> None:
    text = (tasks["tap"].root / "task.toml").read_text()
    root = tmp_path / "tutorial"
    import shutil

    shutil.copytree(tasks["tap"].root, root)
    for old, new, why in (
        ("{report}", "x.tap", "needs {report}"),
        ('canaries = ["test_zero", "test_rounding"]', "", "canaries"),
    ):
        assert old in text
        (root / "task.toml").write_text(text.replace(old, new))
        with pytest.raises(TaskError, match=why):
            load_task(root)
