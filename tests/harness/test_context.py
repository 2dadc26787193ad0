"""Context policies: what a prompt becomes when it has grown long, and that what was sampled stays as it was sampled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

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
from harness.context import Context
from harness.profile import ContextPolicy
from harness.render import assistant_turn

FIRST = [{"role": "system", "content": "You work."}, {"role": "user", "content": "The task."}]


@pytest.fixture
def start(renderer):
    def begin(at_tokens=600, **policy):
        context = Context(renderer, [], ContextPolicy(**policy), at_tokens)
        context.begin(FIRST)
        return context

    return begin


def turns(renderer, context, count):
    """Play turns; the ids sampled in each, and the event of the prompt after it."""
    for number in range(count):
        sampled = np.asarray(
            assistant_turn(renderer, f"turn {number}", [("bash", {"command": f"ls {number}"})]), np.int32
        )
        context.extend(
            sampled, [{"role": "tool", "content": f"obs{number} " + "x " * 60 + f"end{number}", "name": "bash"}]
        )
        yield number, sampled, context.event


def holds(prompt, part):
    text, wanted = ",".join(map(str, prompt.tolist())), ",".join(map(str, part.tolist()))
    return f",{wanted}," in f",{text},"


def test_append_never_compacts(start, renderer):
    context = start(kind="append")

    assert {event for _, _, event in turns(renderer, context, 12)} == {ContextEvent.APPEND}
    assert len(context) > 600


def test_truncated_observations_keep_every_sampled_turn(start, renderer):
    context = start(kind="truncate-observations", keep_turns=2, observation_chars=20)
    played = list(turns(renderer, context, 12))

    events = [event for _, _, event in played]
    assert ContextEvent.TRUNCATED in events
    assert events[0] is ContextEvent.APPEND
    assert all(holds(context.prompt, sampled) for _, sampled, _ in played)
    text = renderer.decode(context.prompt.tolist())
    assert "characters left out here" in text
    assert "obs11 " + "x " * 60 + "end11" in text


def test_a_compaction_that_would_save_little_is_not_made(start, renderer):
    context = start(at_tokens=200, kind="truncate-observations", keep_turns=2, observation_chars=5000)

    assert {event for _, _, event in turns(renderer, context, 8)} == {ContextEvent.APPEND}


def test_window_keeps_the_last_turns_and_says_what_is_gone(start, renderer):
    context = start(kind="window", keep_turns=3)
    played, cut_at = [], None
    for played_turn in turns(renderer, context, 20):
        played.append(played_turn)
        if played_turn[2] is ContextEvent.TRUNCATED:
            cut_at = played_turn[0]
            break

    text = renderer.decode(context.prompt.tolist())
    assert cut_at is not None
    assert f"The task.\n\n[{cut_at + 1 - 3} earlier turns are left out here]" in text
    assert [holds(context.prompt, sampled) for _, sampled, _ in played] == [False] * (cut_at - 2) + [True] * 3
    assert len(context) < 600


def test_a_summary_is_a_call_of_its_own_and_replaces_the_turns(start, renderer):
    context = start(kind="summarise")
    _, sampled, _ = next(turn for turn in turns(renderer, context, 20) if context.awaits_summary)
    assert context.event is ContextEvent.APPEND
    assert holds(context.prompt, sampled)
    assert "summarise for yourself" in renderer.decode(context.prompt.tolist())

    summary = np.asarray(assistant_turn(renderer, "I changed a.py line 3. <|im_end|> Left: tests."), np.int32)
    context.summarised(summary)

    assert context.event is ContextEvent.COMPACTED
    assert not context.awaits_summary
    text = renderer.decode(context.prompt.tolist())
    assert "Your summary of it:\n\nI changed a.py line 3. <|im_end|> Left: tests." in text
    assert "obs0" not in text
    assert context.prompt.tolist().count(renderer.get_stop_token_ids()[0]) == 2

    _, _, event = next(turns(renderer, context, 1))
    assert event is ContextEvent.APPEND


@pytest.mark.parametrize("kind", ["truncate-observations", "window", "summarise"])
def test_sequences_split_exactly_at_the_events_and_hold_every_sampled_token(start, renderer, kind):
    context, calls = start(kind=kind, keep_turns=2, observation_chars=20), []

    def call(sampled):
        calls.append(
            ModelCall(
                context.prompt,
                sampled,
                np.zeros(len(sampled), np.float32),
                Sampling(),
                (VersionSpan(0, 0, len(sampled)),),
                FinishReason.STOP,
                context.event,
            )
        )

    for number in itertools.count():
        if number >= 25:
            break
        if context.awaits_summary:
            sampled = np.asarray(assistant_turn(renderer, f"Summary {number}."), np.int32)
            call(sampled)
            context.summarised(sampled)
            continue
        sampled = np.asarray(assistant_turn(renderer, "", [("bash", {"command": f"ls {number}"})]), np.int32)
        call(sampled)
        context.extend(sampled, [{"role": "tool", "content": f"obs{number} " + "y " * 60, "name": "bash"}])
    trajectory = Trajectory("t", "", "", "", "", "p", PolicyKind.MODEL, tuple(calls), (), Termination.MAX_STEPS, 0.0)

    derived = sequences(trajectory)

    events = [c.context_event for c in calls]
    assert len(derived) == 1 + sum(event is not ContextEvent.APPEND for event in events)
    assert len(derived) > 2
    assert sum(int(s.action_mask.sum()) for s in derived) == sum(len(c.generation_token_ids) for c in calls)
