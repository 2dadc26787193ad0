"""What every tool is made of: a name, a description, an argument model, and a function from arguments to observation.

The JSON schema a policy sees is generated from the argument model (OpenAI function convention), so schema and
validation cannot disagree. Arguments that do not fit are an observation that lists every fault, with `valid=False`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.sandbox.protocol import Sandbox


@dataclass(frozen=True, slots=True)
class Observation:
    """What the policy is shown.

    exit_code: of the command, or 0/1 for a tool that succeeded/failed; None where a command timed out or never ran.
    valid: False where the call itself was malformed. done: the policy asked to end the episode.
    """

    text: str
    exit_code: int | None = 0
    truncated: bool = False
    valid: bool = True
    done: bool = False


@dataclass(slots=True)
class ToolContext:
    """What tools share during one episode.

    max_chars: cap of one observation. timeout_s: default and largest time of one command. deadline: `time.monotonic()`
    when the episode ends. finish_marker: a command whose output starts with this line ends the episode. undo: per path,
    what the edit tool wrote last and what was there before it.
    """

    sandbox: Sandbox
    workdir: str
    max_chars: int = 16_000
    timeout_s: float = 60.0
    deadline: float = float("inf")
    finish_marker: str | None = None
    undo: dict[str, list[tuple[bytes | None, bytes]]] = field(default_factory=dict)

    def time_left(self, wanted: float | None = None) -> float:
        """Seconds a command may take now: what was asked for, within the cap and the episode."""
        return max(1.0, min(wanted or self.timeout_s, self.timeout_s, self.deadline - time.monotonic()))


class Arguments(BaseModel):
    """Base of argument models: unknown names are refused, so that a misspelt argument is not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. execute: gets arguments that fit the model. changes_files: False where it cannot alter the workspace."""

    name: str
    description: str
    arguments: type[Arguments]
    execute: Callable[[ToolContext, Any], Awaitable[Observation]]
    changes_files: bool = True

    @property
    def schema(self) -> dict[str, Any]:
        """{"type": "function", "function": {name, description, parameters}}"""
        parameters = _plain(self.arguments.model_json_schema())
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    async def run(self, context: ToolContext, arguments: Mapping[str, Any]) -> Observation:
        """Validate and execute; raises SandboxError where the sandbox, not the policy, failed."""
        try:
            checked = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            return Observation(self._faults(error), exit_code=None, valid=False)
        return await self.execute(context, checked)

    def _faults(self, error: ValidationError) -> str:
        fields = self.arguments.model_fields
        lines = [f"Error: these arguments do not fit the tool {self.name!r}; nothing was done."]
        for fault in error.errors(include_url=False, include_input=False):
            where = ".".join(map(str, fault["loc"])) or "arguments"
            what = "no such argument" if fault["type"] == "extra_forbidden" else fault["msg"].lower()
            lines.append(f"- {where}: {what}")
        required = [name for name, info in fields.items() if info.is_required()]
        optional = [name for name in fields if name not in required]
        lines.append(f"Required: {', '.join(required) or 'none'}. Optional: {', '.join(optional) or 'none'}.")
        return "\n".join(lines)


def _plain(schema: Any) -> Any:
    """A JSON schema without what only costs tokens: titles, and `null` alternatives of optional arguments."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    if isinstance(schema.get("title"), str):
        del schema["title"]
    if schema.get("default", ...) is None:
        del schema["default"]
    alternatives = [item for item in schema.get("anyOf", ()) if item != {"type": "null"}]
    if len(alternatives) == 1:
        del schema["anyOf"]
        schema = {**alternatives[0], **schema}
        schema.pop("title", None)
    return {key: _plain(value) for key, value in schema.items() if key != "additionalProperties"}
