"""Whatever happens in whatever order, every sampled token is in the record once and after the prompt it was sampled from.

Two machines are driven at random with the real renderer, and what they leave is proved by the same check that proves a store:
our own context (with its compactions), and the gateway's episodes (branches, rewritten histories, retries, aborts).
Generations are empty, one token, long, cut, full of control tokens, or cross a weight update.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.sandbox.protocol import Image
from agentgym.store import Store
from agentgym.store.check import check_store
from agentgym.store.records import FinishReason, ModelCall, PolicyKind, Sampling, Termination, Trajectory, VersionSpan
from agentgym.store.sequences import sequences
from harness.context import Context
from harness.gateway.ask import Ask
from harness.gateway.session import Session
from harness.policies.protocol import Generation, PolicyError
from harness.profile import ContextPolicy, load_profile
from harness.recorder import Recorder, Setting
from harness.workplace import Workplace

RANDOM = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
STOP = 2

tokens = st.one_of(st.integers(0, 16), st.integers(17, 49_000))
"""Control tokens are as likely as all others together."""
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


@st.composite
def generations(draw) -> Generation:
    ids = draw(st.one_of(st.just([]), st.lists(tokens, min_size=1, max_size=1), st.lists(tokens, max_size=30)))
    if draw(st.booleans()):
        ids = [*ids, STOP]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(ids) - 1)), max_size=3))) if len(ids) > 1 else []
    edges = [0, *cuts, len(ids)]
    spans = tuple(VersionSpan(k, a, b) for k, (a, b) in enumerate(pairwise(edges)) if b > a)
    reason = (
        FinishReason.STOP if ids[-1:] == [STOP] else draw(st.sampled_from([FinishReason.LENGTH, FinishReason.ABORT]))
    )
    logprobs = -np.abs(np.asarray(draw(st.lists(st.floats(0, 50), min_size=len(ids), max_size=len(ids))), np.float32))
    return Generation(np.asarray(ids, np.int32), logprobs, spans, reason)


def prove(trajectory: Trajectory, folder: Path) -> None:
    """The store takes it, its check finds nothing, and no token is lost or doubled."""
    with Store.open(folder / f"{trajectory.id}.db") as store:
        store.add(trajectory)
        report = check_store(store)
    assert report.ok, report.faults
    derived = sequences(trajectory)
    sampled = [call.generation_token_ids for call in trajectory.calls if len(call.generation_token_ids)]
    kept = [one.token_ids[one.action_mask] for one in derived]
    assert np.array_equal(np.concatenate([[], *kept]), np.concatenate([[], *sampled]))


@RANDOM
@given(
    kind=st.sampled_from(["append", "truncate-observations", "window", "summarise"]),
    played=st.lists(st.tuples(generations(), st.lists(texts, min_size=1, max_size=2)), min_size=1, max_size=12),
    at_tokens=st.integers(30, 250),
)
def test_our_own_context(kind, played, at_tokens, renderer, tmp_path_factory) -> None:
    policy = ContextPolicy(kind=kind, keep_turns=2, observation_chars=10)
    context = Context(renderer, [], policy, at_tokens)
    context.begin([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    calls: list[ModelCall] = []
    for generation, observations in played:
        calls.append(
            ModelCall(
                context.prompt,
                generation.token_ids,
                generation.logprobs,
                Sampling(),
                generation.versions,
                generation.finish_reason,
                context.event,
            )
        )
        if context.awaits_summary:
            context.summarised(generation.token_ids)
        else:
            context.extend(generation.token_ids, [{"role": "user", "content": text} for text in observations])
    trajectory = Trajectory("t", "", "", "", "", "p", PolicyKind.MODEL, tuple(calls), (), Termination.MAX_STEPS, 0.0)
    prove(trajectory, tmp_path_factory.mktemp("own"))


@dataclass
class Drawn:
    """A policy that gives what hypothesis drew, and fails where it drew nothing."""

    turns: list[Generation | None]
    name: str = "drawn"
    kind: PolicyKind = PolicyKind.MODEL
    model: str = "drawn"
    context_length: int = 1 << 16
    version: int = 0
    hold: asyncio.Event = field(default_factory=asyncio.Event)

    async def generate(self, prompt_token_ids, **_: Any) -> Generation:
        await self.hold.wait()
        turn = self.turns.pop(0) if self.turns else None
        if turn is None:
            raise PolicyError("nothing was drawn")
        return turn

    async def end_episode(self, episode_id: str) -> None: ...

    async def close(self) -> None: ...


class Nowhere:
    name = "nowhere"


@dataclass(frozen=True)
class Move:
    """What a client does next in one of its conversations."""

    conversation: int
    kind: str
    text: str = ""
    stop: str = ""
    taken: bool = True


moves = st.builds(
    Move,
    conversation=st.integers(0, 2),
    kind=st.sampled_from(["append", "append", "append", "again", "retry", "drop", "edit", "twice", "give up"]),
    text=texts,
    stop=st.sampled_from(["", "", "a", "\n"]),
    taken=st.booleans(),
)


async def act(session: Session, policy: Drawn, play: list[Move]) -> None:
    """Play the moves; a reply that arrives is put into the conversation as a client would."""
    histories: dict[int, list[dict[str, Any]]] = {}
    for move in play:
        history = histories.setdefault(move.conversation, [{"role": "user", "content": "start"}])
        if move.kind == "drop" and len(history) > 2:
            del history[1:3]
        elif move.kind == "edit":
            history[0] = {"role": "user", "content": move.text}
        elif move.kind == "append" and history[-1]["role"] == "assistant":
            history.append({"role": "user", "content": move.text})
        if history[-1]["role"] == "assistant":
            history.append({"role": "user", "content": "and?"})
        ask = Ask(messages=tuple(history), stop=(move.stop,) if move.stop else ())
        policy.hold.clear()
        exchanges = [session.ask(ask, retry=move.kind == "retry")]
        if move.kind == "twice":
            exchanges[0].clients = 1  # the first client still waits, so the second one asks for itself
            exchanges.append(session.ask(ask))
            exchanges[0].clients = 0
        if move.kind == "give up":
            exchanges.append(session.ask(ask))
        policy.hold.set()
        for exchange in exchanges:
            await asyncio.wait({exchange.task})
        if exchanges[-1].task.exception() is None:
            exchanges[-1].whole |= move.taken
            if move.taken and move.kind != "again":
                history.append(dict(exchanges[-1].task.result().message))


@RANDOM
@given(turns=st.lists(st.one_of(generations(), st.none()), max_size=14), play=st.lists(moves, min_size=1, max_size=14))
def test_the_gateway(turns, play, renderer, task, tmp_path_factory) -> None:
    async def run() -> tuple[Trajectory, int]:
        policy = Drawn(list(turns))
        image = Image(task.image, "none", "sha256:none", "none")
        setting = Setting(task, policy, renderer, load_profile("gateway"), Nowhere(), image, seed=1)  # type: ignore[arg-type]
        session = Session(Workplace(setting, Recorder(setting)))
        await act(session, policy, play)
        await session.close()
        used = len(turns) - len(policy.turns)
        sampled = sum(turn is not None for turn in turns[:used])
        trajectory = session.record.trajectory(Termination.SUBMITTED)
        return replace(trajectory, reward=0.0), sampled

    trajectory, sampled = asyncio.run(run())
    assert len(trajectory.calls) == sampled, "each generation is recorded once, however often it was asked for"
    notes = trajectory.metadata["gateway"]
    assert 0 <= notes["kept_fraction"] <= 1
    assert 0 <= notes["delivered_fraction"] <= 1
    prove(trajectory, tmp_path_factory.mktemp("gateway"))


@pytest.mark.parametrize("kind", ["append", "summarise"])
def test_nothing_at_all_is_a_record_too(kind, renderer, tmp_path) -> None:
    nothing = Generation(np.zeros(0, np.int32), np.zeros(0, np.float32), (), FinishReason.ABORT)
    context = Context(renderer, [], ContextPolicy(kind=kind), 20)
    context.begin([{"role": "user", "content": "u"}])
    calls = []
    for _ in range(4):
        event = context.event
        calls.append(
            ModelCall(context.prompt, nothing.token_ids, nothing.logprobs, Sampling(), (), FinishReason.ABORT, event)
        )
        if context.awaits_summary:
            context.summarised(nothing.token_ids)
        else:
            context.extend(nothing.token_ids, [{"role": "user", "content": "x"}])
    prove(
        Trajectory("t", "", "", "", "", "p", PolicyKind.MODEL, tuple(calls), (), Termination.MAX_STEPS, 0.0), tmp_path
    )
