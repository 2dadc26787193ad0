"""Twenty turns of a conversation keep the record's invariants, whatever was sampled and whatever was observed."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.store.records import ContextEvent
from harness.context import Context
from harness.profile import load_profile
from harness.render import assistant_turn

TURNS = 20
READABLE = st.characters(
    exclude_categories=("Cs", "Cn", "Co", "Cc"), include_characters="\n\t"
)  # what a vocabulary covers
OBSERVATIONS = st.one_of(
    st.text(READABLE, max_size=30),
    st.sampled_from(
        [
            "",
            "\n",
            "\n\n x",
            "<|im_end|>",
            "a<|im_start|>assistant\n",
            "</tool_response>",
            "日本語🙂",
        ]
    ),
)


def start(renderer):
    context = Context(renderer, load_profile("default").tool_specs)
    context.begin([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    return context


@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_prompt_is_the_one_before_plus_the_exact_generation(renderer, tokenizer, data):
    context = start(renderer)
    stop, controls = renderer.get_stop_token_ids()[0], (1, 2)
    any_token = st.integers(min_value=17, max_value=len(tokenizer) - 1)
    for _ in range(TURNS):
        before = context.prompt
        sampled = np.asarray(
            data.draw(st.lists(any_token, max_size=12)) + data.draw(st.sampled_from([[stop], []])), np.int32
        )
        observation = data.draw(OBSERVATIONS)
        role = data.draw(st.sampled_from(["tool", "user"]))

        context.parse(sampled)
        context.extend(sampled, [{"role": role, "content": observation, "name": "bash", "tool_call_id": "c"}])

        prefix = np.concatenate([before, sampled])
        assert np.array_equal(context.prompt[: len(prefix)], prefix)
        assert context.event is ContextEvent.APPEND
        new = context.prompt[len(prefix) :].tolist()
        closed = len(sampled) > 0 and sampled[-1] == stop
        assert [t for t in new if t in controls] == [*([] if closed else [2]), 1, 2, 1]
        assert observation in renderer.decode(new)


def test_the_prompt_equals_the_full_render_of_the_same_conversation(renderer):
    context = start(renderer)
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for turn in range(TURNS):
        call = ("bash", {"command": f"echo {turn}\n日本"})
        ids = np.asarray(assistant_turn(renderer, "I look.", [call]), np.int32)
        observation = {"role": "tool", "content": f"{turn}\n", "name": "bash", "tool_call_id": "call_0"}
        context.extend(ids, [observation])
        function = {"name": call[0], "arguments": call[1]}
        messages += [
            {"role": "assistant", "content": "I look.", "tool_calls": [{"type": "function", "function": function}]},
            observation,
        ]

    full = renderer.render_ids(messages, tools=list(context.tools), add_generation_prompt=True)

    assert context.prompt.tolist() == full


def test_first_prompt_is_the_models_own_chat_template(renderer, tokenizer):
    messages = [
        {"role": "system", "content": "\nBe brief.  "},
        {"role": "user", "content": " hi\n"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "go"},
    ]

    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    assert renderer.render_ids(messages, add_generation_prompt=True) == list(expected)


@given(
    content=st.text(READABLE, max_size=20),
    name=st.sampled_from(["bash", "edit"]),
    arguments=st.dictionaries(st.sampled_from(["command", "path", "new_str"]), st.text(READABLE, max_size=40)),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sampled_call_is_read_back_also_where_characters_span_tokens(renderer, content, name, arguments):
    if "tool_call>" in content + str(arguments):
        return

    parsed = renderer.parse_response(assistant_turn(renderer, content, [(name, arguments)]))

    (call,) = parsed.tool_calls
    assert (call.name, call.arguments) == (name, arguments)


def test_an_emoji_cut_in_the_middle_of_its_tokens_does_not_raise(renderer):
    ids = assistant_turn(renderer, "done 🙂")
    for end in range(len(ids)):
        renderer.parse_response(ids[:end])


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_what_the_template_adds_is_never_sampled(renderer, cut):
    rendered = renderer.render(
        [{"role": "user", "content": "u"}, {"role": "assistant", "content": "yes, I will"}], add_generation_prompt=True
    )
    sampled = [t for t, mine in zip(rendered.token_ids, rendered.sampled_mask, strict=True) if mine]

    assert renderer.decode(sampled) == "yes, I will<|im_end|>"
    bridged = renderer.bridge_to_next_turn([1, 50], sampled[:cut], [{"role": "user", "content": "x"}])
    assert not any(bridged.sampled_mask)
