"""Would today's harness make the same prompts, and where not?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import ContextEvent
from agentgym.store.transfer import export
from harness.policies.scripted import EMPTY_SCRIPT, Turn
from harness.profile import Profile
from harness.replay import rerender
from harness.replay.transcript import Transcriber

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]


@pytest.fixture
def recorded(play, bash):
    async def make(**changes):
        return await play(bash("echo one"), Turn("No call here."), bash("false"), *EMPTY_SCRIPT, **changes)

    return make


async def test_what_was_rendered_today_is_rendered_the_same(recorded, task, profile, renderer) -> None:
    report = rerender(await recorded(), task, profile, renderer)
    assert (report.calls, report.identical, report.stopped) == (4, 4, "")


@pytest.mark.parametrize("kind", ["truncate-observations", "window", "summarise"])
async def test_compacted_prompts_are_made_again_where_they_were_compacted(
    play, bash, task, profile, renderer, kind
) -> None:
    context = {"kind": kind, "at_tokens": 900, "keep_turns": 1, "observation_chars": 60}
    limits = {**profile.model_dump()["limits"], "max_turns": 12}
    small = Profile.model_validate({**profile.model_dump(), "context": context, "limits": limits})
    long = [bash(f"seq {n}00 {n}40") for n in range(2, 7)]
    turns = [*long[:2], Turn("I looked at numbers."), *long[2:], *EMPTY_SCRIPT] if kind == "summarise" else long
    made = await play(*turns, *EMPTY_SCRIPT, under=small)
    events = {call.context_event for call in made.calls}
    assert events & {ContextEvent.TRUNCATED, ContextEvent.COMPACTED}, events
    report = rerender(made, task, small, renderer)
    assert (report.identical, report.stopped) == (report.calls, ""), report.differences
    assert report.calls == len(made.calls)


async def test_another_system_prompt_differs_once_and_shows_where(recorded, task, profile, renderer) -> None:
    made = await recorded()
    prompts = profile.prompts.model_copy(update={"system": profile.prompts.system.replace("fix", "mend")})
    report = rerender(made, task, profile.model_copy(update={"prompts": prompts}), renderer)
    [difference] = report.differences  # every later prompt is judged from the recorded one before it
    assert difference.call_index == 0
    assert "fix" in difference.recorded
    assert "mend" in difference.rendered
    position = difference.position
    assert made.calls[0].prompt_token_ids[position] == difference.recorded_token != difference.rendered_token


async def test_a_difference_in_the_middle_and_one_at_the_end_are_found(recorded, task, profile, renderer) -> None:
    made = await recorded()
    calls = list(made.calls)
    calls[2] = replace(calls[2], prompt_token_ids=calls[2].prompt_token_ids[:-2])
    ids = calls[3].prompt_token_ids.copy()
    ids[-5] += 1
    calls[3] = replace(calls[3], prompt_token_ids=ids)
    report = rerender(replace(made, calls=tuple(calls)), task, profile, renderer)
    assert [(one.call_index, one.recorded_token is None) for one in report.differences] == [(2, True), (3, False)]
    assert report.differences[0].position == len(calls[2].prompt_token_ids)


async def test_another_version_of_the_task_is_refused(recorded, task, profile, renderer) -> None:
    with pytest.raises(InputError, match="is now sha256:x"):
        rerender(await recorded(), replace(task, digest="sha256:x"), profile, renderer)


async def test_a_trajectory_reads_as_the_conversation_it_was(recorded, task, profile, renderer, tmp_path) -> None:
    made = await recorded()
    with Store.open(tmp_path / "store.db") as store:
        store.add(made, profile.document())
        transcript = Transcriber(store, lambda digest: task, lambda _: renderer)(made)
        roles = [message["role"] for message in transcript.messages]
        assert roles == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
        ]
        assert transcript.messages[4]["content"] == "No call here."
        assert transcript.messages[2]["tool_calls"][0]["function"] == {
            "name": "bash",
            "arguments": {"command": "echo one"},
        }
        again = renderer.render_ids(list(transcript.messages[:2]), tools=profile.tool_specs, add_generation_prompt=True)
        np.testing.assert_array_equal(again, made.calls[0].prompt_token_ids)
        report = export(store, TrajectoryFilter(), "sft", tmp_path / "x.jsonl", transcribe=Transcriber(
            store, lambda digest: task, lambda _: renderer))  # fmt: skip
        assert report.rows == 1


async def test_of_another_harness_only_what_the_policy_said_is_known_in_words(
    recorded, task, profile, renderer, tmp_path
) -> None:
    made = replace(await recorded(), metadata={"gateway": {}})
    with Store.open(tmp_path / "store.db") as store:
        store.add(made, profile.document())
        transcript = Transcriber(store, lambda digest: task, lambda _: renderer)(made)
    with pytest.raises(InputError, match="kept nothing of what it sent"):
        rerender(made, task, profile, renderer)
    assert not transcript.whole
    assert [len(turn) for turn in transcript.turns] == [1] * len(made.calls)
    assert transcript.turns[0][0]["tool_calls"][0]["function"]["arguments"] == {"command": "echo one"}
    assert renderer.decode(made.calls[0].prompt_token_ids.tolist()) == transcript.opening[0]["content"]
