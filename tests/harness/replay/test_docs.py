"""docs/replay.md tells the truth: its Python replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from documents import run_block

from agentgym.store import Store
from agentgym.store.records import PolicyKind
from harness.policies.scripted import EMPTY_SCRIPT, ScriptedPolicy

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]


async def test_a_trajectory_is_replayed_from_python_as_its_page_says(
    tmp_path, monkeypatch, capsys, play, bash, task, backend, renderer, profile
) -> None:
    recorded = await play(*(bash(f"echo {number}") for number in range(6)), *EMPTY_SCRIPT)
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    with Store.open("runs/agentgym.db") as store:
        sampled = replace(
            recorded, id=f"3f9a{recorded.id[4:]}", policy_kind=PolicyKind.MODEL
        )  # so that it can be re-scored
        store.add(sampled, profile.document())
    names = {"task": task, "backend": backend, "renderer": renderer}
    names["policy"] = ScriptedPolicy(EMPTY_SCRIPT, renderer)
    found = await run_block("replay.md", 0, names=names, **{"rollouts=8": "rollouts=1"})
    assert capsys.readouterr().out.startswith("7 7 True None")
    assert [child.parent_id for child in found["children"]] == [found["trajectory"].id]
