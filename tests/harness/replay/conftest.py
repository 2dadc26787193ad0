"""Recorded episodes to replay: short, scripted, in a real sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.store import Trajectory
from agentgym.tasks import Task
from harness.episode import run_episode
from harness.policies.scripted import ScriptedPolicy, Turn
from harness.profile import Profile, load_profile
from harness.render import GuardedRenderer

Play = Callable[..., Awaitable[Trajectory]]


@pytest.fixture(scope="session")
def profile() -> Profile:
    return load_profile("tiny")


@pytest.fixture(scope="session")
def bash() -> Callable[[str], Turn]:
    return lambda command: Turn(tool="bash", arguments={"command": command})


@pytest.fixture
def play(task: Task, image: Image, backend: SandboxBackend, renderer: GuardedRenderer, profile: Profile) -> Play:
    async def run(*turns: Turn, under: Profile = profile) -> Trajectory:
        policy = ScriptedPolicy(turns, renderer)
        return await run_episode(
            task, policy=policy, renderer=renderer, profile=under, backend=backend, image=image, seed=1
        )

    return run
