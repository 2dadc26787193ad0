"""The reference solution as `edit` (or `replace`) calls, one replacement per changed place: what a small policy can imitate.

A patch applied through the shell (`gold_script`) shows that a task can be solved; nobody would want it imitated. Each run of
changed lines becomes one `str_replace` of whole lines. Where the task's instruction shows the code and the lines stand in it
more than once, lines above them are taken along until they do not; what else it quotes of them does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from agentgym.tasks.model import Task
from harness.policies.protocol import PolicyError
from harness.policies.scripted import Script, Turn, submission
from harness.policies.unified_diff import read_diff
from harness.profile import Profile

_CODE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Change:
    """One run of changed lines of a file. above: the unchanged lines before it, as far as the patch shows them."""

    path: str
    above: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]


def edit_script(task: Task, profile: Profile | None = None) -> Script:
    """The reference solution through the edit (or replace) tool. Raises PolicyError for a patch that is more than changed lines.

    It ends with a submission, unless the profile ends an episode by itself once the tests pass.
    """
    tool = next((name for name in ("edit", "replace") if profile is None or name in profile.tools), None)
    if tool is None:
        raise PolicyError(
            f"the profile has no edit or replace tool, which this script needs: {profile and profile.name}"
        )
    patch = task.material.gold_patch().decode("utf-8", errors="replace")
    shown = max(_CODE.findall(task.instruction), key=len, default=task.instruction)
    turns = [_turn(change, shown, tool) for change in changes(patch)]
    if not turns or re.search(r"^(GIT binary patch|--- /dev/null|\+\+\+ /dev/null|rename from )", patch, re.MULTILINE):
        raise PolicyError(f"the solution of task {task.id} is more than changed lines", hint="use a profile with bash")
    ends_itself = profile is not None and profile.stop.tests_passed
    return tuple(turns) if ends_itself else (*turns, submission(profile))


def changes(patch: str) -> Iterator[Change]:
    """The runs of changed lines of a unified diff, in its order."""
    for file in read_diff(patch):
        for hunk in file.hunks:
            above: list[str] = []
            for changed, run in groupby(hunk.lines, key=lambda line: line.kind != " "):
                lines = [(line.kind, line.text.removesuffix("\n")) for line in run]
                if not changed:
                    above = [text for _, text in lines]
                    continue
                old, new = (tuple(text for kind, text in lines if kind == wanted) for wanted in "-+")
                yield Change(file.path, tuple(above), old, new)


def _turn(change: Change, shown: str, tool: str) -> Turn:
    """Whole lines; those above are taken along where nothing would be replaced, or too much."""
    taken = 0
    while taken < len(change.above):
        old = "\n".join([*change.above[len(change.above) - taken :], *change.old])
        if old.strip() and shown.count(old) <= 1:
            break
        taken += 1
    context = change.above[len(change.above) - taken :]
    arguments = {
        **({"command": "str_replace"} if tool == "edit" else {}),
        "path": change.path,
        "old_str": "\n".join([*context, *change.old]),
        "new_str": "\n".join([*context, *change.new]),
    }
    return Turn(tool=tool, arguments=arguments)
