"""Test reports of other runners: JUnit XML and TAP, as verdicts by test id.

The text was written in a sandbox by whatever ran there. It is capped before it comes here, entities are refused, and what
cannot be read as a whole is no report at all. Ids are exact strings, made like this:

    JUnit   classname and name joined by "::", before them the names of suites inside the outermost one
            (`tests.test_a::test_b[x y]`); without a classname of its own (Node calls all of them "test") the names of all
            suites around it take its place
    TAP     the description after "ok 1 - "; a subtest's is preceded by its parents', joined by " > "

An id that occurs twice is as good as its worst result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from agentgym.verify.reward import ERROR, FAILED, PASSED, SKIPPED, worst


class UnreadableReport(Exception):
    """The file is not what it should be; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Report:
    """verdicts: by test id, in the order of the report. complete: the runner came to its end (TAP: it met its plan)."""

    verdicts: Mapping[str, str]
    complete: bool = True

    @property
    def all_good(self) -> bool:
        """No test failed, so a runner that tells the truth exits with 0."""
        return not any(verdict in (FAILED, ERROR) for verdict in self.verdicts.values())


def parse_junit(data: bytes) -> Report:
    """A JUnit XML document."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise UnreadableReport("the JUnit report declares entities")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise UnreadableReport(f"the JUnit report is no XML: {error}") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise UnreadableReport(f"the JUnit report's outer element is <{root.tag}>")
    found: dict[str, list[str]] = {}
    for test, verdict in _cases(root, (), ()):
        found.setdefault(test, []).append(verdict)
    return Report({test: worst(verdicts) for test, verdicts in found.items()})


def _cases(parent: ElementTree.Element, outer: tuple[str, ...], inner: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """outer: the name of the outermost suite, which often is a file or the runner; inner: of the suites in it."""
    if parent.tag == "testsuite" and not outer:
        outer = (parent.get("name", ""),)
    elif parent.tag == "testsuite":
        inner = (*inner, parent.get("name", ""))
    for child in parent:
        if child.tag == "testcase":
            own = child.get("classname") or ""
            place = (*inner, own) if own not in ("", "test") else (*outer, *inner)
            yield "::".join([*place, child.get("name", "")]), _case_verdict(child)
        elif child.tag == "testsuite":
            yield from _cases(child, outer, inner)


def _case_verdict(case: ElementTree.Element) -> str:
    """The worst that the case's children say; an attempt that failed and was repeated counts as failed."""
    kinds = {str(child.tag) for child in case}
    if "skipped" in kinds or case.get("status") in ("notrun", "disabled", "skipped"):
        return SKIPPED  # also where it failed: Node's tests that are still to do
    if "error" in kinds or any(kind.endswith("Error") for kind in kinds):
        return ERROR
    if "failure" in kinds or any(kind.endswith("Failure") for kind in kinds):
        return FAILED
    return PASSED


_RESULT = re.compile(r"^( *)(not )?ok\b(?:\s+\d+)?(?:\s+-)?\s*(.*)$")
_PLAN = re.compile(r"^( *)(?:1\.\.(\d+))\s*(?:#.*)?$")
_SUBTEST = re.compile(r"^( *)# Subtest: (.*)$")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(skip|todo|cancelled)\b.*$", re.IGNORECASE)


def parse_tap(data: bytes) -> Report:
    """A TAP stream (version 12 to 14), subtests indented by four blanks."""
    text = data.decode("utf-8", errors="surrogateescape")
    found: dict[str, list[str]] = {}
    counts: dict[int, int] = {}
    parents: dict[int, str] = {}
    plan: int | None = None
    bailed = False
    block: str | None = None
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if block is not None:  # the YAML of a result may hold anything, also lines that look like results
            block = None if line == block else block
            continue
        if line.strip() == "---":
            block = line.replace("---", "...")
        elif line.startswith("Bail out!"):
            bailed = True
        elif match := _SUBTEST.match(line):
            parents[len(match.group(1)) // 4] = _plain(match.group(2))
        elif match := _PLAN.match(line):
            plan = int(match.group(2)) if not match.group(1) else plan
        elif match := _RESULT.match(line):
            depth = len(match.group(1)) // 4
            counts[depth] = counts.get(depth, 0) + 1
            directive = _DIRECTIVE.search(match.group(3))
            name = _plain(_DIRECTIVE.sub("", match.group(3)))
            above = [parents[level] for level in range(depth) if level in parents]
            verdict = FAILED if match.group(2) else PASSED
            if directive:
                verdict = SKIPPED if directive.group(1).lower() != "cancelled" else FAILED
            found.setdefault(" > ".join([*above, name]), []).append(verdict)
    if not counts:
        raise UnreadableReport("the TAP report holds no result")
    complete = not bailed and block is None and plan is not None and counts.get(0, 0) == plan
    return Report({test: worst(verdicts) for test, verdicts in found.items()}, complete)


def _plain(description: str) -> str:
    """TAP escapes # and \\ in descriptions."""
    return re.sub(r"\\([#\\])", r"\1", description.strip())


__all__ = ["Report", "UnreadableReport", "parse_junit", "parse_tap"]
