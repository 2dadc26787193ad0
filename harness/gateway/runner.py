"""Episodes of another harness as the rollout engine runs them: `run_rollouts(..., episode=AgentRunner(...))`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.store.records import Trajectory
from agentgym.tasks.model import Task
from harness.gateway.agent import Agent
from harness.gateway.app import create_app
from harness.gateway.gateway import Gateway
from harness.gateway.hosting import host_episode
from harness.gateway.server import serving
from harness.policies.protocol import Policy
from harness.profile import Profile
from harness.recorder import Setting
from harness.render import GuardedRenderer


@dataclass(frozen=True, slots=True)
class AgentRunner:
    """See `harness.engine.Runner`. url: where `gateway` is served."""

    agent: Agent
    gateway: Gateway
    url: str
    own_sampling: bool = False

    async def __call__(
        self,
        task: Task,
        *,
        policy: Policy,
        renderer: GuardedRenderer,
        profile: Profile,
        backend: SandboxBackend,
        image: Image,
        seed: int | None,
        run_id: str,
        group_id: str,
        on_phase: Callable[[str], None] | None,
    ) -> Trajectory:
        return await host_episode(
            Setting(task, policy, renderer, profile, backend, image, seed, run_id, group_id),
            lambda session: self.agent.drive(session, self.url),
            self.gateway,
            own_sampling=self.own_sampling,
            on_phase=on_phase,
        )


def profile_for(agent: Agent, profile: Profile) -> Profile:
    """The profile under the agent's name: whose prompts and tools a trajectory holds is part of its harness digest."""
    return profile.model_copy(update={"name": agent.name})


@contextlib.asynccontextmanager
async def agent_runner(agent: Agent, *, own_sampling: bool = False) -> AsyncIterator[AgentRunner]:
    """A runner with a gateway of its own on this machine, served while the block runs."""
    gateway = Gateway()
    async with serving(create_app(gateway)) as url:
        yield AgentRunner(agent, gateway, url, own_sampling)
