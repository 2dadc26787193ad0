"""`replace`: one exact replacement in one file, and nothing else.

What `edit` calls str_replace, with a schema a quarter as long: for small policies, whose prompt is mostly schema otherwise,
and whose learner pays for every token of it.
"""

from __future__ import annotations

from pydantic import Field

from harness.tools.base import Arguments, Observation, Tool, ToolContext
from harness.tools.edit import EDIT


class ReplaceArguments(Arguments):
    path: str = Field(description="File", min_length=1)
    old_str: str = Field(description="Exact text, must occur once", min_length=1)
    new_str: str = Field(description="Its replacement")


async def _replace(context: ToolContext, arguments: ReplaceArguments) -> Observation:
    return await EDIT.run(context, {"command": "str_replace", **arguments.model_dump()})


REPLACE = Tool("replace", "Replace text in a file.", ReplaceArguments, _replace)
