"""What cannot be had is refused in words and shapes that clients know, and changes nothing."""

from __future__ import annotations

import asyncio
import functools
import json

import httpx
import openai
import pytest

from agentgym.store.records import Termination
from harness.gateway.session import Session
from harness.policies.protocol import PolicyError
from harness.profile import Limits
from harness.workplace import HarnessError

FIRST = [{"role": "user", "content": "Hello."}]
DEEP = functools.reduce(lambda inner, _: {"in": [inner]}, range(200), {})
DEEP_CALL = {"name": "bash", "arguments": json.dumps(DEEP)}
UNSENDABLE_CALL = {"function": {"name": "bash", "arguments": '{"command": "\\ud800"}'}}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"seed": True}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"guided_json": {}}, "guided_json"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages[0]"),
        ({"messages": [*FIRST, {"role": "assistant", "content": "half a"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, None),
        ({"zz\ud800": 1}, None),
        ({"metadata": {"a": float("nan")}}, None),
        ({"stream": "yes"}, "stream"),
        ({"stream": True, "stream_options": "x"}, "stream_options"),
        ({"return_token_ids": 1}, "return_token_ids"),
        ({"parallel_tool_calls": 0}, "parallel_tool_calls"),
        ({"tools": 5}, "tools"),
        ({"messages": [{"role": "user", "content": [{"type": "refusal", "refusal": 5}]}]}, "messages[0]"),
        ({"messages": [*FIRST, {"role": "assistant", "tool_calls": 5}, *FIRST]}, "messages[1]"),
        ({"messages": [*FIRST, {"role": "assistant", "tool_calls": [UNSENDABLE_CALL]}, *FIRST]}, "messages[1]"),
        ({"metadata": DEEP}, None),
        ({"messages": [*FIRST, {"role": "assistant", "tool_calls": [{"function": DEEP_CALL}]}, *FIRST]}, "messages[1]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_request_that_cannot_be_served_names_its_fault(client, typist, record, body, param) -> None:
    data = json.dumps({"model": "any", "messages": FIRST} | body)
    response = await client.post("/v1/chat/completions", content=data)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert typist.prompts == []
    assert (await record()).calls == ()


async def test_values_that_change_nothing_are_taken(chat, typist) -> None:
    typist.say("ok")
    options = {"n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "user": "me", "top_p": 1}
    await chat(FIRST, response_format={"type": "text"}, tool_choice="auto", stop=None, logprobs=False, **options)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff"])
async def test_a_body_that_is_no_json_object(client, data) -> None:
    response = await client.post("/v1/chat/completions", content=data)
    assert response.status_code == 400
    assert "JSON" in response.json()["error"]["message"]


async def test_a_retry_count_of_any_length(client, typist) -> None:
    typist.say("ok")
    headers = {"x-stainless-retry-count": "9" * 5000}
    assert (await client.post("/v1/chat/completions", json={"messages": FIRST}, headers=headers)).status_code == 200


async def test_a_body_that_is_too_large(client, gateway) -> None:
    gateway.max_body = 1000
    response = await client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x" * 2000}]})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


async def test_keys(url, session, gateway) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        for headers in ({}, {"Authorization": "Bearer sk-wrong"}, {"Authorization": f"Basic {session.key}"}):
            response = await client.post("/v1/chat/completions", json={"messages": FIRST}, headers=headers)
            assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
        assert (await client.get("/episode", headers={"x-api-key": session.key})).status_code == 200
        await gateway.dismiss(session)
        assert (await client.get("/episode", headers={"x-api-key": session.key})).status_code == 401
        assert (await client.get("/health")).json() == {"status": "ok", "open_episodes": 0}
        assert (await client.get("/nowhere")).json()["error"]["message"].startswith("GET /nowhere")


async def test_openais_client_knows_these_errors(url, session, typist) -> None:
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError, match="unknown"):
        await client.chat.completions.create(model="any", messages=FIRST)
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=session.key, max_retries=0)
    with pytest.raises(openai.BadRequestError, match="n = 3"):
        await client.chat.completions.create(model="any", messages=FIRST, n=3)


@pytest.fixture
def limited(session, gateway):
    """The same episode with other budgets."""

    def make(**limits: object) -> Session:
        setting = session.place.setting
        profile = setting.profile.model_copy(update={"limits": Limits(**limits)})
        object.__setattr__(setting, "profile", profile)
        other = Session(session.place, key=session.key)
        gateway.admit(other)
        return other

    return make


async def test_a_spent_budget_ends_the_episode_and_says_so(client, chat, typist, limited) -> None:
    session = limited(max_turns=1)
    typist.say("one")
    await chat(FIRST)
    for _ in range(2):
        response = await client.post("/v1/chat/completions", json={"messages": [*FIRST, *FIRST]})
        assert (response.status_code, response.json()["error"]["code"]) == (403, "episode_over")
    assert session.verdict(Termination.SUBMITTED) is Termination.MAX_STEPS


@pytest.mark.parametrize("limits", [{"max_turns": 2}, {"max_tokens": 6, "max_tokens_per_turn": 3}], ids=str)
async def test_requests_at_once_stay_within_the_budget(client, typist, limited, record, limits) -> None:
    """The third waits for what the first two leave; one that fails leaves all of it."""
    session = limited(**limits)
    typist.fail(PolicyError("down"))
    for _ in range(3):
        typist.say("a long answer that goes on")
    typist.hold.clear()
    asked = [asyncio.create_task(client.post("/v1/chat/completions", json={"messages": FIRST})) for _ in range(4)]
    await asyncio.sleep(0.5)
    assert (len(typist.prompts), session.ended) == (2, None)
    typist.hold.set()
    assert sorted([(await one).status_code for one in asked]) == [200, 200, 403, 502]
    assert session.ended in (Termination.MAX_STEPS, Termination.MAX_TOKENS)
    await session.close()
    assert len(session.record.calls) == 2


async def test_a_conversation_that_no_longer_fits(client, limited, typist) -> None:
    limited(max_context=60)
    response = await client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x " * 90}]})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert "maximum context length is 60 tokens" in response.json()["error"]["message"]


async def test_time_that_runs_out_while_the_policy_thinks(client, limited, typist) -> None:
    session = limited(wall_time_s=0.5)
    typist.say("never")
    typist.hold.clear()
    response = await client.post("/v1/chat/completions", json={"messages": FIRST})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "episode_over")
    assert session.ended is Termination.TIME_LIMIT
    assert session.over.is_set()


async def test_an_agent_that_asked_for_nothing_is_no_verdict_about_the_policy(session) -> None:
    with pytest.raises(HarnessError, match="without asking"):
        session.verdict(Termination.SUBMITTED)


async def test_requests_of_an_episode_run_at_once(chat, typist) -> None:
    typist.say("a"), typist.say("b")
    typist.hold.clear()
    asked = [asyncio.create_task(chat([{"role": "user", "content": name}])) for name in "ab"]
    await asyncio.sleep(0.5)
    assert len(typist.prompts) == 2
    typist.hold.set()
    await asyncio.gather(*asked)
