"""Whatever happens in whatever order, every sampled token is in the record once and after the prompt it was sampled from.

Two machines are driven at random with the real renderer: an episode of our own loop (with its compactions), and one of the
gateway (branches, rewritten histories, retries, requests side by side). Behind both is a policy that keeps what it was really
asked and what it really answered; the stored record must be that, byte for byte, and pass the check that proves a store. The
prompts of the gateway can also be laid again, equal, of what it kept. Generations are empty, one token, long, cut, full of
control tokens, good calls; weights change before and within them, and versions go on rising; episodes and requests are
cancelled wherever they happen to be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from agentgym.sandbox.protocol import ExecResult, Image
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.check import check_store
from agentgym.store.records import (
    ContextEvent,
    FinishReason,
    ModelCall,
    PolicyKind,
    Sampling,
    Termination,
    Trajectory,
    VersionSpan,
)
from agentgym.store.sequences import sequences
from agentgym.verify.grade import Grade, Patch
from harness.context import Context
from harness.episode import run_episode
from harness.gateway.app import create_app
from harness.gateway.gateway import Gateway
from harness.gateway.session import Session
from harness.policies.protocol import Generation, PolicyError
from harness.profile import ContextPolicy, Profile, load_profile
from harness.recorder import Recorder, Setting
from harness.render import GuardedRenderer, assistant_turn
from harness.replay.foreign import prompts_again
from harness.workplace import Workplace

RANDOM = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
STOP = 2

tokens = st.one_of(st.integers(0, 16), st.integers(17, 49_000))
"""Control tokens are as likely as all others together."""
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
updates, waits = st.integers(0, 3), st.one_of(st.just(0), st.integers(0, 80))


@dataclass(frozen=True)
class Drawn:
    """One answer. command: a good call of bash instead of `ids`. cuts: where in it new weights come; updates: how often they
    come before it. waits: how long it takes. None for `ids` and `command`: the policy fails.
    """

    ids: tuple[int, ...] | None
    command: str | None = None
    cuts: frozenset[int] = frozenset()
    updates: int = 0
    waits: int = 0
    reason: FinishReason = FinishReason.LENGTH


token_lists = st.one_of(
    st.just(()),
    tokens.map(lambda one: (one,)),
    st.lists(tokens, max_size=30).map(tuple),
    st.lists(tokens, max_size=30).map(lambda ids: (*ids, STOP)),
)
cuts, reasons = (
    st.frozensets(st.integers(1, 30), max_size=3),
    st.sampled_from([FinishReason.LENGTH, FinishReason.ABORT]),
)
answers = st.one_of(
    st.builds(Drawn, token_lists, st.none(), cuts, updates, waits, reasons),
    st.builds(Drawn, st.none(), st.sampled_from(["ls", "cat x", "echo '日本🙂'"]), cuts, updates, waits),
)
failures = st.builds(Drawn, st.none(), st.none(), waits=waits)


@dataclass
class Keeping:
    """A policy that answers what was drawn, and keeps each prompt as it came with the answer as it went."""

    turns: list[Drawn]
    renderer: GuardedRenderer
    name: str = "drawn"
    kind: PolicyKind = PolicyKind.MODEL
    model: str = "drawn"
    context_length: int = 1 << 16
    version: int = 0
    kept: list[tuple[bytes, Generation]] = field(default_factory=list)
    broken_off: int = 0

    async def generate(self, prompt_token_ids, **_: Any) -> Generation:
        asked = prompt_token_ids.tobytes()
        turn = self.turns.pop(0) if self.turns else Drawn(None)
        self.version += turn.updates
        try:
            for _ in range(turn.waits):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        if turn.ids is None and turn.command is None:
            raise PolicyError("nothing was drawn")
        call = [("bash", {"command": turn.command})]
        ids = assistant_turn(self.renderer, "I look.", call) if turn.ids is None else list(turn.ids)
        edges = [0, *sorted(cut for cut in turn.cuts if cut < len(ids)), len(ids)]
        spans = []
        for start, end in pairwise(edges):
            if end > start:
                spans.append(VersionSpan(self.version, start, end))
                self.version += end < len(ids)
        logprobs = -np.random.default_rng(len(self.kept)).random(len(ids), np.float32)
        reason = FinishReason.STOP if ids[-1:] == [STOP] else turn.reason
        answer = Generation(np.asarray(ids, np.int32), logprobs, tuple(spans), reason)
        self.kept.append((asked, answer))
        return answer

    async def end_episode(self, episode_id: str) -> None: ...

    async def close(self) -> None: ...


def told(policy: Keeping) -> list[tuple[Any, ...]]:
    """What the policy was asked and answered, as values."""
    return [
        (asked, one.token_ids.tobytes(), one.logprobs.tobytes(), one.versions, one.finish_reason)
        for asked, one in policy.kept
    ]


def recorded(calls: tuple[ModelCall, ...]) -> list[tuple[Any, ...]]:
    """The same of recorded calls."""
    return [
        (
            call.prompt_token_ids.tobytes(),
            call.generation_token_ids.tobytes(),
            call.logprobs.tobytes(),
            call.policy_versions,
            call.finish_reason,
        )
        for call in calls
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("properties") / "store.db") as opened:
        yield opened


def prove(trajectory: Trajectory, store: Store) -> tuple[ModelCall, ...]:
    """The store takes it, its check finds nothing, no token is lost or doubled; the calls as the store gives them back."""
    trajectory = replace(trajectory, run_id=trajectory.id, harness_digest="")
    store.add(trajectory)
    report = check_store(store, TrajectoryFilter(run_id=trajectory.id))
    assert report.ok, report.faults
    assert report.trajectories == 1
    derived = sequences(trajectory)
    sampled = [call.generation_token_ids for call in trajectory.calls if len(call.generation_token_ids)]
    kept = [one.token_ids[one.action_mask] for one in derived]
    assert np.array_equal(np.concatenate([[], *kept]), np.concatenate([[], *sampled]))
    return store.get(trajectory.id).calls


KINDS = ("append", "truncate-observations", "window", "summarise")


def small(kind: str, at_tokens: int) -> Profile:
    """A profile whose prompts are as short as its context."""
    context = {"kind": kind, "at_tokens": at_tokens, "keep_turns": 2, "observation_chars": 10}
    stop = {"repeated_actions": 0, "repeated_cycle": 0, "invalid_actions": 0}
    prompts = {"system": "s", "instance": "u"}
    return Profile.model_validate(
        {"name": "p", "prompts": prompts, "tools": ["bash"], "context": context, "stop": stop, "tree_hashes": False}
    )


@dataclass
class Echo:
    """A sandbox, and the engine that starts it: each command gives the next of what was drawn."""

    outputs: list[str]
    name: str = "echo"

    async def start(self, image: Image, limits: Any) -> Echo:
        return self

    async def exec(self, command: str, **_: Any) -> ExecResult:
        await asyncio.sleep(0)
        text = self.outputs.pop(0) if self.outputs else ""
        return ExecResult(0, text.encode())

    async def close(self) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def ungraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to grade in such a sandbox."""

    async def no_patch(*_: Any, **__: Any) -> Patch:
        return Patch(b"")

    async def no_tests(*_: Any, **__: Any) -> Grade:
        return Grade(0.0)

    monkeypatch.setattr("harness.workplace.extract_patch", no_patch)
    monkeypatch.setattr("harness.workplace.grade", no_tests)


@RANDOM
@given(
    kind=st.sampled_from(KINDS),
    at_tokens=st.integers(250, 700),
    turns=st.lists(answers, min_size=1, max_size=12),
    outputs=st.lists(texts, max_size=12),
    cancel_at=st.one_of(st.none(), st.integers(0, 8), st.integers(9, 200)),
)
def test_an_episode_of_our_own(kind, at_tokens, turns, outputs, cancel_at, renderer, task, store, ungraded) -> None:
    policy, sandbox, partial = Keeping(list(turns), renderer), Echo(list(outputs)), []

    async def run() -> Trajectory:
        image = Image(task.image, "none", "sha256:none", "none")
        going = {"policy": policy, "renderer": renderer, "backend": sandbox, "image": image, "seed": 1}
        episode = run_episode(task, profile=small(kind, at_tokens), on_cancel=partial.append, **going)
        running = asyncio.create_task(episode)
        for _ in range(cancel_at or 0):
            await asyncio.sleep(0)
        if cancel_at is not None:
            running.cancel()
        return await running

    try:
        trajectory = asyncio.run(run())
        assert trajectory.termination is Termination.POLICY_FAILURE  # which is what the end of the script is
    except asyncio.CancelledError:
        event(f"cancelled, in a generation: {policy.broken_off}")
        if not partial:  # before its first line
            assert not policy.kept
            return
        [trajectory] = partial
        assert trajectory.termination is Termination.CANCELLED
    assert trajectory.reward is None
    assert recorded(prove(trajectory, store)) == told(policy)
    events = {call.context_event for call in trajectory.calls}
    event(", ".join(sorted(events)))
    versions = [span.version for call in trajectory.calls for span in call.policy_versions]
    assert versions == sorted(versions)


@dataclass(frozen=True)
class Move:
    """What a client does next in one of its conversations.

    change: to its history before it asks. after: how long it waits until it goes away, None: it stays. aside: it does not wait
    for the answer before the next move, so that requests run side by side. taken: the answer is put into the conversation.
    """

    conversation: int
    change: str
    text: str = ""
    stop: str = ""
    retry: bool = False
    after: int | None = None
    aside: bool = False
    taken: bool = True


moves = st.builds(
    Move,
    conversation=st.integers(0, 2),
    change=st.sampled_from(["append", "append", "none", "drop", "edit"]),
    text=texts,
    stop=st.sampled_from(["", "", "", "a", "\n"]),
    retry=st.booleans(),
    after=st.one_of(st.none(), st.none(), st.integers(0, 120)),
    aside=st.booleans(),
    taken=st.booleans(),
)


async def act(client: httpx.AsyncClient, play: list[Move]) -> list[asyncio.Task[None]]:
    """Play the moves; an answer that arrives is put into the conversation as a client would. What is still going on."""
    histories: dict[int, list[dict[str, Any]]] = {}
    going: list[asyncio.Task[None]] = []

    async def ask(move: Move, history: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
        body = {"model": "any", "messages": messages, "stop": [move.stop] if move.stop else None}
        headers = {"x-stainless-retry-count": str(int(move.retry))}
        response = await client.post("/v1/chat/completions", json=body, headers=headers)
        assert response.status_code in (200, 401, 403, 502), response.text
        if response.status_code == 200 and move.taken:
            message = response.json()["choices"][0]["message"]
            history += [{"role": "assistant", "content": message["content"] or ""}]

    for move in play:
        history = histories.setdefault(move.conversation, [{"role": "user", "content": "start"}])
        if move.change == "drop" and len(history) > 2:
            del history[1:3]
        elif move.change == "edit":
            history[0] = {"role": "user", "content": move.text}
        elif move.change == "append":
            history.append({"role": "user", "content": move.text})
        if history[-1]["role"] == "assistant":
            history.append({"role": "user", "content": "and?"})
        asking = asyncio.create_task(ask(move, history, list(history)))
        for _ in range(move.after or 0):
            await asyncio.sleep(0)
        if move.after is not None:
            asking.cancel()
        if move.aside:
            going.append(asking)
        else:
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.result()
    return going


@RANDOM
@given(
    turns=st.lists(st.one_of(answers, answers, answers, failures), min_size=4, max_size=14),
    play=st.lists(moves, min_size=2, max_size=14),
    ends=st.sampled_from(["done", "in flight"]),
)
def test_an_episode_of_the_gateway(turns, play, ends, renderer, task, store) -> None:
    policy = Keeping(list(turns), renderer)

    async def run() -> Trajectory:
        image = Image(task.image, "none", "sha256:none", "none")
        setting = Setting(task, policy, renderer, load_profile("gateway"), Echo([]), image, seed=1)  # type: ignore[arg-type]
        gateway, session = Gateway(), Session(Workplace(setting, Recorder(setting)))
        gateway.admit(session)
        transport, headers = httpx.ASGITransport(app=create_app(gateway)), {"authorization": f"Bearer {session.key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
            going = await act(client, play)
            if ends == "done" and going:
                await asyncio.wait(going)
            await gateway.dismiss(session)
            for task_ in going:
                with contextlib.suppress(asyncio.CancelledError):
                    await task_
        session.finished.cancel()
        return replace(session.record.trajectory(Termination.SUBMITTED), reward=0.0)

    trajectory = asyncio.run(run())
    notes = trajectory.metadata["gateway"]
    assert 0 <= notes["kept_fraction"] <= 1
    assert 0 <= notes["delivered_fraction"] <= 1
    event(f"branches: {notes['branches']}, unfinished: {notes['unfinished']}, repeated: {notes['repeated']}")
    found = Counter(recorded(prove(trajectory, store)))
    if any(move.stop for move in play):  # what was sampled behind a stop string is cut off, and nothing else is
        assert all(any(_begins(one, whole) for whole in told(policy)) for one in found)
        assert found.total() == len(policy.kept)
    else:
        assert found == Counter(told(policy)), "each generation is recorded once, however often it was asked for"
    again = prompts_again(trajectory, renderer)
    assert {k: np.asarray(prompt).tolist() for k, prompt in again.items()} == {
        k: call.prompt_token_ids.tolist() for k, call in enumerate(trajectory.calls)
    }, "each prompt can be laid again of what was kept"


def _begins(one: tuple[Any, ...], whole: tuple[Any, ...]) -> bool:
    """Whether a recorded call is the beginning of one that was answered."""
    prompt, ids, logprobs, versions, reason = one
    if one == whole:
        return True
    covered = tuple(replace(span, end=min(span.end, len(ids) // 4)) for span in whole[3] if span.start < len(ids) // 4)
    same = prompt == whole[0] and whole[1].startswith(ids) and whole[2].startswith(logprobs)
    return same and versions == covered and reason is FinishReason.ABORT


@pytest.mark.parametrize("kind", ["append", "summarise"])
def test_nothing_at_all_is_a_record_too(kind, renderer, store) -> None:
    nothing = Generation(np.zeros(0, np.int32), np.zeros(0, np.float32), (), FinishReason.ABORT)
    context = Context(renderer, [], ContextPolicy(kind=kind), 20)
    context.begin([{"role": "user", "content": "u"}])
    calls: list[ModelCall] = []
    events: list[ContextEvent] = []
    for _ in range(4):
        events.append(context.event)
        calls.append(
            ModelCall(
                context.prompt, nothing.token_ids, nothing.logprobs, Sampling(), (), FinishReason.ABORT, events[-1]
            )
        )
        if context.awaits_summary:
            context.summarised(nothing.token_ids)
        else:
            context.extend(nothing.token_ids, [{"role": "user", "content": "x"}])
    assert (ContextEvent.COMPACTED in events) == (kind == "summarise")
    prove(Trajectory("t", "", "", "", "", "p", PolicyKind.MODEL, tuple(calls), (), Termination.MAX_STEPS, 0.0), store)
