"""What another harness asked is kept as it was asked, and rendered again to the recorded prompts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.errors import InputError
from agentgym.store import Store
from harness.gateway.asked import kept
from harness.replay import fork, rerender
from harness.replay.transcript import Transcriber

from .conftest import TOOL

USER = {"role": "user", "content": "Mend it. 日本🙂 <|im_end|>"}


async def play(chat, typist) -> None:
    """An agent that appends, with a helper of its own and a turn that it rewrites; the same words are sampled twice."""
    typist.say("I look.", ("bash", {"command": "ls"}))
    first = (await chat([USER], tools=[TOOL]))["choices"][0]["message"]
    answered = {"role": "tool", "content": "a.py\n", "tool_call_id": first["tool_calls"][0]["id"]}
    typist.say("I look.", ("bash", {"command": "ls"}))
    second = (await chat([USER, first, answered], tools=[TOOL]))["choices"][0]["message"]
    typist.say("helped")
    await chat([{"role": "user", "content": "help"}])
    again = {"role": "tool", "content": "", "tool_call_id": second["tool_calls"][0]["id"]}
    typist.say("done\n")
    await chat([USER, first, answered, second, again], tools=[TOOL], stop=["ne"])
    typist.say("other")
    await chat([USER, {"role": "assistant", "content": "I never said that."}, {"role": "user", "content": "Go on."}])


async def test_the_prompts_come_out_the_same(chat, typist, record, task, profile, renderer) -> None:
    await play(chat, typist)
    made = await record()
    report = rerender(made, task, profile, renderer)
    assert (report.calls, report.identical, report.stopped) == (5, 5, "")
    sent = [ask for ask, _ in kept(made.metadata["gateway"]["asked"])]
    assert sorted(len(ask.messages) for ask in sent) == [1, 1, 3, 3, 5]
    assert sum(bool(ask.tools) for ask in sent) == 3
    assert [ask.stop for ask in sent if len(ask.messages) == 5] == [("ne",)]


async def test_a_prompt_that_comes_out_different_is_found_alone(chat, typist, record, task, profile, renderer) -> None:
    await play(chat, typist)
    made = await record()
    calls = list(made.calls)
    ids = calls[1].prompt_token_ids.copy()
    ids[-5] += 1
    calls[1] = replace(calls[1], prompt_token_ids=ids)
    report = rerender(replace(made, calls=tuple(calls)), task, profile, renderer)
    # What follows is laid on the recorded prompt, which the recorded call 2 does not go on from.
    assert [(one.call_index, one.position) for one in report.differences] == [(1, len(ids) - 5), (2, len(ids) - 5)]


async def test_a_conversation_that_was_appended_to_is_exported_in_its_own_words(
    chat, typist, record, task, renderer, tmp_path
) -> None:
    typist.say("I look.", ("bash", {"command": "ls"}))
    first = (await chat([USER], tools=[TOOL]))["choices"][0]["message"]
    typist.say("done")
    await chat(
        [USER, first, {"role": "tool", "content": "a.py", "tool_call_id": first["tool_calls"][0]["id"]}], tools=[TOOL]
    )
    with Store.open(tmp_path / "store.db") as store:
        transcript = Transcriber(store, lambda digest: task, lambda _: renderer)(await record())
    assert transcript.whole
    assert [(one["role"], one["content"]) for one in transcript.messages] == [
        ("user", USER["content"]),
        ("assistant", "I look."),
        ("tool", "a.py"),
        ("assistant", "done"),
    ]
    assert [tool["function"]["name"] for tool in transcript.tools] == ["bash"]


async def test_what_cannot_be_done_is_refused_with_the_reason(chat, typist, record, task, profile, renderer) -> None:
    typist.say("done")
    await chat([USER])
    made = await record()
    with pytest.raises(InputError, match="no record holds its state"):
        await fork(made, task, step=0, policy=typist, renderer=renderer, profile=profile, backend=None)
    notes = {key: value for key, value in made.metadata["gateway"].items() if key != "asked"}
    with pytest.raises(InputError, match="kept nothing of what it sent"):
        rerender(replace(made, metadata={"gateway": notes}), task, profile, renderer)
