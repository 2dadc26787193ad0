"""How failures are named: one base class, one subclass per boundary, one exit code each.

An error says what was wrong, with what value, and what to do about it. Rooms subclass the types below beside the
code that raises them (`SandboxError` in `agentgym.sandbox`, `StoreError` in `agentgym.store`, ...); the CLI turns any
`AgentGymError` into one line on stderr and its `exit_code`. Anything else that escapes is a bug and shows a traceback.

Exit codes: 0 ok, 1 the work failed, 2 usage, 3 the environment is not usable.
"""

from __future__ import annotations


class AgentGymError(Exception):
    """The work failed. `hint`, where given, is the command or change that mends it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  → {self.hint}" if self.hint else message


class InputError(AgentGymError):
    """What the user gave cannot be used: a config key, a task directory, a model path."""

    exit_code = 2


class MachineError(AgentGymError):
    """This machine lacks something the command needs (an engine, a binary, disk space)."""

    exit_code = 3
