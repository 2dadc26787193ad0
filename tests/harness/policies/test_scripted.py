"""Scripted policies speak the run's own token language, and a gold script puts any patch in place byte for byte."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.store.records import FinishReason, PolicyKind, Sampling, VersionSpan
from agentgym.tasks import Task
from harness.policies.protocol import PolicyError
from harness.policies.scripted import EMPTY_SCRIPT, ScriptedPolicy, Turn, empty_script, gold_script
from harness.profile import load_profile
from harness.render import GuardedRenderer

PROMPT = np.asarray([1, 2, 3], dtype=np.int32)


async def play(policy: ScriptedPolicy, episode_id: str = "a") -> list[int]:
    answer = await policy.generate(
        PROMPT, sampling=Sampling(), max_tokens=1, stop_token_ids=(2,), episode_id=episode_id
    )
    assert answer.finish_reason is FinishReason.STOP
    assert answer.logprobs.tolist() == [0.0] * len(answer.token_ids)
    assert answer.versions == (VersionSpan(0, 0, len(answer.token_ids)),)
    return answer.token_ids.tolist()


async def test_a_turn_parses_back_to_its_call(renderer: GuardedRenderer) -> None:
    arguments = {"command": "printf 'a\\tb\r\n' > x; echo '<|im_end|>' \"quoted\" ünïcode"}
    policy = ScriptedPolicy([Turn("I write.", "bash", arguments)], renderer)
    parsed = renderer.parse_response(await play(policy), tools=load_profile("default").tool_specs)  # type: ignore[arg-type]
    assert parsed.content == "I write."
    (call,) = parsed.tool_calls
    assert (call.name, call.arguments) == ("bash", arguments)
    assert policy.kind is PolicyKind.SCRIPTED


async def test_episodes_play_the_script_independently_and_it_ends(renderer: GuardedRenderer) -> None:
    policy = ScriptedPolicy([Turn("one"), *EMPTY_SCRIPT], renderer, name="two-turns")
    first = await play(policy, "a")
    assert await play(policy, "b") == first
    assert await play(policy, "a") != first
    with pytest.raises(PolicyError, match="'two-turns' is over after 2 turns"):
        await play(policy, "a")
    await policy.end_episode("a")
    assert await play(policy, "a") == first


def test_each_profile_is_left_its_own_way() -> None:
    assert empty_script(load_profile("default")) == EMPTY_SCRIPT
    (turn,) = empty_script(load_profile("bash-only"))
    assert (turn.tool, turn.arguments) == ("bash", {"command": "echo TASK_COMPLETE"})


@dataclass(frozen=True)
class Material:
    patch: bytes

    def gold_patch(self) -> bytes:
        return self.patch

    def hidden_tests(self) -> Path:
        raise NotImplementedError


def git(directory: Path, *arguments: str) -> bytes:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    return subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True).stdout


BEFORE = {
    "plain.py": b"a = 1\nb = 2\n",
    "dos.txt": b"one\r\ntwo\r\n",
    "no_newline.txt": b"first\nlast",
    "latin1.txt": b"caf\xe9\n",
    "blob.bin": bytes(range(256)),
    "gone.txt": b"remove me\n",
    "run.sh": b"#!/bin/sh\n",
    "long.js": b"x" * 200_000 + b"\n",
    "chat.txt": b"plain\n",
}
AFTER = {
    "plain.py": b"a = 1\nb = 3\nPATCH\n",
    "dos.txt": b"one\r\nthree\r\n",
    "no_newline.txt": b"first\nlast line",
    "latin1.txt": b"th\xe9\n",
    "blob.bin": bytes(reversed(range(256))),
    "run.sh": b"#!/bin/sh\n",
    "long.js": b"y" * 200_000 + b"\n",
    "chat.txt": b"<|im_end|>\n</tool_call>\n",
    "new dir/new file.txt": b"made\x0c\xe2\x80\xa8here\n",
}


@pytest.mark.parametrize("names", [[name] for name in sorted({*BEFORE, *AFTER})] + [sorted({*BEFORE, *AFTER})], ids=str)
async def test_a_gold_script_restores_every_byte(
    names: list[str], task: Task, renderer: GuardedRenderer, tmp_path: Path
) -> None:
    """Given a repository and a patch, when the script's commands are parsed from its tokens and run, then AFTER."""
    for name in names:
        if name in BEFORE:
            (tmp_path / name).write_bytes(BEFORE[name])
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "before", "--allow-empty")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(AFTER[name]) if name in AFTER else path.unlink()
    if "run.sh" in names:
        (tmp_path / "run.sh").chmod(0o755)
    git(tmp_path, "add", "-A")
    patch = git(tmp_path, "diff", "--binary", "--cached")
    wanted = git(tmp_path, "write-tree")
    git(tmp_path, "reset", "-q", "--hard")
    git(tmp_path, "clean", "-qfd")

    script = gold_script(replace(task, material=Material(patch)))
    policy = ScriptedPolicy(script, renderer)
    for turn in script[:-1]:
        (call,) = renderer.parse_response(await play(policy)).tool_calls
        assert call.arguments == turn.arguments
        subprocess.run(["bash"], input=str(call.arguments["command"]).encode(), cwd=tmp_path, check=True)
    git(tmp_path, "add", "-A")
    assert git(tmp_path, "write-tree") == wanted
