"""Every public chat template through twenty turns: exact prefixes, calls read back, nothing injected.

The templates are the models' own. The vocabulary under them is the default model's, with each template's control tokens added,
so that every renderer meets the control tokens it looks for; where a package carries a family's own vocabulary, its templates run
over that one too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from jinja2 import TemplateError
from transformers import AddedToken
from vocabularies import vocabulary

from agentgym.store.records import ContextEvent, FinishReason, VersionSpan
from harness.context import Context
from harness.gateway.ask import Ask
from harness.gateway.live import Live
from harness.gateway.reading import read
from harness.policies.protocol import Generation
from harness.profile import load_profile
from harness.render import RenderError, assistant_turn, load_renderer
from harness.tools.call import MalformedCall, read_call

TURNS = 20


@dataclass(frozen=True)
class Case:
    """renderer: what `auto` must choose. named: chosen by name, where the template cannot show which it is. thinking: how the
    policy writes it, "" where the format has none. one_call: the template has no place for a second call in a turn.
    """

    file: str
    renderer: str
    tokens: str
    eos: str = "<|im_end|>"
    bos: str | None = None
    named: bool = False
    thinking: str = ""
    one_call: bool = False
    silent: bool = False
    vocabulary: str = "smollm2"

    def __str__(self) -> str:
        return self.file if self.vocabulary == "smollm2" else f"{self.file}-{self.vocabulary}"


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
HARMONY = "<|start|> <|end|> <|message|> <|channel|> <|constrain|> <|return|> <|call|> <|startoftext|> <|endoftext|>"
THINK = "<think>\n{}\n</think>\n\n"
CASES = [
    Case("Qwen-Qwen3-0.6B", "qwen3", QWEN, thinking=THINK),
    Case("Qwen-Qwen2.5-7B-Instruct", "template", "<|im_start|> <|im_end|> <|endoftext|> <tool_call> </tool_call>"),
    Case(
        "Qwen3.5-4B", "qwen3.5", QWEN + " <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|>", thinking=THINK
    ),
    Case("Qwen3-Coder", "template", QWEN),
    Case("GLM-4.6", "glm-4.5", GLM, eos="<|endoftext|>", thinking=THINK),
    Case("Kimi-K2-Instruct", "kimi-k2", KIMI, named=True),
    Case("MiniMax-M2", "minimax-m2", MINIMAX, eos="[e~[", thinking=THINK),
    Case(
        "deepseek-ai-DeepSeek-V3.1",
        "deepseek-v3",
        DEEPSEEK,
        "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>",
        named=True,
    ),
    Case(
        "meta-llama-Llama-3.1-8B-Instruct",
        "template",
        LLAMA,
        "<|eot_id|>",
        "<|begin_of_text|>",
        one_call=True,
        silent=True,
    ),
    Case(
        "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
        "template",
        LLAMA + " <|im_start|> <|im_end|> <tool_call>",
        silent=True,
    ),
    Case("mistralai-Mistral-Nemo-Instruct-2407", "template", MISTRAL, "</s>", "<s>", silent=True),
    Case(
        "unsloth-mistral-Devstral-Small-2507",
        "template",
        MISTRAL + " [ARGS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]",
        "</s>",
        "<s>",
    ),
    Case("HuggingFaceTB-SmolLM3-3B", "chatml-hermes", "<|im_start|> <|im_end|> <think> </think>"),
    Case(
        "openai-gpt-oss-120b",
        "gpt-oss",
        HARMONY,
        "<|return|>",
        thinking="<|channel|>analysis<|message|>{}<|end|><|start|>assistant",
        one_call=True,
    ),
]
OWN = {
    "Qwen-Qwen2.5-7B-Instruct": "qwen",
    "Qwen3.5-4B": "qwen",
    "Qwen3-Coder": "qwen",
    "HuggingFaceTB-SmolLM3-3B": "qwen",
    "openai-gpt-oss-120b": "qwen",
    "deepseek-ai-DeepSeek-V3.1": "deepseek",
}
"""Also over these vocabularies: the family's own, and two of ours over one that covers every byte."""
CASES += [replace(case, vocabulary=OWN[case.file]) for case in CASES if case.file in OWN]


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request):
    return request.param


def tokenizer_of(case, shared_data):
    tokenizer = vocabulary(case.vocabulary)
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in case.tokens.split() if t not in known])
    tokenizer.chat_template = (shared_data / "chat_templates" / f"{case.file}.jinja").read_text()
    tokenizer.eos_token, tokenizer.bos_token, tokenizer.unk_token = case.eos, case.bos, None
    return tokenizer


@pytest.fixture(scope="module")
def case_tokenizer(case, shared_data):
    return tokenizer_of(case, shared_data)


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


def test_every_template_has_a_case(shared_data):
    assert {case.file for case in CASES} == {file.stem for file in (shared_data / "chat_templates").glob("*.jinja")}


NESTED = {"edits": [{"at": [1, {"deep": [[], {}, None, True, -1.5e3]}], "text": "a\n\"b\" \\n '日本🙂'"}], "path": ""}
OBSERVED = "\n  日本🙂 'q' \"d\" \\ <b> &amp;\n"
LONG = "".join(f"{n:05} tests/test_ü.py::test[{n}-日本] FAILED\n" for n in range(900))


@dataclass(frozen=True)
class Turn:
    """text, calls: what the policy says. thought: what it thinks before. answers: one observation per call, or what a user
    says where there is none. respelled: sampled byte by byte. cut: ended before its stop token. half: ... in a character.
    """

    text: str = ""
    calls: tuple = ()
    answers: tuple[str, ...] = (OBSERVED,)
    thought: str = ""
    respelled: bool = False
    cut: bool = False
    half: bool = False


def bash(number, **arguments):
    return ("bash", {"command": f"echo {number} && grep -n 'x' \"a b\" # 日本🙂\nls\t-l", **arguments})


PLAYED = [
    Turn(calls=(bash(0, timeout=1),)),
    Turn("I look first. 日本🙂", (bash(1),)),
    Turn(calls=(("edit", NESTED),)),
    Turn(calls=(bash(3),), thought="Hm, 日本🙂 first?\nYes."),
    Turn(calls=(bash(4),), cut=True),
    Turn(calls=(bash(5),), answers=(LONG,)),
    Turn(calls=(bash(6),), answers=("",)),
    Turn(calls=(bash(7), ("edit", NESTED)), answers=("one" + OBSERVED, "")),
    Turn("Done 𒀱𓂀", answers=("Go on. 🙂",), half=True),
    Turn("I spell 日本🙂 it.", (bash(9),), respelled=True),
]


def by_bytes(tokenizer, ids):
    """The same text in another tokenisation, as a policy may well sample it: a token for each byte."""
    added, known = tokenizer.get_added_vocab().values(), tokenizer.get_vocab()
    pieces = [[known.get(c) for c in tokenizer.convert_ids_to_tokens(token)] for token in ids]
    return [
        one
        for token, piece in zip(ids, pieces, strict=True)
        for one in ([token] if token in added or None in piece else piece)
    ]


def open_thought(case, text):
    """Whether the text so far ends inside reasoning that was begun as the format has it."""
    return "</think>" in case.thinking and text.rfind("<think>") > text.rfind("</think>")


def sample(case, tokenizer, renderer, turn, prompt):
    """The ids of a turn as the policy would sample it after `prompt`."""
    ids = assistant_turn(renderer, turn.text, turn.calls)
    opened = open_thought(case, renderer.decode(prompt.tolist()))
    if turn.thought and case.thinking:
        thinking = case.thinking.format(turn.thought)
        written = tokenizer.encode(thinking.removeprefix("<think>\n") if opened else thinking, add_special_tokens=False)
        end = tokenizer.convert_tokens_to_ids("</think>")
        ids = [*written, *(ids[ids.index(end) + 1 :] if end in ids else ids)]
    if turn.respelled:
        ids = by_bytes(tokenizer, ids)
    return ids


def cut_in_a_character(renderer, ids):
    return next(ids[:end] for end in range(len(ids), 0, -1) if renderer.decode(ids[:end]).endswith("\ufffd"))


def test_twenty_turns_keep_every_prefix_and_read_every_call(case, case_tokenizer, case_renderer, context):
    renderer, prompts = case_renderer, [context.prompt]
    for number in range(TURNS):
        turn = PLAYED[number % len(PLAYED)]
        if len(turn.calls) > 1 and case.one_call:
            with pytest.raises((RenderError, TemplateError), match=r"1 of the 2 calls|single tool-calls"):
                assistant_turn(renderer, turn.text, turn.calls)
            turn = replace(turn, calls=turn.calls[:1], answers=turn.answers[:1])
        before = context.prompt
        ids = sample(case, case_tokenizer, renderer, turn, before)
        assert ids[-1] in renderer.get_stop_token_ids()
        parsed = context.parse(np.asarray(ids, np.int32))
        assert [(call.name, call.arguments) for call in parsed.tool_calls] == list(turn.calls)
        said = f"{parsed.reasoning_content or ''}\n{parsed.content}"
        assert turn.text in said or (turn.calls and case.silent)
        assert not case.thinking or turn.thought in (parsed.reasoning_content or "")

        sampled = np.asarray(
            cut_in_a_character(renderer, ids) if turn.half else ids[:-1] if turn.cut else ids, np.int32
        )
        context.parse(sampled)
        answers = [
            {"role": "tool", "content": answer, "name": call[0], "tool_call_id": made.id or f"call{index:05d}"}
            for index, (call, made, answer) in enumerate(zip(turn.calls, parsed.tool_calls, turn.answers, strict=True))
        ] if turn.calls else [{"role": "user", "content": turn.answers[0]}]  # fmt: skip
        context.extend(sampled, answers)

        prefix = [*before, *sampled]
        exact = context.prompt[: len(prefix)].tolist() == prefix
        assert (context.event is ContextEvent.APPEND) == exact
        assert exact or open_thought(case, renderer.decode(prefix)), (
            "only an open thought has to be closed before an answer"
        )
        new = renderer.decode(context.prompt[len(prefix) :].tolist())
        for answer in turn.answers:
            assert answer.strip() in new or json.dumps(answer, ensure_ascii=False) in new
        prompts.append(context.prompt)
    # What was thought is in every later prompt: nothing is dropped without an event that says so.
    assert all(len(a) < len(b) for a, b in pairwise(prompts))
    assert not case.thinking or renderer.decode(prompts[-1].tolist()).count("日本🙂 first?\nYes.") == TURNS // len(
        PLAYED
    )


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


def test_a_call_nested_deeper_than_a_parser_goes_is_read_without_raising(case_renderer, case_tokenizer, context):
    ids = assistant_turn(case_renderer, "", [("bash", {"command": "WORD"})])
    head, found, tail = case_renderer.decode(ids).partition("WORD")
    assert found
    for depth in (900, 100_000):
        text = head.removesuffix('"') + "[" * depth + "]" * depth + tail.removeprefix('"')
        response = context.parse(np.asarray(case_tokenizer.encode(text, add_special_tokens=False), np.int32))
        made = read_call(response, load_profile("default").tool_set, turn=1)
        assert isinstance(made, MalformedCall) or isinstance(made.arguments["command"], str | list)


def test_a_turn_that_ended_inside_its_reasoning_is_an_explicit_rewrite(shared_data):
    tokenizer = tokenizer_of(CASES[0], shared_data)
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
    bare = vocabulary("smollm2")
    bare.chat_template = None
    bare.get_added_vocab = dict

    with pytest.raises(RenderError, match="no renderer is known"):
        load_renderer(bare)
    with pytest.raises(RenderError, match="does not fit"):
        load_renderer(tokenizer, "glm-4.5")
