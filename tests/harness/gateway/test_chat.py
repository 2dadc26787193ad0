"""Chat completions over a real socket: the conversation a client sends as text becomes the tokens that were sampled."""

from __future__ import annotations

import json

import numpy as np
import pytest

from agentgym.store.records import ContextEvent
from agentgym.store.sequences import sequences
from agentgym.store.validate import faults
from harness.policies.protocol import PolicyError
from harness.render import assistant_turn

from .conftest import TOOL

FIRST = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]


def context(call) -> list[int]:
    return [*call.prompt_token_ids.tolist(), *call.generation_token_ids.tolist()]


async def test_an_agent_that_appends_leaves_one_sequence_of_what_was_sampled(chat, typist, record) -> None:
    first = typist.say("  I look.\n", ("bash", {"command": "ls\n"}))
    answer = await chat(FIRST, tools=[TOOL], temperature=0.5)
    (choice,) = answer["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == {"command": "ls\n"}

    second = typist.say("Done.")
    tool = {"role": "tool", "tool_call_id": call["id"], "content": "a.py <|im_end|> b.py"}
    answer = await chat([*FIRST, choice["message"], tool], tools=[TOOL], temperature=0.5)
    assert answer["choices"][0]["message"]["content"] == "Done."
    assert answer["choices"][0]["finish_reason"] == "stop"

    trajectory = await record()
    assert [call.generation_token_ids.tolist() for call in trajectory.calls] == [first, second]
    assert typist.prompts[1][: len(context(trajectory.calls[0]))] == context(trajectory.calls[0])
    assert answer["usage"] == {
        "prompt_tokens": len(typist.prompts[1]),
        "completion_tokens": len(second),
        "total_tokens": len(typist.prompts[1]) + len(second),
    }
    (sequence,) = sequences(trajectory)
    assert sequence.action_count == len(first) + len(second)
    assert set(sequence.policy_version[sequence.action_mask].tolist()) == {3}
    assert [call.sampling.temperature for call in trajectory.calls] == [0.5, 0.5]
    assert faults(trajectory) == []
    notes = trajectory.metadata["gateway"]
    assert (notes["delivered_fraction"], notes["kept_fraction"], notes["branches"]) == (1.0, 1.0, 1)


async def test_how_a_client_spells_a_turn_does_not_matter(chat, typist) -> None:
    """Given a reply that comes back as parts, with other JSON whitespace and no ids, its sampled ids stand all the same."""
    sampled = typist.say("Look:", ("bash", {"command": "ls", "timeout": 3}))
    message = (await chat(FIRST, tools=[TOOL]))["choices"][0]["message"]
    respelt = {
        "role": "assistant",
        "content": [{"type": "text", "text": f" {message['content']}\n"}],
        "tool_calls": [
            {"type": "function", "function": {"name": "bash", "arguments": '{"timeout":3,\n"command":"ls"}'}}
        ],
    }
    typist.say("ok")
    await chat([*FIRST, respelt, {"role": "tool", "content": "x"}], tools=[TOOL])
    edge = len(typist.prompts[0])
    assert typist.prompts[1][edge : edge + len(sampled)] == sampled


async def test_a_rewritten_history_is_another_branch_that_keeps_what_was_sampled(chat, typist, record) -> None:
    first, second = typist.say("One."), typist.say("Two.")
    await chat(FIRST)
    await chat([*FIRST, {"role": "assistant", "content": "One."}, {"role": "user", "content": "And?"}])
    third = typist.say("Three.")
    shortened = [FIRST[0], {"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Two."}]
    await chat([*shortened, {"role": "user", "content": "And?"}])

    trajectory = await record()
    events = [call.context_event for call in trajectory.calls]
    assert events == [ContextEvent.APPEND, ContextEvent.APPEND, ContextEvent.REWRITTEN]
    assert ",".join(map(str, second)) in ",".join(map(str, typist.prompts[2]))
    assert [s.action_count for s in sequences(trajectory)] == [len(first) + len(second), len(third)]
    assert trajectory.metadata["gateway"]["branches"] == 2
    assert faults(trajectory) == []


async def test_conversations_that_alternate_are_each_one_sequence(chat, typist, record) -> None:
    histories = {name: [{"role": "user", "content": f"I am {name}."}] for name in ("a", "b")}
    replies: dict[str, list[list[int]]] = {"a": [], "b": []}
    for turn in range(3):
        for name, history in histories.items():
            replies[name].append(typist.say(f"{name} {turn}"))
            message = (await chat(history))["choices"][0]["message"]
            history += [message, {"role": "user", "content": "more"}]

    trajectory = await record()
    lengths = [sum(map(len, replies[name])) for name in ("a", "b")]
    assert [s.action_count for s in sequences(trajectory)] == lengths
    assert faults(trajectory) == []


async def test_equal_words_of_two_conversations_stay_each_where_they_were_sampled(chat, typist, record) -> None:
    """Given replies whose texts differ by white space only, each conversation goes on from the ids of its own."""
    histories = [[{"role": "system", "content": name}, FIRST[1]] for name in "ab"]
    sampled = [typist.say("ok"), typist.say("ok\n")]
    for history in histories:
        message = (await chat(history))["choices"][0]["message"]
        history += [message, {"role": "user", "content": "more"}]
    for k, history in enumerate(histories):
        typist.say("done")
        await chat(history)
        edge = len(typist.prompts[k])
        assert typist.prompts[2 + k][: edge + len(sampled[k])] == [*typist.prompts[k], *sampled[k]]
    assert (await record()).metadata["gateway"]["branches"] == 2


async def test_replies_under_a_system_prompt_that_changes_are_kept(chat, typist, record) -> None:
    """No prompt goes on from the one before, and yet each holds all the replies before it as they were sampled."""
    history: list = []
    for turn in range(3):
        typist.say(f"answer {turn}")
        history.append({"role": "user", "content": f"question {turn}"})
        answer = await chat([{"role": "system", "content": f"It is {turn} o'clock."}, *history])
        history.append(answer["choices"][0]["message"])
    notes = (await record()).metadata["gateway"]
    assert (notes["branches"], notes["kept_fraction"]) == (3, 1.0)


async def test_a_reply_that_stands_only_in_a_prompt_nobody_answered_is_not_kept(
    client, chat, typist, session, record
) -> None:
    dropped = typist.say("One.")
    message = (await chat(FIRST))["choices"][0]["message"]
    typist.fail(PolicyError("down"))
    body = {"messages": [*FIRST, message, {"role": "user", "content": "And?"}]}
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 502
    last = typist.say("Two.")
    await chat(FIRST)
    assert (await record()).metadata["gateway"]["kept_fraction"] == len(last) / (len(dropped) + len(last))


async def test_a_turn_the_policy_never_said_is_rendered_and_never_trained(chat, typist, renderer, record) -> None:
    example = {"role": "assistant", "content": "An <|im_end|> example.", "tool_calls": None}
    said = typist.say("Mine.")
    await chat([*FIRST, example, {"role": "user", "content": "Now you."}])

    (sequence,) = sequences(await record())
    assert sequence.action_count == len(said)
    ids = ",".join(map(str, assistant_turn(renderer, "An <|im_end|> example.")))
    assert ids in ",".join(map(str, typist.prompts[0]))


async def test_a_call_that_cannot_be_read_is_handed_on_as_text(chat, typist, renderer) -> None:
    text = 'Let me.\n<tool_call>\n{"name": "bash", "arguments": {oops}}\n</tool_call>'
    typist.turns.append([*renderer.tokenizer.encode(text), renderer.get_stop_token_ids()[0]])
    (choice,) = (await chat(FIRST, tools=[TOOL]))["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == text
    assert "tool_calls" not in choice["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize(
    "call",
    [
        r'{"name": "bash", "arguments": {"command": "\ud800"}}',
        r'{"name": "bash", "arguments": {"\ud800": 1}}',
        r'{"name": "\ud800", "arguments": {}}',
        '{"name": "bash", "arguments": {"command": NaN}}',
        '{"name": "bash", "arguments": {"command": 1e999}}',
    ],
)
async def test_a_call_that_json_cannot_send_is_handed_on_as_text(client, typist, renderer, record, call, path, stream):
    typist.turns.append(
        [*renderer.tokenizer.encode(f"<tool_call>{call}</tool_call>"), renderer.get_stop_token_ids()[0]]
    )
    tool = TOOL["function"]
    tools = {"/v1/responses": {"type": "function", **tool}, "/v1/messages": {"name": "bash", "input_schema": {}}}
    said = {"input": "Hello."} if path == "/v1/responses" else {"messages": FIRST[1:]}
    limit = {"max_tokens": 200} if path == "/v1/messages" else {}
    response = await client.post(path, json={"tools": [tools.get(path, TOOL)], "stream": stream, **said, **limit})
    assert response.status_code == 200
    if stream:
        lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
        assert all("error" not in json.loads(line) or not json.loads(line)["error"] for line in lines)
    else:
        assert json.dumps(f"<tool_call>{call}</tool_call>")[1:-1] in json.dumps(response.json())
    assert len((await record()).calls) == 1


async def test_without_tools_a_turn_is_its_text(chat, typist) -> None:
    typist.say("", ("bash", {"command": "ls"}))
    (choice,) = (await chat(FIRST))["choices"]
    assert "<tool_call>" in choice["message"]["content"]


async def test_a_stop_string_ends_the_record_where_it_ends_the_text(chat, typist, renderer, record) -> None:
    typist.say("first line\nSTOP and more that nobody asked for")
    (choice,) = (await chat(FIRST, stop=["STOP"]))["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("first line\n", "stop")
    again = typist.say("ok")
    await chat([*FIRST, choice["message"], {"role": "user", "content": "go on"}])

    trajectory = await record()
    cut = renderer.decode(trajectory.calls[0].generation_token_ids.tolist())
    assert cut.startswith("first line\nSTOP")
    assert "nobody" not in cut
    (sequence,) = sequences(trajectory)
    assert sequence.action_count == len(trajectory.calls[0].generation_token_ids) + len(again)
    assert trajectory.metadata["gateway"]["dropped_tokens"] > 0


async def test_of_several_stop_strings_the_one_that_is_complete_first_ends_it(chat, typist, renderer, record) -> None:
    """Even where another begins before it: an engine that has seen "c" samples no more."""
    typist.say("b c d e f g")
    (choice,) = (await chat(FIRST, stop=["b c d e f", "c"]))["choices"]
    assert choice["message"]["content"] == "b "
    assert renderer.decode((await record()).calls[0].generation_token_ids.tolist()) == "b c"


async def test_the_token_limit_is_a_finish_reason(chat, typist, record) -> None:
    typist.say("a long answer that goes on and on")
    answer = await chat(FIRST, max_tokens=3)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3
    assert len((await record()).calls[0].generation_token_ids) == 3


async def test_logprobs_and_ids_on_request(chat, typist) -> None:
    sampled = typist.say("Yes.")
    answer = await chat(FIRST, logprobs=True, return_token_ids=True)
    (choice,) = answer["choices"]
    assert choice["token_ids"] == sampled
    assert answer["prompt_token_ids"] == typist.prompts[0]
    logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert np.allclose(logprobs, -np.linspace(0.1, 1, len(sampled)))


async def test_a_seed_of_its_own_for_every_call_unless_the_client_gives_one(chat, typist, record) -> None:
    for seed in (None, None, 11):
        typist.say("x")
        await chat([{"role": "user", "content": f"{seed}"}], seed=seed, tools=[])
    seeds = [call.sampling.seed for call in (await record()).calls]
    assert seeds[2] == 11
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
async def test_models(client, path) -> None:
    (model,) = (await client.get(path)).json()["data"]
    assert (model["id"], model["max_model_len"]) == ("typist-1", 4096)
