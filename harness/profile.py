"""A harness profile: everything about the harness that shapes what a policy sees, as one TOML document with a digest.

What is trained is model + harness + environment, so a change of prompt, tools, limits or stop rules is a change of the
training distribution: each trajectory carries the digest of the profile it was made under, and the store keeps the
document. Profiles that ship are in `harness/profiles/`; `load_profile` takes their names or the path of a TOML file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal

from pydantic import Field, field_validator

from agentgym.config import Config, ConfigError, parse_config, read_toml
from agentgym.store.records import Sampling, digest_of
from harness.tools import TOOLS, Tool


class Prompts(Config):
    """Texts of the first prompt. `$name` is filled in: workdir, task_id, instruction; `$$` is a dollar sign."""

    system: str = Field(description="System message")
    instance: str = Field(default="$instruction", description="First user message")

    @field_validator("system", "instance")
    @classmethod
    def _known_fields(cls, text: str) -> str:
        known = {"workdir", "task_id", "instruction"}
        if unknown := sorted(set(Template(text).get_identifiers()) - known):
            raise ValueError(f"unknown fields {unknown}; known are {sorted(known)}; write $$ for a dollar sign")
        try:
            Template(text).substitute(dict.fromkeys(known, ""))
        except ValueError as error:
            raise ValueError(f"not a valid template ({error}); write $$ for a dollar sign") from None
        return text


class ObservationFormat(Config):
    max_chars: int = Field(default=16_000, gt=0, description="Cap of one observation; head and tail are kept")
    timeout_s: float = Field(default=60.0, gt=0, description="Default and largest time of one command, seconds")
    finish_marker: str | None = Field(
        default=None, description="A bash output that starts with this line ends the episode"
    )


class Limits(Config):
    """Budgets. Reaching one truncates the episode: its termination names which."""

    max_turns: int = Field(default=50, gt=0, description="Model calls")
    max_tokens_per_turn: int = Field(default=4096, gt=0, description="Generated tokens of one call")
    max_tokens: int = Field(default=65_536, gt=0, description="Generated tokens of the episode")
    max_context: int = Field(
        default=131_072, gt=0, description="Tokens of one prompt and its generation; the policy may have less"
    )
    wall_time_s: float | None = Field(
        default=None, gt=0, description="Seconds for acting; default: the task's agent time-out"
    )


class ContextPolicy(Config):
    """What happens to a prompt that has grown long; see `harness.context`."""

    kind: Literal["append", "truncate-observations", "window", "summarise"] = Field(
        default="append", description="append goes on until the context is full"
    )
    at_tokens: int | None = Field(
        default=None, gt=0, description="Prompt length that triggers it; default 3/4 of the context"
    )
    keep_turns: int = Field(default=4, gt=0, description="Last turns that stay whole")
    observation_chars: int = Field(default=400, gt=0, description="What is left of an older observation")
    summary_request: str = Field(
        default="Before you go on: summarise for yourself, in plain text and without calling a tool, what the task needs, what "
        "you have found and changed, with file names and line numbers, and what is left to do. Nothing else will be kept.",
        description="How a summary is asked for",
    )


class StopRules(Config):
    """Behaviour that ends an episode. 0 switches a rule off."""

    repeated_actions: int = Field(
        default=4, ge=0, description="The same call with the same observation this often in a row"
    )
    repeated_cycle: int = Field(default=4, ge=0, description="Longest cycle of calls that counts as repeating")
    failing_edits: int = Field(default=0, ge=0, description="Failed edits in a row, whatever they were")
    invalid_actions: int = Field(default=5, ge=0, description="Malformed calls in a row")
    tests_passed: bool = Field(default=False, description="Grade after each change and stop at the first passing state")


class SamplingConfig(Config):
    temperature: float = Field(default=1.0, ge=0, description="0 is greedy")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus; training rollouts leave it at 1")
    top_k: int = Field(default=-1, ge=-1, description="-1 is off; training rollouts leave it off")

    def record(self, seed: int | None) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.top_k, seed)


class Profile(Config):
    """One harness profile."""

    name: str = Field(description="Name for people; the digest is the identity")
    prompts: Prompts = Field(description="Texts of the first prompt")
    tools: list[str] = Field(min_length=1, description="Tools the policy sees, by name")
    observation: ObservationFormat = Field(default=ObservationFormat(), description="How results are shown")
    limits: Limits = Field(default=Limits(), description="Budgets")
    context: ContextPolicy = Field(default=ContextPolicy(), description="What happens to a prompt that has grown long")
    stop: StopRules = Field(default=StopRules(), description="Behaviour that ends an episode")
    sampling: SamplingConfig = Field(default=SamplingConfig(), description="How the policy is sampled")
    tree_hashes: bool = Field(default=True, description="Record the workspace's git tree after each call")

    @field_validator("tools")
    @classmethod
    def _known_tools(cls, names: list[str]) -> list[str]:
        if unknown := [name for name in names if name not in TOOLS]:
            raise ValueError(f"no such tools: {unknown}; there are {sorted(TOOLS)}")
        if len({TOOLS[name].name for name in names}) != len(names):
            raise ValueError("a tool is named twice, or two tools look the same to a policy")
        return names

    @property
    def tool_set(self) -> Mapping[str, Tool]:
        """By the names the policy calls them."""
        return {TOOLS[name].name: TOOLS[name] for name in self.tools}

    @property
    def tool_specs(self) -> list[dict[str, Any]]:
        """The schemas as rendered into the prompt."""
        return [tool.schema for tool in self.tool_set.values()]

    def document(self) -> dict[str, Any]:
        """All that shapes a rollout, tool schemas included: what the digest is of."""
        return {"profile": self.model_dump(mode="json"), "tool_schemas": self.tool_specs}

    @property
    def digest(self) -> str:
        return digest_of(self.document())

    def first_messages(self, *, instruction: str, workdir: str, task_id: str) -> list[dict[str, str]]:
        values = {"instruction": instruction, "workdir": workdir, "task_id": task_id}
        roles: tuple[tuple[Literal["system", "user"], str], ...] = (
            ("system", self.prompts.system),
            ("user", self.prompts.instance),
        )
        return [{"role": role, "content": Template(text).substitute(values)} for role, text in roles]


def shipped_profiles() -> list[str]:
    """Names `load_profile` knows without a path."""
    folder = files("harness") / "profiles"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_profile(name_or_path: str | Path) -> Profile:
    """A shipped profile by name, or one from a TOML file; raises ConfigError that lists every fault."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        if str(name_or_path) not in shipped_profiles():
            raise ConfigError(
                f"there is no profile {str(name_or_path)!r}; shipped are {', '.join(shipped_profiles())}",
                hint="or give the path of a .toml file",
            )
        path = Path(str(files("harness") / "profiles" / f"{name_or_path}.toml"))
    return parse_config(Profile, read_toml(path), origin=str(path))
