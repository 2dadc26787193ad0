"""Re-rendering what another harness asked: the messages it sent, laid again as the gateway lays them.

The gateway keeps the messages of each request beside the record, and which answers there were when its prompt was laid
(`harness.gateway.asked`). They are played again in that order, so that a turn finds the same replies as then. Each prompt is
judged by itself, as for our own harness: what follows is laid on the recorded one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentgym.errors import InputError
from agentgym.store import Trajectory
from agentgym.store.records import Int32Array, ModelCall
from harness.gateway.ask import Answer, Ask
from harness.gateway.asked import kept, order
from harness.gateway.conversation import Conversation, Prompt, mark
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
    """The prompt that each call would get today, or why it would get none; calls with a prompt of token ids are left out.

    Raises InputError where it was not kept what was asked, or in which order.
    """
    asked = requests_of(trajectory)
    conversation = Conversation(renderer)
    found: dict[int, Int32Array | Refusal] = {}
    fresh: dict[bytes, Int32Array | Refusal] = {}
    for k, answered in _events(trajectory):
        (ask, call_ids), call = asked[k], trajectory.calls[k]
        if not (ask.messages or ask.text is not None):
            continue
        if answered:
            conversation.take(ask, Prompt(call.prompt_token_ids), _answer(ask, call, call_ids, renderer))
            fresh.setdefault(mark(ask), found[k])
        else:
            # An equal request gets the prompt that was laid for the first, which here is the recorded one.
            known = fresh.get(mark(ask)) if ask.messages else None
            found[k] = _prompt(conversation, ask) if known is None else known
    return found


def _events(trajectory: Trajectory) -> list[tuple[int, bool]]:
    """Which call's prompt was laid (False) or answered (True), one after the other."""
    try:
        places = order(trajectory.metadata[FOREIGN]["asked"])
    except ValueError as error:
        raise InputError(
            f"in which order the prompts of trajectory {trajectory.id[:8]} were made was not kept: {error}",
            hint="--reexecute, --regrade and --rescore can be done for it",
        ) from error
    laid = [(after, False, k) for k, (_, after) in enumerate(places)]
    answered = [(number, True, k) for k, (number, _) in enumerate(places)]
    return [(k, what) for _, what, k in sorted(laid + answered)]


def _prompt(conversation: Conversation, ask: Ask) -> Int32Array | Refusal:
    try:
        return conversation.render(ask).token_ids
    except Refusal as refusal:
        return refusal


def _answer(ask: Ask, call: ModelCall, call_ids: list[str], renderer: GuardedRenderer) -> Answer:
    """The answer as the client got it."""
    sampled = Generation(call.generation_token_ids, call.logprobs, call.policy_versions, call.finish_reason)
    answer = read(ask, call.prompt_token_ids, sampled, renderer)
    named = [replace(one, id=id_) for one, id_ in zip(answer.calls, call_ids, strict=False)]
    return replace(answer, calls=tuple(named)) if len(named) == len(answer.calls) else answer
