"""`submit`: the policy says that it is done."""

from __future__ import annotations

from pydantic import Field

from harness.tools.base import Arguments, Observation, Tool, ToolContext


class SubmitArguments(Arguments):
    summary: str = Field("", description="What you changed, in a sentence")


async def _submit(context: ToolContext, arguments: SubmitArguments) -> Observation:
    return Observation("Submitted.", done=True)


SUBMIT = Tool(
    "submit", "End the task. Call it once your change is complete and checked.", SubmitArguments, _submit, False
)
