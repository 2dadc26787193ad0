"""What another harness asked is kept as it was asked, and rendered again to the recorded prompts."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.store import Store
from agentgym.store.records import FinishReason
from harness.gateway.ask import Answer, Ask
from harness.gateway.asked import keep, kept
from harness.policies.protocol import Generation, PolicyError
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


async def test_an_equal_request_is_compared_with_what_is_rendered_not_with_the_first(
    chat, typist, record, task, profile, renderer
) -> None:
    typist.say("one"), typist.say("two")
    await chat([USER]), await chat([USER])
    made = await record()
    calls = []
    for call in made.calls:
        ids = call.prompt_token_ids.copy()
        ids[-5] += 1
        calls.append(replace(call, prompt_token_ids=ids))
    report = rerender(replace(made, calls=tuple(calls)), task, profile, renderer)
    assert [one.call_index for one in report.differences] == [0, 1]


async def test_the_order_of_requests_needs_no_clock(
    chat, typist, record, task, profile, renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a clock that was set back between two calls, the second still finds the answer of the first."""
    typist.say("ok\n")
    await chat([USER])
    now = time.time()
    monkeypatch.setattr("harness.gateway.session.time.time", lambda: now - 60)
    typist.say("done")
    await chat([USER, {"role": "assistant", "content": "ok"}, USER])
    report = rerender(await record(), task, profile, renderer)
    assert (report.calls, report.identical) == (2, 2)


async def test_a_request_that_failed_leaves_nothing_laid(client, chat, typist, record, task, profile, renderer) -> None:
    """Its example turn is what the policy then says; asked again, the prompt has what was sampled, then and today."""
    longer = [USER, {"role": "assistant", "content": "ok"}, USER]
    typist.fail(PolicyError("down"))
    assert (await client.post("/v1/chat/completions", json={"messages": longer})).status_code == 502
    sampled = typist.say("ok\n")
    await chat([USER])
    typist.say("done")
    await chat(longer)
    edge = len(typist.prompts[1])
    assert typist.prompts[2][edge : edge + len(sampled)] == sampled
    report = rerender(await record(), task, profile, renderer)
    assert (report.calls, report.identical) == (2, 2)


async def test_equal_requests_at_once_are_laid_of_what_each_of_them_found(
    chat, typist, record, task, profile, renderer
) -> None:
    """Between the two the policy says the words that both bring as an example."""
    longer = [USER, {"role": "assistant", "content": "ok"}, USER]
    typist.say("one")
    typist.hold.clear()
    first, held = asyncio.create_task(chat(longer)), typist.hold
    await asyncio.sleep(0.3)
    typist.hold = asyncio.Event()
    typist.hold.set()
    typist.say("ok\n")
    await chat([USER])
    typist.say("two")
    await chat(longer)
    assert typist.prompts[0] != typist.prompts[2]
    held.set()
    await first
    report = rerender(await record(), task, profile, renderer)
    assert (report.calls, report.identical) == (3, 3)


def test_what_was_asked_comes_back_as_it_was_written() -> None:
    """1 is not true, and a template shows the keys in their order."""

    def ask(value: object) -> Ask:
        calls = [{"type": "function", "id": "c", "function": {"name": "bash", "arguments": {"command": value}}}]
        return Ask(messages=(USER, {"role": "assistant", "content": "", "tool_calls": calls}, USER))

    values = [1, True, 1.0, {"a": 1, "b": 2}, {"b": 2, "a": 1}]
    nothing = np.zeros(0, np.int32)
    none = Generation(nothing, nothing.astype("float32"), (), FinishReason.ABORT)
    asked = [(ask(value), Answer(nothing, none, "", None, (), "stop")) for value in values]
    again = [one.messages for one, _ in kept(json.loads(json.dumps(keep(asked, [(k, k) for k in range(len(asked))]))))]
    assert [json.dumps(one) for one in again] == [json.dumps(one.messages) for one, _ in asked]


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
    (asked,) = made.metadata["gateway"]["asked"]
    for odd in ({}, {"number": 1, "after": 0}, {"number": 0, "after": 1}, {"number": "0", "after": 0}):
        document = {key: value for key, value in asked.items() if key not in ("number", "after")} | odd
        with pytest.raises(InputError, match="in which order"):
            rerender(replace(made, metadata={"gateway": {"asked": [document]}}), task, profile, renderer)
    notes = {key: value for key, value in made.metadata["gateway"].items() if key != "asked"}
    with pytest.raises(InputError, match="kept nothing of what it sent"):
        rerender(replace(made, metadata={"gateway": notes}), task, profile, renderer)


@pytest.mark.parametrize(
    "asked",
    [
        5,
        [{}],
        [{"shared": 0}],
        [{"shared": 0, "messages": ["x"]}],
        [{"shared": 0, "messages": [{}]}],
        [{"shared": 0, "messages": [{"role": "wizard", "content": "x"}]}],
        [{"shared": 0, "messages": [{"role": "user", "content": 5}]}],
        [{"shared": 1, "messages": [USER]}],
        [{"shared": -1, "messages": [USER]}],
        [{"shared": 0, "messages": [USER], "tools": [5]}],
        [{"shared": 0, "messages": [USER], "call_ids": 5}],
        [{"shared": 0, "messages": [USER], "text": 5}],
    ],
)
async def test_what_an_import_says_was_asked_is_looked_at_first(
    chat, typist, record, task, profile, renderer, tmp_path, asked
) -> None:
    typist.say("done")
    await chat([USER])
    made = await record()
    odd = replace(made, metadata={"gateway": {"asked": asked}})
    with pytest.raises(InputError, match="kept nothing of what it sent"):
        rerender(odd, task, profile, renderer)
    with Store.open(tmp_path / "store.db") as store:
        assert not Transcriber(store, lambda digest: task, lambda _: renderer)(odd).whole
