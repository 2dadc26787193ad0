"""A turn makes one call; everything else is an observation that says what to do."""

import pytest

from harness.profile import load_profile
from harness.render.hermes import parse_hermes
from harness.tools import Call, MalformedCall, read_call


def read(text, **options):
    return read_call(parse_hermes(text), load_profile("default").tool_set, turn=3, **options)


def test_one_well_formed_call():
    call = read('<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>')

    assert isinstance(call, Call)
    assert (call.tool.name, dict(call.arguments)) == ("bash", {"command": "ls"})


@pytest.mark.parametrize(
    ("text", "says", "attempted"),
    [
        ("I am done.", "no tool call found", False),
        ("", "no tool call found", False),
        ('<tool_call>{"name": "submit"}</tool_call><tool_call>{"name": "submit"}</tool_call>', "2 tool calls", True),
        ('<tool_call>{"name": "bsh", "arguments": {}}</tool_call>', 'Did you mean "bash"?', True),
        ('<tool_call>{"name": "zzzz", "arguments": {}}</tool_call>', "The tools are: bash, search, edit, submit", True),
        ("<tool_call>{bad}</tool_call>", "not valid JSON", True),
        ('<tool_call>{"name": "bash"', "not closed", True),
        ('<tool_call>{"arguments": {}}</tool_call>', "no tool name", True),
        ('<tool_call>{"name": "bash", "arguments": 3}</tool_call>', '"arguments"', True),
        ('<tool_call>{"name": "bash", "arguments": {"command": "a\\u0000b"}}</tool_call>', "NUL", True),
        ('<tool_call>{"name": "bash", "arguments": {"command": ["\\ud800"]}}</tool_call>', "surrogate", True),
    ],
)
def test_anything_else_says_what_is_wrong(text, says, attempted):
    call = read(text)

    assert isinstance(call, MalformedCall)
    assert says in call.problem
    assert call.attempted is attempted


def test_a_turn_that_the_token_limit_cut_says_so():
    assert "token limit" in read('<tool_call>{"name": "bash"', cut=True).problem
    assert "token limit" in read("so I think that", cut=True).problem
