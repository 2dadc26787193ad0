"""One shape for the rows of every benchmark of the family.

The same facts come under other names, nested (a row inside a rollout file), or encoded (lists as JSON strings, a whole row as
one). What is taken is taken verbatim: test ids with blanks, unicode or a missing end, CRLF texts, patches with binary parts. What
makes a row unusable as a task is a `RowRefused` with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from agentgym.errors import InputError
from agentgym.tasks.importers.reverse import reverse_patch


class RowRefused(InputError):
    """This row cannot become a task; the message says why."""


class Instance(BaseModel):
    """One row. gold: the diff that solves it (SWE-smith's rows hold the opposite). image: where its environment is published.

    bug: SWE-smith's own patch, which puts the problem into the image. notes: irregularities that were kept as they are.
    """

    model_config = ConfigDict(frozen=True)
    benchmark: str
    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    gold: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    image: str
    workdir: str = "/testbed"
    version: str = ""
    difficulty: str = ""
    language: str = "python"
    bug: str = ""
    notes: tuple[str, ...] = ()


def normalise(benchmark: str, row: Any) -> Instance:
    """The row as an Instance; raises RowRefused."""
    if benchmark not in BENCHMARKS:
        raise InputError(f"no importer is called {benchmark!r}; there are {', '.join(sorted(BENCHMARKS))}")
    flat = unwrap(row)
    if "messages" in flat and "patch" not in flat:
        raise RowRefused("this is a recorded conversation, not a problem")
    return BENCHMARKS[benchmark](flat)


def unwrap(row: Any) -> Mapping[str, Any]:
    """Rollout files carry the benchmark's row inside, as an object or as a JSON string."""
    if not isinstance(row, Mapping):
        raise RowRefused(f"a row must be an object, this is {type(row).__name__}")
    metadata = (row.get("responses_create_params") or {}).get("metadata") or {}
    for inner in (
        row.get("instance"),
        (row.get("verifier_metadata") or {}).get("instance_dict"),
        metadata.get("instance_dict"),
        metadata.get("instance"),
    ):
        if isinstance(inner, str):
            try:
                inner = json.loads(inner)
            except json.JSONDecodeError as error:
                raise RowRefused(f"the row inside this one is not JSON: {error}") from error
        if isinstance(inner, Mapping) and "instance_id" in inner:
            return inner
    return row


def _text(row: Mapping[str, Any], key: str, *, why: str = "") -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise RowRefused(f"{key} is {'missing' if key not in row else 'empty'}{f': {why}' if why else ''}")
    return value


def _ids(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of test ids, also where it is the JSON text of one; each id once."""
    value = row.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except json.JSONDecodeError as error:
            raise RowRefused(f"{key} is a string that is not JSON: {error}") from error
    if value is None:
        value = []
    if not isinstance(value, (list, tuple)) or not all(isinstance(test, str) for test in value):
        raise RowRefused(f"{key} is no list of test ids")
    return tuple(dict.fromkeys(value))


def _notes(instance_ids: tuple[str, ...], row: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    if any(test.count("[") > test.count("]") for test in instance_ids):
        found.append("truncated-test-ids")
    if "\r\n" in str(row.get("problem_statement", "")):
        found.append("crlf")
    if "GIT binary patch" in f"{row.get('patch')}{row.get('test_patch')}":
        found.append("binary-patch")
    return tuple(found)


def _common(row: Mapping[str, Any], benchmark: str, image: Callable[[str], str], **fields: Any) -> Instance:
    instance_id = _text(row, "instance_id")
    fail_to_pass, pass_to_pass = _ids(row, "FAIL_TO_PASS"), _ids(row, "PASS_TO_PASS")
    if not fail_to_pass:
        raise RowRefused("FAIL_TO_PASS is empty: no test tells a solution from none")
    gold = fields.pop("gold", None) or _text(row, "patch", why="there is no reference solution")
    problem = fields.pop("problem_statement", None) or _text(row, "problem_statement")
    overlap = set(fail_to_pass) & set(pass_to_pass)
    return Instance(
        benchmark=benchmark,
        instance_id=instance_id,
        repo=_text(row, "repo"),
        base_commit=_text(row, "base_commit"),
        problem_statement=problem,
        gold=gold,
        test_patch=fields.pop("test_patch", None) or row.get("test_patch") or "",
        fail_to_pass=fail_to_pass,
        pass_to_pass=tuple(test for test in pass_to_pass if test not in overlap),
        image=fields.pop("published", None) or image(instance_id),
        version=str(row.get("version") or ""),
        difficulty=str(row.get("difficulty") or ""),
        notes=_notes((*fail_to_pass, *pass_to_pass), row),
        **fields,
    )


def _swe_bench(row: Mapping[str, Any]) -> Instance:
    return _common(
        row, "swe-bench", lambda name: f"swebench/sweb.eval.x86_64.{name.replace('__', '_1776_').lower()}:latest"
    )


def _swe_bench_live(row: Mapping[str, Any]) -> Instance:
    image = str(row.get("docker_image") or "")
    return _common(
        row,
        "swe-bench-live",
        lambda name: f"starryzhang/sweb.eval.x86_64.{name.replace('__', '_1776_').lower()}:latest",
        published=image,
    )


def _swe_gym(row: Mapping[str, Any]) -> Instance:
    return _common(
        row, "swe-gym", lambda name: f"xingyaoww/sweb.eval.x86_64.{name.replace('__', '_s_').lower()}:latest"
    )


def _swe_smith(row: Mapping[str, Any]) -> Instance:
    """`patch` puts the bug in: the solution is its opposite. The tests lie in the repository already."""
    bug = _text(row, "patch", why="there is no patch that puts the bug in")
    image = _text(row, "image_name").replace("__", "_1776_")
    commit = row.get("base_commit") or row.get("repo", "").rpartition(".")[2]
    whole = {**row, "base_commit": commit}
    return _common(
        whole,
        "swe-smith",
        lambda _: image if "/" in image else f"jyangballin/{image}",
        gold=reverse_patch(bug),
        bug=bug,
    )


def _swe_rebench(row: Mapping[str, Any]) -> Instance:
    image = str(row.get("docker_image") or row.get("image_name") or "")
    return _common(
        row, "swe-rebench", lambda name: f"swerebench/sweb.eval.x86_64.{name.replace('__', '_1776_')}", published=image
    )


def _r2e_gym(row: Mapping[str, Any]) -> Instance:
    """R2E-Gym's rows name their image and hold expected outcomes per test."""
    expected = row.get("expected_output_json")
    outcomes = json.loads(expected) if isinstance(expected, str) and expected.strip() else {}
    image = str(row.get("docker_image") or "")
    name = f"{row.get('repo_name', '')}-{str(row.get('commit_hash', ''))[:12]}"
    passing = [test for test, outcome in outcomes.items() if outcome == "PASSED"]
    whole = {
        **row,
        "instance_id": row.get("instance_id") or name,
        "repo": row.get("repo") or row.get("repo_name"),
        "base_commit": row.get("base_commit") or row.get("commit_hash"),
        "FAIL_TO_PASS": row.get("FAIL_TO_PASS") or passing,
        "PASS_TO_PASS": row.get("PASS_TO_PASS") or [],
    }
    return _common(whole, "r2e-gym", lambda _: image, published=image)


def _swe_bench_pro(row: Mapping[str, Any]) -> Instance:
    tag = str(row.get("image_name") or "")
    problem = _unquoted(row.get("problem_statement"))
    whole = {**row, "repo": row.get("repo") or row.get("repo_name"), "problem_statement": problem}
    for ours, theirs in (("FAIL_TO_PASS", "fail_to_pass"), ("PASS_TO_PASS", "pass_to_pass")):
        whole.setdefault(ours, row.get(theirs))
    language = str(row.get("repo_language") or "python")
    return _common(
        whole,
        "swe-bench-pro",
        lambda name: f"jefzda/sweap-images:{name}",
        published=tag,
        workdir="/app",
        language=language,
    )


def _unquoted(problem: Any) -> Any:
    """SWE-bench Pro's texts are quoted once more than the file format asks for, part by part."""
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"', problem) if isinstance(problem, str) and problem.startswith('"') else []
    if not pieces or "".join(pieces) != re.sub(r"\s*\n\s*(?=\")", "", problem.strip()):
        return problem
    return "\n\n".join(json.loads(piece, strict=False) for piece in pieces)


def _multi_swe_bench(row: Mapping[str, Any]) -> Instance:
    """org, repo and number instead of an id; dicts of test states instead of lists."""
    if "org" not in row or "number" not in row:
        raise RowRefused("this is no row of Multi-SWE-bench: org or number is missing")
    if "fixed_tests" not in row:
        raise RowRefused("this is a raw row of the pipeline: its tests were never run, so it has no FAIL_TO_PASS")
    org, repo, number = str(row["org"]), str(row["repo"]), int(row["number"])
    issues = [issue for issue in row.get("resolved_issues") or [] if isinstance(issue, Mapping)]
    texts = [f"{issue.get('title') or ''}\n\n{issue.get('body') or ''}".strip() for issue in issues]
    problem = "\n\n".join(filter(None, texts)) or f"{row.get('title') or ''}\n\n{row.get('body') or ''}".strip()
    fixed = [test for key in ("f2p_tests", "s2p_tests", "n2p_tests") for test in row.get(key) or {}] or list(
        row["fixed_tests"]
    )
    whole = {
        "instance_id": row.get("instance_id") or f"{org}__{repo}-{number}",
        "repo": f"{org}/{repo}",
        "base_commit": (row.get("base") or {}).get("sha"),
        "patch": row.get("fix_patch"),
        "test_patch": row.get("test_patch"),
        "problem_statement": problem,
        "FAIL_TO_PASS": fixed,
        "PASS_TO_PASS": list(row.get("p2p_tests") or {}),
    }
    image = f"mswebench/{org}_m_{repo}:pr-{number}".lower()
    return _common(
        whole, "multi-swe-bench", lambda _: image, workdir=f"/home/{repo}", language=_language(whole["patch"])
    )


_SUFFIXES = {"rs": "rust", "go": "go", "java": "java", "js": "javascript",
    "ts": "typescript", "tsx": "typescript", "c": "c", "h": "c",
             "cpp": "c++", "hpp": "c++", "cc": "c++", "py": "python", "kt": "kotlin"}  # fmt: skip


def _language(patch: Any) -> str:
    """The language of most changed files, judged by their names."""
    names = re.findall(r"^diff --git a/\S+\.(\w+) b/", str(patch or ""), re.MULTILINE)
    known = [_SUFFIXES[suffix] for suffix in names if suffix in _SUFFIXES]
    return max(known, key=known.count) if known else ""


BENCHMARKS: Mapping[str, Callable[[Mapping[str, Any]], Instance]] = {
    "swe-bench": _swe_bench,
    "swe-bench-live": _swe_bench_live,
    "swe-bench-pro": _swe_bench_pro,
    "swe-gym": _swe_gym,
    "swe-rebench": _swe_rebench,
    "swe-smith": _swe_smith,
    "r2e-gym": _r2e_gym,
    "multi-swe-bench": _multi_swe_bench,
}
"""Importer of each benchmark by the name that the command line uses."""
