"""A trajectory in words: the messages the policy saw and sent, made from its token ids for people and for export.

The opening comes from the task and the stored harness profile, what the policy said from its tokens through the renderer's
parser, observations from the steps. Nothing made here goes back to tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from pydantic import ValidationError
from renderers import ParsedResponse, ToolSpec

from agentgym.errors import InputError
from agentgym.store import Store, Trajectory
from agentgym.store.errors import CorruptError, NotFoundError
from agentgym.store.transfer import Transcript, recorded_transcript
from agentgym.tasks import Task, TaskError
from harness.gateway.asked import same
from harness.profile import Profile
from harness.render import GuardedRenderer
from harness.replay.foreign import FOREIGN, requests_of
from harness.replay.lineage import whole
from harness.replay.turns import turns_of

FindTask = Callable[[str], Task]
"""The task with a digest; raises TaskError."""
FindRenderer = Callable[[Trajectory], GuardedRenderer | None]
"""The renderer of the model that sampled a trajectory; None where its tokenizer is not to be had."""


class Transcriber:
    """Call it with trajectories of `store`; whatever is missing for one (task gone, no profile) leaves its own words out."""

    def __init__(self, store: Store, find_task: FindTask, find_renderer: FindRenderer) -> None:
        self._store = store
        self._find = find_task
        self._find_renderer = find_renderer
        self._profiles: dict[str, Profile | None] = {}
        self._tasks: dict[str, Task | None] = {}

    def __call__(self, trajectory: Trajectory) -> Transcript:
        renderer = None if "transcript" in trajectory.metadata else self._find_renderer(trajectory)
        if renderer is None:
            return recorded_transcript(trajectory)
        if FOREIGN in trajectory.metadata:
            return _foreign(trajectory, renderer)
        profile, task = self._profile(trajectory.harness_digest), self._task(trajectory.task_digest)
        if profile is None or task is None:
            return recorded_transcript(trajectory)
        try:
            full = whole(trajectory, self._store)
        except InputError:  # its parent is not here
            return recorded_transcript(trajectory)
        opening = profile.first_messages(instruction=task.instruction, workdir=task.workdir, task_id=task.id)
        turns = [[_said(turn.parsed, turn.call_id), *turn.messages] for turn in turns_of(full, profile, renderer)]
        inherited = len(full.calls) - len(trajectory.calls)
        before = [message for turn in turns[:inherited] for message in turn]
        return Transcript([*opening, *before], turns[inherited:], profile.tool_specs)

    def _profile(self, digest: str) -> Profile | None:
        if digest not in self._profiles:
            try:
                document = self._store.get_document(digest)
            except (NotFoundError, CorruptError):
                document = {}
            try:
                self._profiles[digest] = Profile.model_validate(document["profile"]) if "profile" in document else None
            except ValidationError:  # another program's, or one of another agentgym
                self._profiles[digest] = None
        return self._profiles[digest]

    def _task(self, digest: str) -> Task | None:
        if digest not in self._tasks:
            try:
                self._tasks[digest] = self._find(digest)
            except TaskError:
                self._tasks[digest] = None
        return self._tasks[digest]


def _foreign(trajectory: Trajectory, renderer: GuardedRenderer) -> Transcript:
    """The messages as the other harness sent them, where it only ever appended; else what the policy said, and of what it was
    told only the first prompt, as one text.
    """
    if (found := _as_sent(trajectory, renderer)) is not None:
        return found
    opening = [
        {"role": "user", "content": renderer.decode(call.prompt_token_ids.tolist())} for call in trajectory.calls[:1]
    ]
    turns = [
        [_said(renderer.parse_response(call.generation_token_ids.tolist()), f"call{index}")]
        for index, call in enumerate(trajectory.calls)
    ]
    return Transcript(opening, turns, whole=False)


def _as_sent(trajectory: Trajectory, renderer: GuardedRenderer) -> Transcript | None:
    try:
        asked = [ask for ask, _ in requests_of(trajectory)]
    except InputError:
        return None
    sent = [ask.messages for ask in asked]
    appended = all(
        same(old, new[: len(old)]) and [one["role"] for one in new[len(old) :]][:1] == ["assistant"]
        for old, new in pairwise(sent)
    )
    if not sent or not sent[0] or not appended or not all(same(ask.tools, asked[0].tools) for ask in asked):
        return None
    turns = []
    for index, call in enumerate(trajectory.calls):
        parsed = renderer.parse_response(
            call.generation_token_ids.tolist(),
            tools=cast(list[ToolSpec], list(asked[index].tools)),
            prompt_ids=call.prompt_token_ids.tolist(),
        )
        after = sent[index + 1][len(sent[index]) + 1 :] if index + 1 < len(sent) else ()
        turns.append([_said(parsed, f"call{index}"), *after])
    return Transcript(sent[0], turns, asked[0].tools)


def _said(parsed: ParsedResponse, call_id: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": parsed.content or ""}
    if parsed.reasoning_content:
        message["reasoning_content"] = parsed.reasoning_content
    calls = [
        {
            "type": "function",
            "id": call.id or call_id,
            "function": {"name": call.name, "arguments": call.arguments or {}},
        }
        for call in parsed.tool_calls
        if call.name and not isinstance(call.arguments, str)
    ]
    if calls:
        message["tool_calls"] = calls
    return message
