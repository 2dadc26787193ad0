"""An agent as a program: how it is started for one episode, what it is told, and what its end means.

The program runs on this machine, in an empty directory of its own; what it does to the repository it does through the
episode's sandbox (`/episode/exec`). It is told everything by environment variables, among them those that OpenAI's and
Anthropic's clients read, so an agent that uses such a client needs no change:

    OPENAI_BASE_URL OPENAI_API_BASE OPENAI_API_KEY   ANTHROPIC_BASE_URL ANTHROPIC_API_KEY
    AGENTGYM_GATEWAY_URL AGENTGYM_EPISODE_KEY        AGENTGYM_MODEL (any name will do)
    AGENTGYM_TASK AGENTGYM_WORKDIR AGENTGYM_INSTRUCTION AGENTGYM_INSTRUCTION_FILE

It is done when it ends. An exit code other than 0 is the agent's own failure, unless a budget had been spent or the policy had
failed before; then that is the reason. Its process group is killed at the episode's deadline, a while after the
episode has ended otherwise, and when this process dies (`program.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import InputError
from agentgym.store.records import Termination
from harness.gateway.program import Program
from harness.gateway.session import Session
from harness.workplace import HarnessError

_GRACE_S = 30.0
"""How long a program may go on after its episode has ended."""
_LOG_CHARS = 2000
_ENV_CHARS = 100_000
"""What fits into one variable; a longer instruction is only in its file."""
_ADAPTERS = Path(__file__).resolve().parent / "adapters"


@dataclass(frozen=True, slots=True)
class Agent:
    """command: for `sh -c`. env: beside the variables above. outcome: how the agent says it ended, from its directory."""

    name: str
    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    outcome: Callable[[Path], Termination | None] = lambda folder: None

    async def drive(self, session: Session, url: str) -> Termination:
        """Run the program for one episode. Raises HarnessError where it fails on its own account."""
        with tempfile.TemporaryDirectory(prefix="agentgym-agent-") as folder:
            log = Path(folder) / "agent.log"
            with log.open("wb") as output:
                env = {**os.environ, **_told(session, url, Path(folder)), **self.env}
                program = await Program.start(self.command, folder=Path(folder), env=env, output=output)
                process = program.process
                try:
                    termination = await _watch(process, session)
                finally:
                    await program.end()
            words = log.read_bytes()[-_LOG_CHARS:].decode(errors="replace")
            session.record.extra["agent"] = {"name": self.name, "exit_code": process.returncode, "log": words}
            if termination is not None:
                return termination
            if process.returncode and session.ended is None and not session.policy_failed:
                raise HarnessError(f"the agent {self.name!r} ended with exit code {process.returncode}:\n{words}")
            return self.outcome(Path(folder)) or Termination.SUBMITTED


def mini_swe_agent() -> Agent:
    """The released mini-swe-agent, unmodified, with its own prompts; its commands run in our sandbox."""
    search = os.pathsep.join(filter(None, [str(_ADAPTERS), os.environ.get("PYTHONPATH")]))
    return Agent(
        name="mini-swe-agent",
        command='exec mini --yolo --exit-immediately --cost-limit 0 --model "openai/$AGENTGYM_MODEL" '
        '--environment-class agentgym_mini_swe_agent.SandboxEnvironment --output mini.json --task "$AGENTGYM_INSTRUCTION"',
        env={
            "PYTHONPATH": search,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        outcome=_mini_outcome,
    )


AGENTS: Mapping[str, Callable[[], Agent]] = {"mini-swe-agent": mini_swe_agent}


def load_agent(name_or_command: str) -> Agent:
    """A known agent by name, or a shell command that starts one."""
    if name_or_command in AGENTS:
        return AGENTS[name_or_command]()
    words = name_or_command.split()
    if not words:
        raise InputError("no agent was named", hint=f"give a shell command, or one of {', '.join(AGENTS)}")
    return Agent(name=Path(words[0]).name, command=name_or_command)


def _mini_outcome(folder: Path) -> Termination | None:
    """What mini-swe-agent wrote about its end."""
    try:
        status = json.loads((folder / "mini.json").read_text())["info"]["exit_status"]
    except (OSError, ValueError, KeyError) as error:
        raise HarnessError(f"mini-swe-agent ended without saying how: {error}") from error
    return {
        "Submitted": Termination.SUBMITTED,
        "RepeatedFormatError": Termination.INVALID_ACTIONS,
        "LimitsExceeded": Termination.MAX_STEPS,
        "TimeExceeded": Termination.TIME_LIMIT,
    }.get(status)


def _told(session: Session, url: str, folder: Path) -> dict[str, str]:
    setting = session.place.setting
    instruction = setting.task.instruction
    file = folder / "instruction.md"
    file.write_text(instruction, encoding="utf-8")
    told = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": session.key,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": session.key,
        "AGENTGYM_GATEWAY_URL": url,
        "AGENTGYM_EPISODE_KEY": session.key,
        "AGENTGYM_MODEL": "policy",
        "AGENTGYM_TASK": setting.task.id,
        "AGENTGYM_WORKDIR": setting.task.workdir,
        "AGENTGYM_INSTRUCTION_FILE": str(file),
    }
    return told | ({"AGENTGYM_INSTRUCTION": instruction} if len(instruction) < _ENV_CHARS else {})


async def _watch(process: asyncio.subprocess.Process, session: Session) -> Termination | None:
    """Wait for the program; how the episode ended where the program did not decide it."""
    exit_code = asyncio.ensure_future(process.wait())
    over = asyncio.ensure_future(session.over.wait())
    try:
        events = {exit_code, over, session.finished}
        await asyncio.wait(events, timeout=session.deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
        if not exit_code.done() and (over.done() or session.finished.done()):
            await asyncio.wait({exit_code}, timeout=_GRACE_S)
        if session.finished.done():
            return session.finished.result()  # raises what made the episode impossible
        return None if exit_code.done() else session.ended or Termination.TIME_LIMIT
    finally:
        for task in (exit_code, over):
            task.cancel()
        await asyncio.gather(exit_code, over, return_exceptions=True)
