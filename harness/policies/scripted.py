"""Scripted policies: turns written down beforehand, played as tokens through the run's own renderer and tools.

They answer what a model cannot: does this task, in this harness, reward a solution (`gold_script`) and refuse nothing
at all (`empty_script`)? A script is no sampler: its logprobs are 0.0, its turns are played whole whatever the token
budget of a call, and its trajectories are marked `SCRIPTED`, so that no trainer takes them for evidence about a model.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from agentgym.store.records import FinishReason, Int32Array, PolicyKind, Sampling, VersionSpan
from agentgym.tasks.model import Task
from harness.policies.gold_edits import edits
from harness.policies.protocol import Generation, PolicyError
from harness.profile import Profile
from harness.render import GuardedRenderer, assistant_turn

_CHUNK = 48_000
"""Bytes of patch per command: well below what one argument of a program may hold."""
_FILE = '"$(git rev-parse --git-dir)/agentgym-script.patch"'
"""Where the patch lies while it is applied: not in the work tree, so that it is no part of the solution."""

_MARKUP = re.compile(r"<\||\|>|<[/｜]?(tool|think)|\[/?(INST|TOOL)")


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant turn: prose, and at most one call of a tool (the harness executes one per turn)."""

    content: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


Script = tuple[Turn, ...]
SUBMIT = Turn(tool="submit")
EMPTY_SCRIPT: Script = (SUBMIT,)
"""Ends the episode at once: the reward it gets is what doing nothing is worth."""


class ScriptedPolicy:
    """Plays the same script in every episode; see `Policy`."""

    kind = PolicyKind.SCRIPTED
    model = ""
    context_length = 1 << 24
    version = 0

    def __init__(self, script: Sequence[Turn], renderer: GuardedRenderer, *, name: str = "scripted") -> None:
        self.name = name
        self._renderer = renderer
        self._turns = [
            assistant_turn(renderer, turn.content, [(turn.tool, turn.arguments)] if turn.tool else [])
            for turn in script
        ]
        self._played: dict[str, int] = {}

    async def generate(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
    ) -> Generation:
        """The next turn of this episode. Raises PolicyError where the script is over and the episode is not."""
        played = self._played.get(episode_id, 0)
        if played >= len(self._turns):
            raise PolicyError(
                f"the script {self.name!r} is over after {played} turns and the episode is not",
                hint="end the script with the profile's way to submit (see `submission`)",
            )
        self._played[episode_id] = played + 1
        tokens = np.asarray(self._turns[played], dtype=np.int32)
        return Generation(
            token_ids=tokens,
            logprobs=np.zeros(len(tokens), dtype=np.float32),
            versions=(VersionSpan(self.version, 0, len(tokens)),),
            finish_reason=FinishReason.STOP,
        )

    async def end_episode(self, episode_id: str) -> None:
        self._played.pop(episode_id, None)

    async def close(self) -> None:
        self._played.clear()


def submission(profile: Profile | None = None) -> Turn:
    """How an episode is ended under a profile: its tool for it, or the marker its bash tool watches for."""
    if profile is None or "submit" in profile.tools:
        return SUBMIT
    if "r2e_finish" in profile.tools:
        return Turn(tool="finish")
    if profile.observation.finish_marker and "bash" in profile.tools:
        return _shell(profile, f"echo {profile.observation.finish_marker}")
    raise PolicyError(f"the profile {profile.name!r} gives a policy no way to submit")


def empty_script(profile: Profile | None = None) -> Script:
    """Submit without doing anything."""
    return (submission(profile),)


def gold_script(task: Task, profile: Profile | None = None, *, by: Literal["shell", "edit"] | None = None) -> Script:
    """Put the task's reference patch in place with the profile's own tools, then submit.

    by: with its shell (wherever it has one, unless told otherwise), or with its edit tool, one call per hunk
    (see `gold_edits`). Through the shell the patch goes as a here-document where it is plain UTF-8, else as base64, so that
    CRLF, missing final newlines, binary hunks and any encoding arrive byte for byte; `git apply` then does what a merge
    would. Raises PolicyError where the profile has no such tool, or the tool cannot play the patch.
    """
    patch = task.material.gold_patch()
    tools = {"bash", "edit"} if profile is None else set(profile.tools)
    by = by or ("shell" if tools & {"bash", "r2e_execute_bash"} else "edit")
    if not tools & ({"bash", "r2e_execute_bash"} if by == "shell" else {"edit", "r2e_file_editor"}):
        name = "the default profile" if profile is None else f"the profile {profile.name!r}"
        raise PolicyError(f"{name} has no {by} tool, which a gold script by {by} needs")
    if by == "edit":
        tool = "edit" if "edit" in tools else "file_editor"
        return (*(Turn(tool=tool, arguments=_words(tool, call)) for call in edits(patch)), submission(profile))
    commands = [*_write_commands(patch), f"git apply --binary --whitespace=nowarn {_FILE} && rm {_FILE}"]
    return (*(_shell(profile, command) for command in commands), submission(profile))


def _shell(profile: Profile | None, command: str) -> Turn:
    if profile is None or "bash" in profile.tools:
        return Turn(tool="bash", arguments={"command": command})
    return Turn(tool="execute_bash", arguments={"cmd": command})


def _words(tool: str, call: Mapping[str, Any]) -> Mapping[str, Any]:
    """An edit in the words of the tool: R2E-Gym's inserts its `new_str`."""
    if tool == "edit" or "insert_text" not in call:
        return call
    return {**{key: value for key, value in call.items() if key != "insert_text"}, "new_str": call["insert_text"]}


def _write_commands(patch: bytes) -> list[str]:
    """Commands that together leave exactly `patch` in the patch file."""
    command = "cat"
    try:
        text = patch.decode()
    except UnicodeDecodeError:
        text = ""
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if _is_plain(text) else []
    if not lines or max(map(len, lines)) > _CHUNK:
        lines = base64.encodebytes(patch).decode().splitlines(keepends=True)
        command = "base64 -d"
    end = "PATCH"
    while f"{end}\n" in lines:
        end += "_"
    commands: list[str] = []
    for chunk in _chunks(lines):
        redirect = ">>" if commands else ">"
        commands.append(f"{command} {redirect} {_FILE} <<'{end}'\n{chunk}{end}")
    return commands


def _is_plain(text: str) -> bool:
    """A here-document always ends in a newline and a shell drops NUL bytes; markup of a chat would not be played as
    text."""
    return text.endswith("\n") and "\0" not in text and not _MARKUP.search(text)


def _chunks(lines: Sequence[str]) -> list[str]:
    chunks, current, size = [], [], 0
    for line in lines:
        if current and size + len(line) > _CHUNK:
            chunks.append("".join(current))
            current, size = [], 0
        current.append(line)
        size += len(line)
    return [*chunks, "".join(current)]
