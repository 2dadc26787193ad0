"""What another harness's requests become in the record: branches, and how much of what was sampled reached the agent.

An agent may talk to the policy in several conversations at once (helpers, parallel attempts) or rewrite its history. Calls are
therefore laid out by branch, not by time: a call continues the branch whose last prompt + generation its own prompt starts
with, token by token, and opens a new one (`REWRITTEN`) where there is none. A learner's sequences then are exactly the
branches, each in one piece; when a call was made is in `started_at`.

    delivered_fraction   share of the sampled tokens that were sent to a client; of a stream that was cut, the share of its
                         characters
    kept_fraction        share of the sampled tokens that stand, as sampled, in the prompt of another call; the last call of the
                         episode has no prompt after it and counts as it was delivered
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agentgym.store.records import ContextEvent, Int32Array, ModelCall
from harness.gateway.ask import Answer, Ask
from harness.gateway.asked import keep
from harness.gateway.conversation import Prompt
from harness.gateway.live import Live
from harness.recorder import Recorder


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and its answer, however often it was asked for.

    ask: the request. task: ends with the answer. key: the client's idempotency key. live: for who reads along. prompt: once it
    was laid, and after: how many answers the episode had by then. clients: how many wait for it or read it now. requests: how
    often it came. sent: characters of the reply handed to a client. whole: some client got all of it. dropped: tokens sampled
    after a stop string.
    """

    ask: Ask
    key: str | None = None
    live: Live | None = None
    task: asyncio.Task[Answer] = field(init=False)
    prompt: Prompt | None = None
    after: int = 0
    clients: int = 0
    requests: int = 1
    sent: int = 0
    whole: bool = False
    dropped: int = 0

    @property
    def abandoned(self) -> bool:
        """Nobody has all of the answer, and nobody is getting it."""
        return not self.whole and self.clients == 0

    @property
    def delivered(self) -> int:
        """Sampled tokens that were sent: of an answer that was sent in part, the share of its characters."""
        answer = self.task.result()
        count, characters = len(answer.generation.token_ids), max(1, answer.characters)
        return count if self.whole else count * min(self.sent, characters) // characters


def branches(calls: Sequence[ModelCall]) -> list[list[int]]:
    """Indices of `calls` by branch; branches in the order in which they began."""
    found: list[list[int]] = []
    tips: list[Int32Array] = []
    for k, call in enumerate(calls):
        prompt = call.prompt_token_ids
        fitting = [
            b for b, tip in enumerate(tips) if len(tip) <= len(prompt) and np.array_equal(prompt[: len(tip)], tip)
        ]
        tip = np.concatenate([prompt, call.generation_token_ids])
        if fitting:
            branch = max(fitting, key=lambda b: len(tips[b]))
            found[branch].append(k)
            tips[branch] = tip
        else:
            found.append([k])
            tips.append(tip)
    return found


def settle(record: Recorder, exchanges: Sequence[Exchange], *, errors: Sequence[str], unfinished: int) -> None:
    """Lay the record's calls out by branch and note what became of them. exchanges: in the order of `record.calls`."""
    found = branches(record.calls)
    order = [k for branch in found for k in branch]
    place = {k: position for position, k in enumerate(order)}
    ends = {branch[-1] for branch in found}
    record.extra["gateway"] = _notes(record, exchanges, ends) | {
        "branches": len(found),
        "errors": list(errors[-10:]),
        "unfinished": unfinished,
        "asked": keep(
            [(exchanges[k].ask, exchanges[k].task.result()) for k in order], [(k, exchanges[k].after) for k in order]
        ),
    }
    calls = [record.calls[k] for k in order]
    record.calls[:] = [replace(call, context_event=_event(calls, k)) for k, call in enumerate(calls)]
    if calls:
        record.steps[:] = [replace(step, call_index=place[step.call_index]) for step in record.steps]
    else:
        record.steps.clear()


def _event(calls: Sequence[ModelCall], k: int) -> ContextEvent:
    if k == 0 or len(branches(calls[k - 1 : k + 1])) == 1:
        return ContextEvent.APPEND
    return ContextEvent.REWRITTEN


def _notes(record: Recorder, exchanges: Sequence[Exchange], ends: set[int]) -> dict[str, Any]:
    sampled = [len(call.generation_token_ids) for call in record.calls]
    delivered = [exchange.delivered for exchange in exchanges]
    stands: dict[str, int] = {}
    for exchange in exchanges:
        for reply, count in exchange.prompt.replies if exchange.prompt else ():
            stands[reply] = max(count, stands.get(reply, 0))
    ids = [exchange.task.result().id for exchange in exchanges]
    kept = [stands.get(ids[k], 0) if k in ends else count for k, count in enumerate(sampled)]
    kept[-1:] = delivered[-1:]
    total = sum(sampled)
    return {
        "delivered_fraction": sum(delivered) / total if total else 1.0,
        "kept_fraction": sum(kept) / total if total else 1.0,
        "requests": sum(exchange.requests for exchange in exchanges),
        "repeated": sum(exchange.requests - 1 for exchange in exchanges),
        "aborted": sum(not exchange.whole for exchange in exchanges),
        "dropped_tokens": sum(exchange.dropped for exchange in exchanges),
    }
