"""The turns of a recorded trajectory as the harness takes them: parsed, answered, and played into a context again.

Generations and observations are the recorded ones; only what lies between them (templates, roles, compaction) is made
anew, by today's renderer and context. Where a prompt was compacted is read from the record, not decided again: the
length at which a context is full depends on the policy that was behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from renderers import ParsedResponse, ToolSpec

from agentgym.store.records import ContextEvent, FinishReason, ModelCall, Step, Trajectory
from harness.context import Context
from harness.episode import answer_message
from harness.profile import Profile
from harness.render import GuardedRenderer
from harness.tools.call import read_call

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of the policy. messages: those that answered it; none for a last call, or for a summary."""

    call_id: str
    parsed: ParsedResponse
    messages: tuple[dict[str, Any], ...]


def turns_of(trajectory: Trajectory, profile: Profile, renderer: GuardedRenderer) -> Iterator[Turn]:
    """Every call of the policy, in order."""
    answers = {step.call_index: step for step in trajectory.steps}
    for index, call in enumerate(trajectory.calls):
        yield turn_of(index, call, answers.get(index), profile, renderer)


def turn_of(index: int, call: ModelCall, step: Step | None, profile: Profile, renderer: GuardedRenderer) -> Turn:
    parsed = renderer.parse_response(
        call.generation_token_ids.tolist(),
        tools=cast(list[ToolSpec], profile.tool_specs),
        prompt_ids=call.prompt_token_ids.tolist(),
    )
    cut = call.finish_reason is not FinishReason.STOP
    made = read_call(parsed, profile.tool_set, turn=index + 1, cut=cut)
    messages = (answer_message(made, step.observation),) if step is not None else ()
    return Turn(made.call_id, parsed, messages)


class Playback:
    """Plays a trajectory into `context`, which must have begun: after `advance(k)` it holds the prompt of call k+1."""

    def __init__(self, trajectory: Trajectory, profile: Profile, context: Context) -> None:
        self._calls = trajectory.calls
        self._answers = {step.call_index: step for step in trajectory.steps}
        self._profile = profile
        self._context = context

    def advance(self, index: int) -> bool:
        """Take the recorded call `index` and what answered it; False where nothing did, so there is no next prompt."""
        call, step, context = self._calls[index], self._answers.get(index), self._context
        context.resume(call.prompt_token_ids)
        if context.awaits_summary:
            context.summarised(call.generation_token_ids)
            return True
        if step is None:
            return False
        turn = turn_of(index, call, step, self._profile, context.renderer)
        full, context.at_tokens = context.at_tokens, -1 if self._compacts_after(index) else _NEVER
        context.extend(call.generation_token_ids, turn.messages)
        context.at_tokens = full
        return True

    def _compacts_after(self, index: int) -> bool:
        if self._profile.context.kind == "summarise":  # the request for a summary comes one call before the event
            asked, compacted = index + 1, index + 2
            summary = asked not in self._answers and compacted < len(self._calls)
            return summary and self._calls[compacted].context_event is ContextEvent.COMPACTED
        following = self._calls[index + 1].context_event if index + 1 < len(self._calls) else ContextEvent.APPEND
        return following is ContextEvent.TRUNCATED
