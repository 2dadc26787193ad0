"""Sampled text to calls: every attempt is reported with what is wrong with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from renderers import ToolCallParseStatus as Status

from harness.render.hermes import format_call, parse_hermes


@pytest.mark.parametrize(
    ("text", "status", "name"),
    [
        ('<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>', Status.OK, "bash"),
        ('<tool_call>{"name": "submit"}</tool_call>', Status.OK, "submit"),
        ('<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}</tool_call>', Status.OK, "bash"),
        ('<tool_call>{"name": "bash", "arguments": {"command": "a\nb"}}</tool_call>', Status.OK, "bash"),
        ('<tool_call>{"name": "bash", "arguments": "ls"}</tool_call>', Status.INVALID_JSON, "bash"),
        ('<tool_call>{"name": "bash", "arguments": [1]}</tool_call>', Status.MALFORMED_STRUCTURE, "bash"),
        ("<tool_call>{'name': 'bash'}</tool_call>", Status.INVALID_JSON, None),
        ("<tool_call>bash ls</tool_call>", Status.INVALID_JSON, None),
        ('<tool_call>["bash"]</tool_call>', Status.MALFORMED_STRUCTURE, None),
        ('<tool_call>{"arguments": {}}</tool_call>', Status.MISSING_NAME, None),
        ('<tool_call>{"name": 3}</tool_call>', Status.MISSING_NAME, None),
        ('<tool_call>{"name": "bash", "arguments": {"command": "ls"}}', Status.UNCLOSED_BLOCK, None),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", Status.INVALID_JSON, None),
    ],
)
def test_one_attempt(text, status, name):
    (call,) = parse_hermes(text).tool_calls

    assert (call.status, call.name) == (status, name)


def test_prose_and_several_attempts_in_order():
    text = 'I look.\n<tool_call>{"name": "a"}</tool_call>\nand <tool_call>oops</tool_call>'

    parsed = parse_hermes(text)

    assert [call.status for call in parsed.tool_calls] == [Status.OK, Status.INVALID_JSON]
    assert parsed.content == "I look.\n\nand"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.text(min_size=1, max_size=9), st.dictionaries(st.text(max_size=9), json_values, max_size=4))
def test_what_the_template_writes_is_read_back(name, arguments):
    text = format_call(name, arguments)
    if (
        text.count("</tool_call>") > 1
    ):  # a closing tag inside a string ends the block, as it does in every Hermes parser
        return

    (call,) = parse_hermes(text).tool_calls

    assert (call.status, call.name, call.arguments) == (Status.OK, name, arguments)
