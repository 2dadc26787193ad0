"""The schema a policy sees, and what it is told when its arguments do not fit."""

import pytest

from harness.tools import TOOLS, ToolContext

CONTEXT = ToolContext(sandbox=None, workdir="/w")  # type: ignore[arg-type]  # never reached: validation comes first


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_schema_is_an_openai_function_and_says_what_each_argument_is(tool):
    schema = tool.schema

    assert schema["type"] == "function"
    assert set(schema["function"]) == {"name", "description", "parameters"}
    assert "title" not in str(schema)
    for name, info in schema["function"]["parameters"].get("properties", {}).items():
        assert info.get("description"), f"{tool.name}.{name} is not described"
        assert "anyOf" not in info


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("bash", {}, "- command: field required"),
        ("bash", {"command": ""}, "- command:"),
        ("bash", {"cmd": "ls"}, "- cmd: no such argument"),
        ("bash", {"command": "ls", "timeout": "soon"}, "- timeout:"),
        ("edit", {"command": "delete", "path": "x"}, "- command:"),
        ("edit", {"command": "view", "path": "x", "view_range": [1]}, "- view_range:"),
        ("search", {"pattern": ""}, "- pattern:"),
        ("submit", {"answer": 42}, "- answer: no such argument"),
    ],
)
async def test_arguments_that_do_not_fit_are_an_invalid_observation(tool, arguments, says):
    seen = await TOOLS[tool].run(CONTEXT, arguments)

    assert not seen.valid
    assert says in seen.text
    assert "Required:" in seen.text
