"""Clients that go away, ask again or read half: recorded once, and recorded as what it was."""

from __future__ import annotations

import asyncio
import json

import httpx
import openai
import pytest

from agentgym.store.records import Termination
from harness.gateway.api.chat import Chat
from harness.gateway.api.dialect import Served
from harness.gateway.api.messages import AnthropicMessages
from harness.gateway.api.responses import Responses
from harness.gateway.delivery import _stream, deliver
from harness.policies.protocol import PolicyError

from .conftest import TOOL

FIRST = [{"role": "user", "content": "Hello."}]
BODY = {"model": "any", "messages": FIRST}


async def events(response: httpx.Response) -> list:
    return [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: ")]


async def test_a_stream_is_the_same_turn_in_pieces(client, chat, typist, record) -> None:
    typist.say("I look around the whole house first.", ("bash", {"command": "ls -la && cat a_longer_name.py"}))
    options = {"stream": True, "tools": [TOOL], "stream_options": {"include_usage": True}, "logprobs": True}
    async with client.stream("POST", "/v1/chat/completions", json=BODY | options) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        *chunks, done = await events(response)
    assert done == "[DONE]"
    *chunks, usage = map(json.loads, chunks)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "I look around the whole house first."
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["function"]["name"] == "bash"
    arguments = "".join(call["function"]["arguments"] for call in calls)
    assert json.loads(arguments) == {"command": "ls -la && cat a_longer_name.py"}
    assert len(deltas) > 5
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["usage"]["completion_tokens"] == len((await record()).calls[0].generation_token_ids)


async def test_a_client_that_gives_up_and_asks_again_gets_the_one_answer(url, session, typist, record) -> None:
    """OpenAI's own client, whose time-out is shorter than the generation."""
    typist.say("patience")
    typist.hold.clear()
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=session.key, timeout=0.6, max_retries=100)
    asked = asyncio.create_task(client.chat.completions.create(model="any", messages=FIRST))
    async with asyncio.timeout(60):
        while not any(one.requests > 1 for known in session._known.values() for one in known):  # noqa: ASYNC110 - when a client asks is its own
            await asyncio.sleep(0.05)
    typist.hold.set()
    answer = await asked
    assert answer.choices[0].message.content == "patience"
    trajectory = await record()
    assert len(trajectory.calls) == 1
    assert trajectory.metadata["gateway"]["repeated"] >= 1
    assert trajectory.metadata["gateway"]["delivered_fraction"] == 1.0


async def test_an_abandoned_request_is_answered_to_whoever_asks_next(client, chat, typist, record) -> None:
    typist.say("kept")
    typist.hold.clear()
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/v1/chat/completions", json=BODY, timeout=0.4)
    await asyncio.sleep(0.2)
    typist.hold.set()
    await asyncio.sleep(0.2)
    assert (await chat(FIRST, user="somebody else"))["choices"][0]["message"]["content"] == "kept"
    assert len((await record()).calls) == 1


async def test_an_answer_nobody_took_is_recorded_as_undelivered(client, typist, record) -> None:
    typist.say("unheard")
    typist.hold.clear()
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/v1/chat/completions", json=BODY, timeout=0.4)
    await asyncio.sleep(0.2)
    typist.hold.set()
    await asyncio.sleep(0.2)
    notes = (await record()).metadata["gateway"]
    assert (notes["delivered_fraction"], notes["aborted"], notes["kept_fraction"]) == (0.0, 1, 0.0)


async def test_a_stream_that_is_cut_is_recorded_once_with_what_was_taken(typist, session, record) -> None:
    """Taken event by event, since the buffers of a socket on one machine hold megabytes."""
    sampled = typist.say("word " * 100)
    exchange = session.ask(Chat().read(BODY))
    served = Served("any", session.place.setting.renderer)
    stream = _stream(exchange, None, BODY, Chat(), served, 1.0)
    taken = ""
    async for event in stream:
        if b"[DONE]" not in event and not event.startswith(b":"):
            taken += json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"].get("content") or ""
        if len(taken) > 200:
            break
    await stream.aclose()

    trajectory = await record()
    (call,) = trajectory.calls
    assert call.generation_token_ids.tolist() == sampled
    notes = trajectory.metadata["gateway"]
    assert notes["aborted"] == 1
    delivered = round(notes["delivered_fraction"] * len(sampled))
    assert 0 < delivered < len(sampled)
    assert taken.startswith(session.place.setting.renderer.decode(sampled[:delivered]))


@pytest.mark.parametrize("dialect", [Chat(), Responses(), AnthropicMessages()], ids=lambda one: type(one).__name__)
async def test_of_a_call_that_is_cut_what_the_client_read_is_delivered(typist, session, record, dialect) -> None:
    """Whatever the API, and however JSON would have to spell it: a quarter of the arguments is a quarter."""
    typist.say("", ("bash", {"command": "日本" * 90}))
    exchange = session.ask(Chat().read(BODY | {"tools": [TOOL]}))
    answer = await exchange.task
    parts = [
        event.chars for event in dialect.events({}, answer, Served("m", session.place.setting.renderer)) if event.chars
    ]
    exchange.sent = sum(parts[: len(parts) // 4])
    assert (await record()).metadata["gateway"]["delivered_fraction"] == pytest.approx(0.25, abs=0.05)


async def test_a_stream_that_is_closed_while_it_waits_may_be_asked_for_again(client, chat, typist, record) -> None:
    typist.say("late")
    typist.hold.clear()
    async with client.stream("POST", "/v1/chat/completions", json=BODY | {"stream": True}) as response:
        assert (await anext(response.aiter_lines())).startswith(": ")
    await asyncio.sleep(0.3)
    typist.hold.set()
    assert (await chat(FIRST))["choices"][0]["message"]["content"] == "late"
    assert len((await record()).calls) == 1


async def test_a_delivered_request_asked_again_is_another_sample(chat, typist, record) -> None:
    typist.say("one"), typist.say("two")
    answers = [(await chat(FIRST))["choices"][0]["message"]["content"] for _ in range(2)]
    assert answers == ["one", "two"]
    trajectory = await record()
    assert len(trajectory.calls) == 2
    assert trajectory.metadata["gateway"]["branches"] == 2


@pytest.mark.parametrize("header", [{"Idempotency-Key": "k1"}, {"x-stainless-retry-count": "1"}])
async def test_a_client_that_says_it_asks_again_gets_the_same(client, typist, record, header) -> None:
    typist.say("one"), typist.say("two")
    ids = set()
    for headers in ({"Idempotency-Key": "k1"}, header):
        ids.add((await client.post("/v1/chat/completions", json=BODY, headers=headers)).json()["id"])
    assert len(ids) == 1
    assert len((await record()).calls) == 1


async def test_an_empty_key_is_none(client, typist, record) -> None:
    typist.say("one"), typist.say("two")
    for _ in range(2):
        await client.post("/v1/chat/completions", json=BODY, headers={"Idempotency-Key": ""})
    assert len((await record()).calls) == 2


async def test_a_key_is_remembered_however_many_came_between(client, typist, record) -> None:
    typist.say("one"), typist.say("two")
    said = []
    for key in ("a", "b", "a", "b"):
        answer = await client.post("/v1/chat/completions", json=BODY, headers={"Idempotency-Key": key})
        said.append(answer.json()["choices"][0]["message"]["content"])
    assert said == ["one", "two", "one", "two"]
    assert len((await record()).calls) == 2


async def test_who_was_dropped_gets_its_own_answer_and_nobody_elses(client, chat, typist, record) -> None:
    """Two equal requests at once; the first is dropped and asked again while the second still waits."""
    typist.say("one"), typist.say("two")
    typist.hold.clear()
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/v1/chat/completions", json=BODY, timeout=0.4)
    await asyncio.sleep(0.2)
    again = {"X-Stainless-Retry-Count": "1"}
    second = asyncio.create_task(client.post("/v1/chat/completions", json=BODY, headers={"Idempotency-Key": "other"}))
    await asyncio.sleep(0.2)
    first = asyncio.create_task(client.post("/v1/chat/completions", json=BODY, headers=again))
    await asyncio.sleep(0.2)
    typist.hold.set()
    said = [(await one).json()["choices"][0]["message"]["content"] for one in (first, second)]
    assert said == ["one", "two"]
    assert len((await record()).calls) == 2


async def test_an_answer_on_its_way_is_nobody_elses(session, typist) -> None:
    """Between the making of a response and its last byte an equal request is one of its own."""
    typist.say("one"), typist.say("two")
    ask = Chat().read(BODY)
    exchange = session.ask(ask)
    served = Served("m", session.place.setting.renderer)
    for body in (BODY, BODY | {"stream": True}):
        response = await deliver(exchange, Waiting(), body, Chat(), served, ping_s=1.0)
        assert (exchange.clients, exchange.abandoned) == (1, False)

        async def send(message) -> None:
            assert exchange.clients == 1

        async def receive() -> dict:
            await asyncio.Event().wait()
            return {}

        await response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
        assert (exchange.clients, exchange.whole) == (0, True)


class Waiting:
    """A client that stays."""

    async def receive(self) -> dict:
        await asyncio.Event().wait()
        return {}


async def test_equal_requests_at_once_are_samples_of_their_own(chat, typist, record) -> None:
    typist.say("one"), typist.say("two")
    typist.hold.clear()
    both = [asyncio.create_task(chat(FIRST)) for _ in range(2)]
    await asyncio.sleep(0.3)
    typist.hold.set()
    assert {(await one)["choices"][0]["message"]["content"] for one in both} == {"one", "two"}
    seeds = [call.sampling.seed for call in (await record()).calls]
    assert len(set(seeds)) == 2


async def test_a_retry_after_a_failure_never_takes_the_answer_of_an_equal_request(client, typist, record) -> None:
    """Two at once, of which one fails, and one before them; when each has been asked again, all answers are their own."""

    async def ask(retry: int = 0):
        response = await client.post("/v1/chat/completions", json=BODY, headers={"x-stainless-retry-count": str(retry)})
        return response.json()["choices"][0]["message"]["content"] if response.status_code == 200 else None

    typist.say("before")
    assert await ask() == "before"
    typist.fail(PolicyError("down")), typist.fail(PolicyError("down")), typist.say("beside")
    typist.hold.clear()
    asked = []
    for _ in range(3):
        asked.append(asyncio.create_task(ask()))
        await asyncio.sleep(0.2)
    typist.hold.set()
    assert [await one for one in asked] == [None, None, "beside"]
    typist.fail(PolicyError("still down")), typist.say("first"), typist.say("second")
    assert [await ask(1), await ask(1), await ask(2)] == [None, "first", "second"]
    assert await ask(1) == "second", "nothing is owed any more, so this one had its answer"
    assert len((await record()).calls) == 4


async def test_a_policy_that_fails_is_a_server_error_and_nothing_is_recorded(
    client, chat, typist, session, record
) -> None:
    typist.fail(PolicyError("the server is gone"))
    response = await client.post("/v1/chat/completions", json=BODY)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "policy_failure")
    with pytest.raises(PolicyError):
        session.verdict(Termination.SUBMITTED)
    typist.say("back")
    await chat(FIRST)
    assert session.verdict(Termination.SUBMITTED) is Termination.SUBMITTED
    trajectory = await record()
    assert len(trajectory.calls) == 1
    assert "the server is gone" in trajectory.metadata["gateway"]["errors"][0]


async def test_a_slow_stream_keeps_its_connection_and_reports_a_late_failure(client, typist) -> None:
    typist.fail(PolicyError("too late"))
    typist.hold.clear()
    async with client.stream("POST", "/v1/chat/completions", json=BODY | {"stream": True}) as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        assert (await anext(lines)).startswith(": ")
        typist.hold.set()
        rest = [line async for line in lines]
    (error,) = [json.loads(line.removeprefix("data: ")) for line in rest if line.startswith("data: ")]
    assert error["error"]["code"] == "policy_failure"


async def test_a_generation_in_flight_when_the_episode_ends_is_given_up(client, typist, gateway, session) -> None:
    typist.say("never")
    typist.hold.clear()
    asked = asyncio.create_task(client.post("/v1/chat/completions", json=BODY))
    await asyncio.sleep(0.3)
    await gateway.dismiss(session)
    assert (await asked).json()["error"]["code"] == "episode_over"
    trajectory = session.record.trajectory(Termination.TIME_LIMIT)
    assert trajectory.calls == ()
    assert trajectory.metadata["gateway"]["unfinished"] == 1


async def test_a_policy_that_gives_a_request_up_may_be_asked_again(client, chat, typist, record) -> None:
    typist.fail(asyncio.CancelledError())
    assert (await client.post("/v1/chat/completions", json=BODY)).status_code == 502
    typist.say("back")
    assert (await chat(FIRST))["choices"][0]["message"]["content"] == "back"
    assert len((await record()).calls) == 1
