"""One JSON line per trajectory: conversations for supervised fine-tuning, and SWE-bench's predictions."""

from __future__ import annotations

from typing import Any

from agentgym.store.records import ContextEvent, Trajectory
from agentgym.store.transfer.atif import clean
from agentgym.store.transfer.transcript import Transcribe


class LeftOut(Exception):
    """This trajectory has no place in the format; the message says why, and is what is counted."""


def sft_row(trajectory: Trajectory, transcribe: Transcribe) -> dict[str, Any]:
    """`messages` and `tools` of one conversation. Raises LeftOut for one that the policy never saw as a whole.

    A prompt that was compacted, cut or rewritten belongs to no single conversation: as one row it would teach answers to
    prompts that did not ask for them.
    """
    if not trajectory.calls:
        raise LeftOut("the policy was never asked")
    if any(call.context_event is not ContextEvent.APPEND for call in trajectory.calls):
        raise LeftOut("its context was compacted, cut or rewritten")
    transcript = transcribe(trajectory)
    if not transcript.whole or not transcript.opening:
        raise LeftOut("its words are not known (name the tokenizer, and keep task and harness profile)")
    return {
        "messages": [clean(message) for message in transcript.messages],
        "tools": [clean(tool) for tool in transcript.tools],
        "trajectory_id": trajectory.id,
        "task_id": trajectory.task_id,
        "reward": trajectory.reward,
    }


def prediction_row(trajectory: Trajectory) -> dict[str, Any]:
    """What SWE-bench's evaluation reads. Raises LeftOut for an episode that something else than the policy ended."""
    if trajectory.termination.is_failure:
        raise LeftOut(f"it ended with {trajectory.termination.value}")
    return {
        "instance_id": trajectory.task_id,
        "model_name_or_path": trajectory.model or trajectory.policy,
        "model_patch": clean(trajectory.patch),
    }
