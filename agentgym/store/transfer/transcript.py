"""A trajectory as the messages people and chat templates know.

The record is token ids; text is made from it for formats that want text, and never goes back to tokens. What makes it
needs the tokenizer and the harness, so it comes from above (`harness.replay.transcript`); without it, what the record
itself says in words is used: tool calls and observations, and the messages that an import kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.store.records import Step, Trajectory

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """opening: the messages before the first call, for a child of a prefix replay those of its parent too. turns: per call,
    the assistant message and those that answered it.

    Messages are in the chat format of the field: role, content, tool_calls (arguments as objects), tool_call_id.
    tools: schemas, as the policy saw them. whole: False where the assistant's own words are missing.
    """

    opening: Sequence[Message]
    turns: Sequence[Sequence[Message]]
    tools: Sequence[Mapping[str, Any]] = ()
    whole: bool = True

    @property
    def messages(self) -> list[Message]:
        return [*self.opening, *(message for turn in self.turns for message in turn)]


Transcribe = Callable[[Trajectory], Transcript]


def recorded_transcript(trajectory: Trajectory) -> Transcript:
    """What the record says in words: the messages an import kept, or else tool calls and observations alone."""
    if (kept := _kept(trajectory.metadata.get("transcript"))) is not None:
        return kept
    steps = steps_by_call(trajectory)
    turns = [turn_of("", [(k, step) for k, step in steps.get(index, [])]) for index in range(len(trajectory.calls))]
    return Transcript((), turns, whole=False)


def _kept(words: Any) -> Transcript | None:
    """The messages that an import kept; None where they are none, or not of that form."""
    if not isinstance(words, Mapping):
        return None
    opening, turns, tools = (words.get(name) or [] for name in ("opening", "turns", "tools"))
    if not isinstance(turns, list) or not all(map(_are_messages, [opening, *turns])):
        return None
    if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
        return None
    return Transcript(opening, turns, tools)


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, Mapping)
        and isinstance(one.get("role"), str)
        and isinstance(one.get("content", ""), str | list | None)
        for one in value
    )


def steps_by_call(trajectory: Trajectory) -> dict[int, list[tuple[int, Step]]]:
    """(index, step) by the call that asked for the step."""
    found: dict[int, list[tuple[int, Step]]] = {}
    for index, step in enumerate(trajectory.steps):
        found.setdefault(step.call_index, []).append((index, step))
    return found


def turn_of(content: str, steps: Iterable[tuple[int, Step]]) -> list[Message]:
    """The assistant message that made these steps, and what answered them."""
    called = [(call_id(index), step) for index, step in steps]
    asked = [
        {"type": "function", "id": name, "function": {"name": step.tool, "arguments": dict(step.arguments)}}
        for name, step in called
        if step.tool
    ]
    said = {"role": "assistant", "content": content} | ({"tool_calls": asked} if asked else {})
    return [said, *(_answer(name, step) for name, step in called)]


def call_id(step_index: int) -> str:
    return f"call_{step_index}"


def _answer(name: str, step: Step) -> Message:
    if not step.tool:
        return {"role": "user", "content": step.observation}
    return {"role": "tool", "content": step.observation, "tool_call_id": name, "name": step.tool}
