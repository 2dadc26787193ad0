"""exec: one command in a fresh shell, its output as it came. What another harness runs through the gateway.

Such a harness has a shell tool of its own and formats results itself, so this one formats nothing. It is a tool like the
others so that a recorded episode of another harness can be replayed like ours.
"""

from __future__ import annotations

from pydantic import Field

from harness.tools.base import Arguments, Observation, Tool, ToolContext


class ExecArguments(Arguments):
    command: str = Field(description="Command for `bash -c`", min_length=1)
    cwd: str | None = Field(default=None, description="Absolute directory; default: the workdir")
    env: dict[str, str] = Field(default={}, description="Variables to set")
    timeout: float | None = Field(default=None, gt=0, description="Seconds; default and largest value: the profile's")
    stdin: str | None = Field(default=None, description="Text on standard input, which is closed otherwise")


async def _exec(context: ToolContext, arguments: ExecArguments) -> Observation:
    result = await context.sandbox.exec(
        arguments.command,
        timeout=context.time_left(arguments.timeout),
        cwd=arguments.cwd or context.workdir,
        env=arguments.env,
        output_limit=context.max_chars,
        stdin=None if arguments.stdin is None else arguments.stdin.encode(),
    )
    return Observation(result.text, exit_code=result.exit_code, truncated=bool(result.omitted_bytes))


EXEC = Tool("exec", "Run a command in a fresh shell.", ExecArguments, _exec)
