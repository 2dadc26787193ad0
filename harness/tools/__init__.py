"""What a policy can do: one file per tool, each an argument model, a description for the model, and one async function.

    base.py    Tool, Observation, ToolContext: what every tool is made of
    call.py    sampled text, already parsed -> one call, or what is wrong with it in words
    bash.py    a stateful shell            search.py  find text in files
    edit.py    view and change one file    submit.py  end the episode
    replace.py one replacement, for small policies
    r2e.py     the same under R2E-Gym's names    exec.py   a bare command, for other harnesses

A tool returns an `Observation` for everything the policy did, right or wrong; it raises `SandboxError` only where the
sandbox failed. Add a tool by writing its file and naming it in `TOOLS`; a profile decides which of them a policy sees.
"""

from collections.abc import Mapping

from harness.tools.base import Observation, Tool, ToolContext
from harness.tools.bash import BASH
from harness.tools.call import Call, MalformedCall, read_call
from harness.tools.edit import EDIT
from harness.tools.exec import EXEC
from harness.tools.r2e import R2E_TOOLS
from harness.tools.replace import REPLACE
from harness.tools.search import SEARCH
from harness.tools.submit import SUBMIT

TOOLS: Mapping[str, Tool] = {**{tool.name: tool for tool in (BASH, SEARCH, EDIT, REPLACE, EXEC, SUBMIT)}, **R2E_TOOLS}
"""By the names profiles use. A policy sees `tool.name`."""

__all__ = ["TOOLS", "Call", "MalformedCall", "Observation", "Tool", "ToolContext", "read_call"]
