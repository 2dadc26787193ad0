"""Re-rendering what another harness asked: the messages it sent, laid again as the gateway lays them.

The gateway keeps the messages of each request beside the record (`harness.gateway.asked`). They are played again in the order
of time: a request when it was made, its recorded answer when it was given, so that a turn finds the same replies as then. Each
prompt is judged by itself, as for our own harness: what follows is laid on the recorded one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from agentgym.errors import InputError
from agentgym.store import Trajectory
from agentgym.store.records import Int32Array, ModelCall
from harness.gateway.ask import Answer, Ask
from harness.gateway.asked import kept
from harness.gateway.conversation import Conversation, mark
from harness.gateway.reading import read
from harness.gateway.refusal import Refusal
from harness.policies.protocol import Generation
from harness.render import GuardedRenderer

FOREIGN = "gateway"
"""Key of the metadata of a trajectory whose prompts another harness made."""


def requests_of(trajectory: Trajectory) -> list[tuple[Ask, list[str]]]:
    """What was asked, by call, with the ids of the answers' calls. Raises InputError where it was not kept."""
    notes = trajectory.metadata[FOREIGN]
    try:
        found = list(kept(notes.get("asked", []) if isinstance(notes, Mapping) else []))
    except ValueError:  # an import may hold anything
        found = []
    if len(found) != len(trajectory.calls):
        raise InputError(
            f"another harness made the prompts of trajectory {trajectory.id[:8]}, and the gateway kept nothing of what it sent",
            hint="--reexecute, --regrade and --rescore can be done for it",
        )
    return found


def prompts_again(trajectory: Trajectory, renderer: GuardedRenderer) -> dict[int, Int32Array | Refusal]:
    """The prompt that each call would get today, or why it would get none; calls with a prompt of token ids are left out."""
    asked = requests_of(trajectory)
    conversation = Conversation(renderer)
    found: dict[int, Int32Array | Refusal] = {}
    fresh: dict[bytes, Int32Array | Refusal] = {}
    times = [(call.started_at, call.started_at + call.duration) for call in trajectory.calls]
    order = [(start, True, k) for k, (start, _) in enumerate(times)] + [
        (end, False, k) for k, (_, end) in enumerate(times)
    ]
    for _, begins, k in sorted(order):
        (ask, call_ids), call = asked[k], trajectory.calls[k]
        if not (ask.messages or ask.text is not None):
            continue
        if begins:
            # A request that the conversation knows would get the prompt laid for it, which is the recorded one.
            found[k] = fresh[mark(ask)] if ask.messages and mark(ask) in fresh else _prompt(conversation, ask)
            if ask.messages:
                fresh[mark(ask)] = found[k]
            conversation.lay(ask, call.prompt_token_ids)
        else:
            conversation.take(ask, _answer(ask, call, call_ids, renderer))
    return found


def _prompt(conversation: Conversation, ask: Ask) -> Int32Array | Refusal:
    try:
        return np.asarray(conversation.render(ask), np.int32)
    except Refusal as refusal:
        return refusal


def _answer(ask: Ask, call: ModelCall, call_ids: list[str], renderer: GuardedRenderer) -> Answer:
    """The answer as the client got it."""
    sampled = Generation(call.generation_token_ids, call.logprobs, call.policy_versions, call.finish_reason)
    answer = read(ask, call.prompt_token_ids, sampled, renderer)
    named = [replace(one, id=id_) for one, id_ in zip(answer.calls, call_ids, strict=False)]
    return replace(answer, calls=tuple(named)) if len(named) == len(answer.calls) else answer
