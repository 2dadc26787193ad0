"""What a step did to the workspace, judged by its tool and arguments: read, search, edit, test, run, submit, or nothing.

Shell commands are read as a person skims them, by their verbs; what cannot be told apart is `run`. A command may do
several things (`sed -i … && pytest`), so an action has a set of kinds. Paths are as the policy wrote them, without
a leading `./`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from agentgym.store.records import Step

SHELLS = ("bash", "execute_bash", "shell", "terminal")
EDITORS = ("edit", "file_editor", "str_replace_editor", "str_replace_based_edit_tool")
SUBMITS = ("submit", "finish")


class Kind(StrEnum):
    READ = "read"
    SEARCH = "search"
    EDIT = "edit"
    TEST = "test"
    RUN = "run"
    SUBMIT = "submit"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Action:
    """kinds: all that apply. reads, edits: paths. created: the edited paths that the action makes whole, old content
    unneeded. written: text the policy put into files, the command itself for a shell. passed: what a test run said,
    None where nothing was tested or nothing can be told."""

    index: int
    kinds: frozenset[Kind]
    reads: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    written: str = ""
    passed: bool | None = None


_PATH = r"[\w./~+@-]*[\w-]\.[A-Za-z]\w{0,9}|[\w.~+@-]*/[\w./~+@-]+"
_REDIRECT = re.compile(rf"(?<![0-9&<>-])>>?\s*['\"]?({_PATH})")
_IN_PLACE = re.compile(r"\b(?:sed\s+(?:-\w+\s+)*-\w*i|perl\s+-\w*i)\b")
_WRITERS = re.compile(
    rf"\b(?:tee|touch|mv|cp|rm)\b(?:\s+-\w+)*\s+([^|;&\n]+)|open\(\s*['\"]({_PATH})['\"]\s*,\s*['\"][wa]"
)
_PATCHES = re.compile(r"\b(?:git\s+apply|patch\s+-p|git\s+(?:checkout|restore|stash|revert|reset)\b)")
_READERS = re.compile(
    r"(?:^|[|;&(\n]\s*|\bxargs\s+)(?:cat|head|tail|less|more|nl|bat|sed\s+-n|awk|git\s+(?:diff|show|blame))\b([^|;&\n]*)"
)
_SEARCHERS = re.compile(r"(?:^|[|;&(\n]\s*)(?:grep|egrep|rg|ag|find|fd|git\s+grep|ls|tree)\b([^|;&\n]*)")
_TESTERS = re.compile(
    r"\bpytest\b|\bunittest\b|\bpy\.test\b|\b(?:tox|nox|ctest|rspec|jest|vitest|mocha|phpunit)\b|\bmanage\.py\s+test\b"
    r"|\b(?:npm|pnpm|yarn|cargo|go|make|mvn|gradle|\./gradlew|dotnet|mix|swift|bazel|lein|rake|sbt)\b[^|;&\n]*\btest"
    r"|\brun_?tests?\b|\bruntests\b"
)
_FILE = re.compile(_PATH)
_BAD = re.compile(
    r"\b[1-9]\d* (?:failed|errors?)\b|^FAILED\b|\bFAILED \(|test result: FAILED|^FAIL\b|no tests ran", re.M
)
_GOOD = re.compile(r"\b[1-9]\d* passed\b|^OK\b|test result: ok|^PASS\b|^ok\s", re.M)


def action_of(index: int, step: Step) -> Action:
    if not step.valid or not step.tool:
        return Action(index, frozenset({Kind.INVALID}))
    if step.tool in SUBMITS:
        return Action(index, frozenset({Kind.SUBMIT}))
    if step.tool in EDITORS:
        return _editor(index, step)
    command = _text(step, "command", "cmd")
    if step.tool in SHELLS or command:
        return _shell(index, step, command)
    if "search" in step.tool or "find" in step.tool or "grep" in step.tool:
        return Action(index, frozenset({Kind.SEARCH}), reads=_found(step.observation))
    return Action(index, frozenset({Kind.RUN}))


def same_file(one: str, other: str) -> bool:
    """Whether two spellings may name one file: the shorter is the tail of the longer, component by component."""
    a, b = one.strip("/").split("/"), other.strip("/").split("/")
    size = min(len(a), len(b))
    return a[-size:] == b[-size:]


def _editor(index: int, step: Step) -> Action:
    path, command = _clean(_text(step, "path")), _text(step, "command")
    if command == "view":
        return Action(index, frozenset({Kind.READ}), reads=(path,))
    written = "\n".join(filter(None, (_text(step, name) for name in ("file_text", "new_str", "insert_text"))))
    if step.exit_code:  # refused: nothing was changed
        return Action(index, frozenset({Kind.EDIT}), written=written)
    created = (path,) if command == "create" else ()
    return Action(index, frozenset({Kind.EDIT}), edits=(path,), created=created, written=written)


def _shell(index: int, step: Step, command: str) -> Action:
    # A here-document is content, not commands: `cat > a.py <<EOF … pytest … EOF` runs no test.
    bare = re.sub(r"<<-?\s*['\"]?(\w+)['\"]?(.*?)\n.*?(?:\n\1\b|\Z)", r"\2", command, flags=re.S)
    kinds: set[Kind] = set()
    created = tuple(_clean(found) for found in _REDIRECT.findall(bare) if not found.startswith("/dev/"))
    edits = list(created)
    for arguments, opened in _WRITERS.findall(command if "open(" in command else bare):
        edits += [opened] if opened else _FILE.findall(arguments)
    if _IN_PLACE.search(bare):
        edits += _FILE.findall(bare[_IN_PLACE.search(bare).end() :])[-1:]  # type: ignore[union-attr]
    if edits or _PATCHES.search(bare):
        kinds.add(Kind.EDIT)
    reads = [path for arguments in _READERS.findall(bare) for path in _FILE.findall(arguments)]
    if reads:
        kinds.add(Kind.READ)
    if searched := _SEARCHERS.findall(bare):
        kinds.add(Kind.SEARCH)
        reads += [path for arguments in searched for path in _FILE.findall(arguments)]
        reads += _found(step.observation)
    passed = None
    if _TESTERS.search(bare):
        kinds.add(Kind.TEST)
        passed = _verdict(step)
    if "submit" in bare.split() or "TASK_COMPLETE" in bare:
        kinds.add(Kind.SUBMIT)
    return Action(
        index,
        frozenset(kinds or {Kind.RUN}),
        reads=tuple(dict.fromkeys(map(_clean, reads))),
        edits=tuple(dict.fromkeys(map(_clean, edits))),
        created=created,
        written=command,
        passed=passed,
    )


def _verdict(step: Step) -> bool | None:
    """What a test run said. Its summary goes before the exit code, which in `pytest | tail` is that of `tail`."""
    tail = step.observation[-4000:]
    if _BAD.search(tail):
        return False
    if _GOOD.search(tail):
        return step.exit_code in (0, None)
    return None if step.exit_code is None else step.exit_code == 0


def _found(observation: str) -> tuple[str, ...]:
    """Files named at the start of the lines of a search result."""
    return tuple(dict.fromkeys(_clean(name) for name in _names(observation)))[:200]


def _names(observation: str) -> Iterator[str]:
    for line in observation.splitlines()[:400]:
        if match := _FILE.match(line.strip()):
            yield match.group()


def _text(step: Step, *names: str) -> str:
    for name in names:
        value = step.arguments.get(name)
        if isinstance(value, str):
            return value
    return ""


def _clean(path: str) -> str:
    return path.removeprefix("./")
