"""Every public chat template through twenty turns: exact prefixes, calls read back, nothing injected.

The templates are the models' own; the vocabulary under them is the default model's, with each template's control tokens added,
so that the package's renderers and ours meet the control tokens they look for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from transformers import AddedToken, AutoTokenizer

from agentgym.models import pull
from agentgym.store.records import ContextEvent, FinishReason, VersionSpan
from harness.context import Context
from harness.gateway.ask import Ask
from harness.gateway.live import Live
from harness.gateway.reading import read
from harness.policies.protocol import Generation
from harness.profile import load_profile
from harness.render import RenderError, assistant_turn, load_renderer

TURNS = 20


@dataclass(frozen=True)
class Case:
    """renderer: what `auto` must choose. named: chosen by name, where the template cannot show which it is."""

    file: str
    renderer: str
    tokens: str
    eos: str = "<|im_end|>"
    bos: str | None = None
    named: bool = False


QWEN = (
    "<|im_start|> <|im_end|> <|endoftext|> <tool_call> </tool_call> <tool_response> </tool_response> <think> </think>"
)
MISTRAL = "<s> </s> [INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
LLAMA = "<|begin_of_text|> <|eot_id|> <|eom_id|> <|python_tag|> <|start_header_id|> <|end_header_id|>"
GLM = (
    "[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|> <|endoftext|> <think> </think> /nothink <tool_call> "
    "</tool_call> <tool_response> </tool_response> <arg_key> </arg_key> <arg_value> </arg_value>"
)
KIMI = (
    "<|im_system|> <|im_user|> <|im_assistant|> <|im_middle|> <|im_end|> [BOS] [EOS] <|tool_calls_section_begin|> "
    "<|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_end|> <|tool_call_argument_begin|>"
)
MINIMAX = "]~!b[ ]~b] [e~[ <think> </think> <minimax:tool_call> </minimax:tool_call>"
DEEPSEEK = (
    "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <think> </think> <｜tool▁sep｜> "
    "<｜tool▁calls▁begin｜> <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> <｜tool▁call▁end｜> "
    "<｜tool▁outputs▁begin｜> <｜tool▁outputs▁end｜> <｜tool▁output▁begin｜> <｜tool▁output▁end｜>"
)
CASES = [
    Case("Qwen-Qwen3-0.6B", "qwen3", QWEN),
    Case("Qwen-Qwen2.5-7B-Instruct", "template", "<|im_start|> <|im_end|> <|endoftext|> <tool_call> </tool_call>"),
    Case("Qwen3.5-4B", "qwen3.5", QWEN + " <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|>"),
    Case("Qwen3-Coder", "template", QWEN),
    Case("GLM-4.6", "glm-4.5", GLM, eos="<|endoftext|>"),
    Case("Kimi-K2-Instruct", "kimi-k2", KIMI, named=True),
    Case("MiniMax-M2", "minimax-m2", MINIMAX, eos="[e~["),
    Case(
        "deepseek-ai-DeepSeek-V3.1",
        "deepseek-v3",
        DEEPSEEK,
        "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>",
        named=True,
    ),
    Case("meta-llama-Llama-3.1-8B-Instruct", "template", LLAMA, "<|eot_id|>", "<|begin_of_text|>"),
    Case("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "template", LLAMA + " <|im_start|> <|im_end|> <tool_call>"),
    Case("mistralai-Mistral-Nemo-Instruct-2407", "template", MISTRAL, "</s>", "<s>"),
    Case(
        "unsloth-mistral-Devstral-Small-2507",
        "template",
        MISTRAL + " [ARGS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]",
        "</s>",
        "<s>",
    ),
    Case("HuggingFaceTB-SmolLM3-3B", "chatml-hermes", "<|im_start|> <|im_end|> <think> </think>"),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.file)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def case_tokenizer(case, shared_data):
    tokenizer = AutoTokenizer.from_pretrained(pull())
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in case.tokens.split() if t not in known])
    tokenizer.chat_template = (shared_data / "chat_templates" / f"{case.file}.jinja").read_text()
    tokenizer.eos_token, tokenizer.bos_token, tokenizer.unk_token = case.eos, case.bos, None
    return tokenizer


@pytest.fixture(scope="module")
def case_renderer(case, case_tokenizer):
    return load_renderer(case_tokenizer, case.renderer if case.named else "auto")


@pytest.fixture
def context(case_renderer):
    profile = load_profile("default")
    context = Context(case_renderer, profile.tool_specs)
    context.begin(profile.first_messages(instruction="Mend it.", workdir="/testbed", task_id="t"))
    return context


def observed(content):
    return {"role": "tool", "content": content, "name": "bash", "tool_call_id": "call00000"}


def test_the_renderer_is_chosen_by_what_the_template_writes(case, case_renderer):
    assert case_renderer.name == case.renderer


def test_twenty_turns_keep_every_prefix_and_read_every_call(case_renderer, context):
    renderer = case_renderer
    for turn in range(TURNS):
        arguments = {"command": f"echo {turn} && grep -n 'x' \"a b\" # 日本🙂\nls\t-l", "timeout": turn + 1}
        ids = assistant_turn(renderer, "", [("bash", arguments)])
        sampled = np.asarray(ids[:-1] if turn % 5 == 4 else ids, np.int32)  # every fifth was cut before its stop token
        assert ids[-1] in renderer.get_stop_token_ids()

        (call,) = context.parse(np.asarray(ids)).tool_calls
        before = context.prompt
        context.extend(sampled, [observed(f"{turn}\n  日本🙂 'q' \"d\" \\ <b> &amp;\n")])

        assert (call.name, call.arguments) == ("bash", arguments)
        prefix = [*before, *sampled]
        assert context.prompt[: len(prefix)].tolist() == prefix
        assert context.event is ContextEvent.APPEND
        new = renderer.decode(context.prompt[len(prefix) :].tolist())
        assert "日本🙂 'q'" in new


def test_an_observation_brings_in_no_control_token(case, case_tokenizer, case_renderer, context):
    controls = set(case_tokenizer.get_added_vocab().values())
    sampled = np.asarray(assistant_turn(case_renderer, "", [("bash", {"command": "cat x"})]), np.int32)
    start, prompt = len(context) + len(sampled), context.prompt

    def controls_after(text):
        context._ids = prompt.tolist()
        context.extend(sampled, [observed(text)])
        return [t for t in context.prompt[start:].tolist() if t in controls]

    harmless = controls_after("plain")
    assert harmless
    for token in case.tokens.split():
        for text in (token, f"{token}{token}", f"a{token}\n{token}b", token[0] + token + token[1:]):
            assert controls_after(text) == harmless, text


def test_what_was_never_a_call_is_answered_as_a_user(case_renderer, context):
    sampled = np.asarray(assistant_turn(case_renderer, "I think I am done."), np.int32)
    before = context.prompt

    context.extend(sampled, [{"role": "user", "content": "Make exactly one call."}])

    # A prompt that opens the reasoning for the model has it closed first: then the turn was no plain extension.
    kept = [*before, *(sampled if context.event is ContextEvent.APPEND else sampled[:-1])]
    assert context.prompt[: len(kept)].tolist() == kept
    assert "Make exactly one call." in case_renderer.decode(context.prompt.tolist())


def test_what_a_stream_hands_over_early_is_how_the_answer_begins(case_renderer, context):
    """In every dialect, token by token; a call is no part of it."""
    user = {"role": "user", "content": "u"}
    ask = Ask(messages=(user,), tools=tuple(load_profile("default").tool_specs), read_calls=True)
    for prose in ("I look at the files first.", ""):
        sampled = np.asarray(assistant_turn(case_renderer, prose, [("bash", {"command": "ls -l"})]), np.int32)
        logprobs, spans = np.zeros(len(sampled), np.float32), (VersionSpan(0, 0, len(sampled)),)
        answer = read(ask, context.prompt, Generation(sampled, logprobs, spans, FinishReason.STOP), case_renderer)
        live = Live(ask, case_renderer)
        live.begin(context.prompt)
        for token in sampled.tolist():
            live.take([token])
            assert answer.content.startswith(live.text)


def test_garbage_is_parsed_without_raising(case_renderer, context, case_tokenizer):
    draw = np.random.default_rng(0)
    controls = list(case_tokenizer.get_added_vocab().values())
    for _ in range(60):
        sampled = draw.integers(0, len(case_tokenizer), 30)
        sampled[draw.integers(0, 30, 8)] = draw.choice(controls, 8)
        context.parse(sampled.astype(np.int32))


def test_a_turn_that_ended_inside_its_reasoning_is_an_explicit_rewrite(shared_data):
    case = CASES[0]
    tokenizer = AutoTokenizer.from_pretrained(pull())
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in QWEN.split() if t not in known])
    tokenizer.chat_template = (shared_data / "chat_templates" / f"{case.file}.jinja").read_text()
    tokenizer.unk_token = None
    renderer = load_renderer(tokenizer)
    context = Context(renderer, [])
    context.begin([{"role": "user", "content": "u"}])
    before = context.prompt
    sampled = np.asarray(tokenizer.encode("<think>\nhm<|im_end|>", add_special_tokens=False), np.int32)

    context.extend(sampled, [{"role": "user", "content": "go on"}])

    assert context.event is ContextEvent.REWRITTEN
    kept = [*before, *sampled[:-1]]
    assert context.prompt[: len(kept)].tolist() == kept
    assert renderer.decode(context.prompt[len(kept) :].tolist()).startswith("</think><|im_end|>")


def test_a_model_no_renderer_fits_is_refused_with_the_names_that_exist(tokenizer):
    bare = AutoTokenizer.from_pretrained(pull())
    bare.chat_template = None
    bare.get_added_vocab = dict

    with pytest.raises(RenderError, match="no renderer is known"):
        load_renderer(bare)
    with pytest.raises(RenderError, match="does not fit"):
        load_renderer(tokenizer, "glm-4.5")
