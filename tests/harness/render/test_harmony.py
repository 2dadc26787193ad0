"""Harmony's channels: what a policy samples of them, what is read, and that nothing of it is rewritten."""

from __future__ import annotations

import numpy as np
import pytest
from renderers import ToolCallParseStatus as Status
from transformers import AddedToken
from vocabularies import vocabulary

from agentgym.store.records import FinishReason, VersionSpan
from harness.gateway.ask import Ask
from harness.gateway.live import Live
from harness.gateway.reading import read
from harness.policies.protocol import Generation
from harness.render import RenderError, assistant_turn, load_renderer

CONTROLS = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"]
CALL = '<|start|>assistant to=functions.bash<|channel|>commentary <|constrain|>json<|message|>{"command": "ls"}<|call|>'
USER = [{"role": "user", "content": "u"}]


def made(shared_data, controls=CONTROLS):
    tokenizer = vocabulary("smollm2")
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in controls])
    tokenizer.chat_template = (shared_data / "chat_templates" / "openai-gpt-oss-120b.jinja").read_text()
    tokenizer.eos_token, tokenizer.unk_token = "<|return|>" if controls == CONTROLS else "<|im_end|>", None
    return tokenizer


@pytest.fixture(scope="module")
def harmony(shared_data):
    return load_renderer(made(shared_data))


def ids(renderer, text):
    return renderer.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("sampled", "reasoning", "content", "calls"),
    [
        ("<|channel|>final<|message|>Done.<|return|>", None, "Done.", []),
        ("<|channel|>analysis<|message|>Hm.<|end|>" + CALL, "Hm.", "", [(Status.OK, "bash", {"command": "ls"})]),
        (
            "<|channel|>commentary<|message|>I look.<|end|>" + CALL,
            None,
            "I look.",
            [(Status.OK, "bash", {"command": "ls"})],
        ),
        (CALL.removeprefix("<|start|>assistant"), None, "", [(Status.OK, "bash", {"command": "ls"})]),
        (CALL[:-8], None, "", [(Status.UNCLOSED_BLOCK, "bash", {"command": "ls"})]),
        (
            " to=functions.bash<|channel|>commentary json<|message|>{ls}<|call|>",
            None,
            "",
            [(Status.INVALID_JSON, "bash", "{ls}")],
        ),
        (
            " to=functions.bash<|channel|>commentary json<|message|>[1]<|call|>",
            None,
            "",
            [(Status.MALFORMED_STRUCTURE, "bash", None)],
        ),
        ("<|channel|>analysis<|message|>Hm", "Hm", "", []),
        ("Just text.", None, "Just text.", []),
        ("", None, "", []),
    ],
)
def test_what_is_sampled_is_read_by_channel(harmony, sampled, reasoning, content, calls) -> None:
    text = sampled.removeprefix("<|start|>assistant") if sampled == CALL else sampled
    parsed = harmony.parse_response(ids(harmony, text))
    assert (parsed.reasoning_content, parsed.content) == (reasoning, content)
    assert [(call.status, call.name, call.arguments) for call in parsed.tool_calls] == calls


def test_a_control_token_that_is_only_spelled_ends_nothing(harmony) -> None:
    arguments = {"command": "grep '<|call|>' a.py # <|end|>"}
    (call,) = harmony.parse_response(assistant_turn(harmony, "", [("bash", arguments)])).tool_calls
    assert call.arguments == arguments


def test_a_final_answer_ends_as_it_is_sampled_and_stays_so(harmony) -> None:
    sampled = assistant_turn(harmony, "Done.")
    assert harmony.decode(sampled) == "<|channel|>final<|message|>Done.<|return|>"
    prompt = harmony.render_ids(USER, add_generation_prompt=True)
    bridged = harmony.bridge_to_next_turn(prompt, sampled, USER).token_ids
    assert bridged[: len(prompt) + len(sampled)] == [*prompt, *sampled]
    assert harmony.decode(bridged[len(prompt) + len(sampled) :]) == "<|start|>user<|message|>u<|end|><|start|>assistant"


@pytest.mark.parametrize("sampled", ["<|channel|>analysis<|message|>Hm.", "<|channel|>analysis<|message|>Hm.<|end|>"])
def test_a_turn_that_was_cut_is_closed_once(harmony, sampled) -> None:
    prompt = harmony.render_ids(USER, add_generation_prompt=True)
    bridged = harmony.bridge_to_next_turn(prompt, ids(harmony, sampled), USER).token_ids
    text = harmony.decode(bridged[len(prompt) :])
    assert text == "<|channel|>analysis<|message|>Hm.<|end|><|start|>user<|message|>u<|end|><|start|>assistant"


@pytest.mark.parametrize("sampled", ["<|channel|>final<|message|>Done.<|return|>", "Done.<|channel|>final<|message|>x"])
def test_a_client_gets_the_words_and_no_markup(harmony, sampled) -> None:
    ask, tokens = Ask(messages=tuple(USER), read_calls=True), np.asarray(ids(harmony, sampled), np.int32)
    prompt = np.asarray(harmony.render_ids(USER, add_generation_prompt=True), np.int32)
    whole = Generation(tokens, np.zeros(len(tokens), np.float32), (VersionSpan(0, 0, len(tokens)),), FinishReason.STOP)
    answer, live = read(ask, prompt, whole, harmony), Live(ask, harmony)
    live.begin(prompt)
    live.take(tokens.tolist())
    assert answer.content == ("Done." if sampled.endswith("<|return|>") else "x")
    assert answer.content.startswith(live.text)


def test_a_vocabulary_without_its_control_tokens_is_refused_by_name(shared_data) -> None:
    with pytest.raises(RenderError, match=r"does not fit this tokenizer: .* lacks harmony's control tokens <\|call\|>"):
        load_renderer(made(shared_data, CONTROLS[:-1]), "gpt-oss")
    plain = made(shared_data)
    plain.chat_template = "{{ messages }}"
    with pytest.raises(RenderError, match="does not write harmony"):
        load_renderer(plain, "gpt-oss")
