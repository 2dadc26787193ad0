"""Re-rendering: would today's harness make the prompts that were recorded?

The first prompt is rendered from the task and the profile, every later one from the recorded prompt before it, the
recorded generation and the recorded observation. So each call is judged by itself: one difference (a changed template, a
reworded tool description, another renderer) does not make all that follow differ.

Where another harness made the prompts, through the gateway, they are made again of the messages that it sent (`foreign.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.store import Trajectory
from agentgym.store.records import Int32Array
from agentgym.tasks.model import Task
from harness.context import Context
from harness.gateway.refusal import Refusal
from harness.profile import Profile
from harness.render import GuardedRenderer, RenderError
from harness.replay.foreign import FOREIGN, prompts_again
from harness.replay.reexecute import require_same_task
from harness.replay.turns import Playback

_AROUND = 12
"""Tokens shown on either side of a difference."""


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """A prompt that came out different. position: of the first token that differs; recorded, rendered: the text around it,
    from the same position on; recorded_token, rendered_token: None where that prompt ends there."""

    call_index: int
    position: int
    recorded_token: int | None
    rendered_token: int | None
    recorded: str
    rendered: str
    recorded_length: int
    rendered_length: int


@dataclass(frozen=True, slots=True)
class RerenderReport:
    """calls: how many prompts were compared. stopped: why later ones could not be, "" where all were."""

    trajectory_id: str
    calls: int
    differences: tuple[PromptDifference, ...]
    stopped: str = ""

    @property
    def identical(self) -> int:
        return self.calls - len(self.differences)


def rerender(trajectory: Trajectory, task: Task, profile: Profile, renderer: GuardedRenderer) -> RerenderReport:
    """Compare every recorded prompt with what `renderer` and `profile` make of the same messages today.

    Raises InputError where `task` is not the one recorded, or another harness made the prompts and what it sent was not kept.
    """
    require_same_task(trajectory, task)
    if FOREIGN in trajectory.metadata:
        return _of_another_harness(trajectory, renderer)
    context = Context(renderer, profile.tool_specs, profile.context)
    context.begin(profile.first_messages(instruction=task.instruction, workdir=task.workdir, task_id=task.id))
    playback = Playback(trajectory, profile, context)
    differences: list[PromptDifference] = []
    for index, call in enumerate(trajectory.calls):
        prompt = context.prompt
        if not np.array_equal(prompt, call.prompt_token_ids):
            differences.append(_difference(index, call.prompt_token_ids, prompt, renderer))
        try:
            more = playback.advance(index)
        except RenderError as error:
            return RerenderReport(trajectory.id, index + 1, tuple(differences), stopped=str(error))
        if not more and index + 1 < len(trajectory.calls):
            stopped = f"call {index} has no step, so what answered it is not known"
            return RerenderReport(trajectory.id, index + 1, tuple(differences), stopped)
    return RerenderReport(trajectory.id, len(trajectory.calls), tuple(differences))


def _of_another_harness(trajectory: Trajectory, renderer: GuardedRenderer) -> RerenderReport:
    again = prompts_again(trajectory, renderer)
    differences: list[PromptDifference] = []
    refused: list[str] = []
    for index, prompt in sorted(again.items()):
        if isinstance(prompt, Refusal):
            refused.append(f"call {index}: {prompt}")
        elif not np.array_equal(prompt, trajectory.calls[index].prompt_token_ids):
            differences.append(_difference(index, trajectory.calls[index].prompt_token_ids, prompt, renderer))
    return RerenderReport(trajectory.id, len(again) - len(refused), tuple(differences), "; ".join(refused[:3]))


def _difference(index: int, recorded: Int32Array, rendered: Int32Array, renderer: GuardedRenderer) -> PromptDifference:
    length = min(len(recorded), len(rendered))
    unequal = np.flatnonzero(recorded[:length] != rendered[:length])
    position = int(unequal[0]) if len(unequal) else length

    def around(ids: Int32Array) -> str:
        return renderer.decode(ids[max(0, position - _AROUND) : position + _AROUND].tolist())

    def token(ids: Int32Array) -> int | None:
        return int(ids[position]) if position < len(ids) else None

    return PromptDifference(
        call_index=index,
        position=position,
        recorded_token=token(recorded),
        rendered_token=token(rendered),
        recorded=around(recorded),
        rendered=around(rendered),
        recorded_length=len(recorded),
        rendered_length=len(rendered),
    )
