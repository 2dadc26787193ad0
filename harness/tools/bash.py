"""`bash`: a shell that remembers its directory and exported variables from call to call.

The command runs in its own process group in the sandbox; a time-out kills the group, not a client. Standard input is
closed and pagers are off, so nothing waits for a key. A call ends when the command ends, also if it left something
running in the background with its output open.
"""

from __future__ import annotations

from pydantic import Field

from agentgym.sandbox.protocol import ExecResult
from harness.tools.base import Arguments, Observation, Tool, ToolContext
from harness.tools.text import readable, shorten

_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "LESS": "-FRX",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}


class BashArguments(Arguments):
    command: str = Field(description="Command to run", min_length=1)
    timeout: float | None = Field(None, description="Seconds after which it is killed", gt=0)


async def _bash(context: ToolContext, arguments: BashArguments) -> Observation:
    allowed = context.time_left(arguments.timeout)
    result = await context.sandbox.exec(
        arguments.command,
        timeout=allowed,
        env=_QUIET,
        stateful=True,
        # Eight bytes per shown character, so that the engine's cut lies inside ours and is counted once.
        output_limit=max(65_536, 8 * context.max_chars),
    )
    text = readable(result.output)
    if (
        context.finish_marker
        and result.exit_code == 0
        and text.lstrip().partition("\n")[0].strip() == context.finish_marker
    ):
        return Observation("Submitted.", done=True)
    text, truncated = shorten(
        text,
        context.max_chars,
        already_omitted=result.omitted_bytes,
        advice="send the output to a file and look at parts of it",
    )
    notes = [note for note in (text.rstrip("\n"), _outcome(result, allowed)) if note]
    return Observation("\n".join(notes) or "(no output)", result.exit_code, truncated)


def _outcome(result: ExecResult, allowed: float) -> str:
    """How the command ended, where that is not plain success."""
    if result.oom_killed:
        return "[killed: it used more memory than this machine has]"
    if result.disk_full:
        return "[killed: it filled the disk of this machine; remove files before you go on]"
    if result.timed_out:
        return (
            f"[killed after {allowed:g} s together with all it started; run what takes longer, or never ends, in the "
            "background: command > log 2>&1 &]"
        )
    if result.reopened:
        return "[the shell was lost and started anew; what ran in the background may be gone]"
    return f"[exit code {result.exit_code}]" if result.exit_code else ""


BASH = Tool(
    "bash",
    "Run a command in a shell. Directory and exported variables are kept between calls; there is no terminal and no "
    "network. Output is cut in the middle if long.",
    BashArguments,
    _bash,
)
