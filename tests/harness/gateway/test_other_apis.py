"""Completions, responses and Anthropic's messages: the same evidence as chat, whatever the shape it comes in."""

from __future__ import annotations

import json

import openai
import pytest

from agentgym.store.sequences import sequences
from agentgym.store.validate import faults

from .conftest import TOOL

SCHEMA = TOOL["function"]["parameters"]


def standing(typist, *sampled: list[int]) -> bool:
    """Do all of these stand, as sampled, in the last prompt?"""
    last = ",".join(map(str, typist.prompts[-1]))
    return all(",".join(map(str, ids)) in last for ids in sampled)


async def test_raw_text_goes_on_from_the_ids_it_stands_for(client, typist, renderer, record) -> None:
    prompt = "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n"
    first = typist.say("Hello there.")
    answer = (await client.post("/v1/completions", json={"prompt": prompt, "logprobs": 1})).json()
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("Hello there.", "stop")
    assert len(choice["logprobs"]["token_logprobs"]) == len(first)
    assert typist.prompts[0] == renderer.tokenizer.encode(prompt)

    second = typist.say("Bye.")
    longer = prompt + choice["text"] + "<|im_end|>\n<|im_start|>user\nBye?<|im_end|>\n<|im_start|>assistant\n"
    await client.post("/v1/completions", json={"prompt": longer})
    assert typist.prompts[1][: len(typist.prompts[0]) + len(first)] == [*typist.prompts[0], *first]
    assert renderer.decode(typist.prompts[1]) == longer
    trajectory = await record()
    (sequence,) = sequences(trajectory)
    assert sequence.action_count == len(first) + len(second)
    assert faults(trajectory) == []


async def test_raw_text_that_leaves_out_the_stop_token_keeps_the_rest(client, typist, record) -> None:
    first = typist.say("Hello there.")
    (choice,) = (await client.post("/v1/completions", json={"prompt": "P:"})).json()["choices"]
    last = typist.say("Bye.")
    await client.post("/v1/completions", json={"prompt": f"P:{choice['text']}\nQ:"})
    total = len(first) + len(last)
    assert (await record()).metadata["gateway"]["kept_fraction"] == (total - 1) / total


async def test_raw_ids_are_taken_as_they_are(client, typist) -> None:
    sampled = typist.say("ok")
    body = {"prompt": [1, 2, 3], "return_token_ids": True, "stream": False}
    (choice,) = (await client.post("/v1/completions", json=body)).json()["choices"]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == ([1, 2, 3], sampled)


async def test_a_raw_stream(client, typist) -> None:
    typist.say("a longer answer that comes in several parts")
    body = {"prompt": "x", "stream": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", "/v1/completions", json=body) as response:
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"])
    assert text == "a longer answer that comes in several parts"


@pytest.mark.parametrize("prompt", ["", [], ["a", "b"], [[1], [2]], [1.5], None, {}], ids=str)
async def test_a_raw_prompt_that_is_none(client, prompt) -> None:
    response = await client.post("/v1/completions", json={"prompt": prompt})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "prompt")


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_through_openais_client(url, session, typist, record, stream) -> None:
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=session.key, max_retries=0)
    tool = {"type": "function", "name": "bash", "description": "Run it", "parameters": SCHEMA, "strict": None}
    items: list = [{"role": "user", "content": [{"type": "input_text", "text": "Look."}]}]
    options = {"model": "any", "instructions": "Be brief.", "tools": [tool], "store": False}

    async def ask():
        if not stream:
            return await client.responses.create(input=items, **options)
        async with client.responses.stream(input=items, **options) as events:
            kinds = [event.type async for event in events]
            assert kinds[0] == "response.created"
            return await events.get_final_response()

    first = typist.say("I look.", ("bash", {"command": "ls"}))
    answer = await ask()
    said, call = answer.output
    assert said.content[0].text == "I look."
    assert (call.type, json.loads(call.arguments)) == ("function_call", {"command": "ls"})
    items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "a.py"})
    second = typist.say("Done.")
    assert (await ask()).output_text == "Done."
    assert standing(typist, first)
    (sequence,) = sequences(await record())
    assert sequence.action_count == len(first) + len(second)


async def test_anthropics_messages(client, typist, session, record) -> None:
    del client.headers["Authorization"]
    client.headers["x-api-key"] = session.key
    tool = {"name": "bash", "description": "Run it", "input_schema": SCHEMA}
    messages: list = [{"role": "user", "content": "Look."}]
    body = {"model": "any", "max_tokens": 200, "system": [{"type": "text", "text": "Be brief."}], "tools": [tool]}

    first = typist.say("I look.", ("bash", {"command": "ls"}))
    answer = (await client.post("/v1/messages", json=body | {"messages": messages})).json()
    text, call = answer["content"]
    assert (text["text"], call["input"], answer["stop_reason"]) == ("I look.", {"command": "ls"}, "tool_use")
    assert answer["usage"] == {"input_tokens": len(typist.prompts[0]), "output_tokens": len(first)}
    messages.append({"role": "assistant", "content": answer["content"]})
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "a.py"}]}
    messages.append({"role": "user", "content": [result, {"type": "text", "text": "And now?"}]})

    second = typist.say("", ("bash", {"command": "cat a.py"}))
    streamed = body | {"messages": messages, "stream": True}
    async with client.stream("POST", "/v1/messages", json=streamed) as response:
        data = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]
    kinds = [event["type"] for event in data]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    parts = [event["delta"]["partial_json"] for event in data if event["type"] == "content_block_delta"]
    assert json.loads("".join(parts)) == {"command": "cat a.py"}
    assert data[-2]["delta"]["stop_reason"] == "tool_use"
    assert standing(typist, first)
    (sequence,) = sequences(await record())
    assert sequence.action_count == len(first) + len(second)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/messages", {"messages": [{"role": "user", "content": "x"}]}, "max_tokens must be given"),
        ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "system", "content": "x"}]}, "user or assistant"),
        ("/v1/messages", {"max_tokens": 5, "messages": [], "thinking": {"type": "enabled"}}, "thinking"),
        (
            "/v1/messages",
            {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "tools": 5},
            "tools must be",
        ),
        ("/v1/responses", {"input": "x", "tools": True}, "tools must be"),
        ("/v1/responses", {"input": "x", "metadata": {"a": "\ud800"}}, "surrogate"),
        ("/v1/responses", {"input": "x", "metadata": {"a": float("nan")}}, "NaN"),
        ("/v1/completions", {"prompt": "x", "stream": True, "stream_options": "x"}, "stream_options must be"),
        ("/v1/responses", {"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
        ("/v1/responses", {"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
        ("/v1/completions", {"prompt": "x", "best_of": 3}, "best_of"),
    ],
)
async def test_what_cannot_be_had_is_refused_in_the_apis_own_shape(client, path, body, says) -> None:
    response = await client.post(path, content=json.dumps(body))
    assert response.status_code == 400
    document = response.json()
    assert says in document["error"]["message"]
    assert ("type" in document) == (path == "/v1/messages")
