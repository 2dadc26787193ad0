"""A stream that begins while the turn is being sampled: what is handed on early is how the answer begins, in every API."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.store.records import FinishReason, VersionSpan
from harness.gateway.ask import Ask
from harness.gateway.live import Live
from harness.gateway.reading import read
from harness.policies.protocol import Generation, PolicyError

from .conftest import TOOL

PROSE = "First I read what the tests say, and only then do I touch the code that they are about."
USER = [{"role": "user", "content": "Hello."}]
REQUESTS = {
    "/v1/chat/completions": {"messages": USER, "tools": [TOOL]},
    "/v1/completions": {"prompt": "Hello."},
    "/v1/responses": {"input": "Hello."},
    "/v1/messages": {"messages": USER, "max_tokens": 500},
}


def said(data: dict) -> str:
    """The text that an event of any of the APIs hands over."""
    if choices := data.get("choices"):
        return choices[0].get("text") or (choices[0].get("delta") or {}).get("content") or ""
    delta = data.get("delta")
    return delta if isinstance(delta, str) else (delta or {}).get("text") or ""


@pytest.mark.parametrize("path", REQUESTS)
async def test_text_arrives_before_the_turn_is_over_and_the_record_is_of_the_whole(
    client, typist, record, path
) -> None:
    sampled = typist.say(PROSE)
    typist.rest.clear()
    text, early = "", ""
    async with client.stream("POST", path, json=REQUESTS[path] | {"model": "any", "stream": True}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                text += said(json.loads(line.removeprefix("data: ")))
            if len(text) >= 24 and not early:
                early = text
                typist.rest.set()
    assert early
    assert early != text
    assert text.startswith(PROSE)
    trajectory = await record()
    (call,) = trajectory.calls
    assert call.generation_token_ids.tolist() == sampled
    assert trajectory.metadata["gateway"]["delivered_fraction"] == 1.0


async def test_a_call_that_follows_prose_is_a_call(client, typist) -> None:
    typist.say(PROSE, ("bash", {"command": "ls"}))
    body = {"model": "any", "messages": USER, "tools": [TOOL], "stream": True}
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    assert "".join(delta.get("content") or "" for delta in deltas) == PROSE
    calls = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert json.loads("".join(call.get("arguments", "") for call in calls)) == {"command": "ls"}


async def test_a_client_that_goes_in_the_middle_is_recorded_once_and_may_ask_again(
    client, chat, typist, record
) -> None:
    sampled = typist.say(PROSE)
    typist.rest.clear()
    async with client.stream(
        "POST", "/v1/chat/completions", json={"model": "any", "messages": USER, "stream": True}
    ) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {") and said(json.loads(line.removeprefix("data: "))):
                break
    await asyncio.sleep(0.3)
    typist.rest.set()
    assert (await chat(USER))["choices"][0]["message"]["content"].startswith(PROSE)
    (call,) = (await record()).calls
    assert call.generation_token_ids.tolist() == sampled


async def test_a_policy_that_fails_in_the_middle_is_an_error_event_and_no_record(
    client, typist, record, monkeypatch
) -> None:
    typist.say(PROSE)

    async def broken(prompt_token_ids, *, on_tokens, **options) -> Generation:
        on_tokens(typist.turns.pop(0)[:14])
        await asyncio.sleep(0.2)
        raise PolicyError("cut")

    monkeypatch.setattr(typist, "stream", broken)
    body = {"model": "any", "messages": USER, "stream": True}
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: {")]
    assert json.loads(lines[-1])["error"]["code"] == "policy_failure"
    assert "".join(said(json.loads(line)) for line in lines[:-1])
    assert (await record()).calls == ()


words = st.sampled_from(
    ["I", " look", " ", "\n", "é", "🙂", "<tool_call>", "</tool_call>", "{", "[", "stop", "st", '"a": 1']
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(words, max_size=12), stop=st.sampled_from([(), ("stop",), ("\n", "op")]), calls=st.booleans())
def test_what_is_handed_on_early_is_how_the_answer_begins(parts, stop, calls, renderer, tokenizer) -> None:
    """Token by token, whatever was said: prose, broken and whole calls, half characters, stop strings."""
    ids = tokenizer.encode("".join(parts), add_special_tokens=False) + renderer.get_stop_token_ids()[:1]
    prompt = np.asarray(renderer.render_ids(USER, add_generation_prompt=True), np.int32)
    ask = Ask(messages=tuple(USER), tools=(TOOL,) if calls else (), read_calls=calls, stop=stop)
    live = Live(ask, renderer)
    live.begin(prompt)
    spans = (VersionSpan(0, 0, len(ids)),)
    whole = Generation(np.asarray(ids, np.int32), np.zeros(len(ids), np.float32), spans, FinishReason.STOP)
    answer = read(ask, prompt, whole, renderer)
    for token in ids:
        live.take([token])
        assert answer.content.startswith(live.text)
    if not stop and "".join(parts).isalpha() and len(parts) > 2:
        assert live.text
