"""Episodes that somebody registers over HTTP: a task goes in, a key comes out, and later a graded trajectory.

    POST   /episodes       {"task": ...}            a sandbox starts; the episode's key and all an agent needs to begin
    GET    /episodes/ID    ?wait=SECONDS            how it stands, and its trajectory once it is stored
    DELETE /episodes/ID                             give it up; nothing is stored, unless it is being stored already

These routes want the desk's own key: who registers episodes sees rewards, an agent does not. An episode ends when its agent says
so (`POST /episode/finish` with the episode's key), when a budget is spent, or at its deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.errors import AgentGymError, InputError
from agentgym.sandbox.protocol import SandboxBackend, SandboxError
from agentgym.store import Store, Trajectory
from agentgym.store.records import Termination
from agentgym.store.validate import fits_column
from agentgym.tasks.model import Task
from harness.gateway.gateway import Gateway
from harness.gateway.hosting import host_episode
from harness.gateway.refusal import Refusal, unusable
from harness.gateway.session import Session
from harness.policies.protocol import Policy
from harness.profile import Profile
from harness.recorder import Setting
from harness.render import GuardedRenderer


@dataclass(slots=True, eq=False)
class Hosted:
    """One registered episode. opened: its session, once the sandbox runs. storing: from then on it is not given up. ends: with
    the stored trajectory.
    """

    id: str
    task: Task
    opened: asyncio.Future[Session]
    storing: bool = False
    ends: asyncio.Task[Trajectory] = field(init=False)


@dataclass(slots=True, eq=False)
class Desk:
    """find: a task by name, or an InputError. capacity: episodes open at once. key: made up where none is given."""

    gateway: Gateway
    store: Store
    backend: SandboxBackend
    policy: Policy
    renderer: GuardedRenderer
    profile: Profile
    find: Callable[[str], Task]
    run_id: str
    own_sampling: bool = False
    capacity: int = 64
    key: str = ""
    _episodes: dict[str, Hosted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = self.key or "ak-agentgym-" + secrets.token_urlsafe(24)

    def authorise(self, key: str | None) -> None:
        if key is None or not secrets.compare_digest(key.encode(), self.key.encode()):
            raise Refusal(401, "episodes are registered with the desk's own key", code="invalid_api_key")

    async def register(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Start an episode; returns when its sandbox runs. Raises Refusal."""
        if unknown := sorted(body.keys() - {"task", "seed", "group_id", "agent"}):
            raise unusable(f"no such fields: {', '.join(unknown)}", unknown[0])
        name, seed = body.get("task"), body.get("seed")
        group, agent = body.get("group_id", ""), body.get("agent", self.profile.name)
        if not isinstance(name, str) or not name:
            raise unusable(f"task must name one (got {name!r})", "task")
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63):
            raise unusable(f"seed must be a whole number from 0 (got {seed!r})", "seed")
        for field_, text, least in (("group_id", group, 0), ("agent", agent, 1)):
            if not isinstance(text, str) or not least <= len(text) <= 64 or not fits_column(text):
                raise unusable(f"{field_} must be a text of {least} to 64 characters that a database can hold", field_)
        try:
            task = await asyncio.to_thread(self.find, name)
        except InputError as error:
            raise unusable(str(error), "task") from error
        # From here to where it is entered nothing else runs, so no two take the same place.
        if sum(not hosted.ends.done() for hosted in self._episodes.values()) >= self.capacity:
            raise Refusal(429, f"{self.capacity} episodes are open already", code="too_many_episodes")
        hosted = Hosted(uuid.uuid4().hex, task, asyncio.get_running_loop().create_future())
        hosted.ends = asyncio.create_task(self._run(hosted, seed, group, agent))
        self._episodes[hosted.id] = hosted
        await asyncio.wait({hosted.opened, hosted.ends}, return_when=asyncio.FIRST_COMPLETED)
        if not hosted.opened.done():
            raise Refusal(503, f"the episode did not start: {_reason(hosted.ends)}", code="environment_failure")
        session = hosted.opened.result()
        return {"id": hosted.id, "key": session.key, **session.describe()}

    async def state(self, id_: str, wait: float = 0.0) -> dict[str, Any]:
        """How an episode stands. wait: seconds to wait for its end."""
        hosted = self._hosted(id_)
        await asyncio.wait({hosted.ends}, timeout=min(max(0.0, wait), 600.0))
        if not hosted.ends.done():
            session = hosted.opened.result() if hosted.opened.done() else None
            acting = session is not None and session.key in self.gateway
            return {
                "id": id_,
                "task": hosted.task.id,
                "status": "open" if acting else "grading" if session else "starting",
            }
        if hosted.ends.cancelled() or hosted.ends.exception() is not None:
            return {"id": id_, "task": hosted.task.id, "status": "failed", "error": _reason(hosted.ends)}
        trajectory = hosted.ends.result()
        return {
            "id": id_,
            "task": hosted.task.id,
            "status": "stored",
            "trajectory": trajectory.id,
            "termination": trajectory.termination,
            "reward": trajectory.reward,
            "verdicts": dict(trajectory.verdicts),
            "error": trajectory.error,
            "gateway": trajectory.metadata.get("gateway"),
        }

    async def cancel(self, id_: str) -> dict[str, Any]:
        hosted = self._hosted(id_)
        _give_up(hosted)
        await asyncio.wait({hosted.ends})
        return await self.state(id_)

    async def close(self) -> None:
        """Give up what is open; every sandbox is removed."""
        running = [hosted for hosted in self._episodes.values() if not hosted.ends.done()]
        for hosted in running:
            _give_up(hosted)
        await asyncio.gather(*(hosted.ends for hosted in running), return_exceptions=True)

    async def _run(self, hosted: Hosted, seed: int | None, group: str, agent: str) -> Trajectory:
        image = await self.backend.ensure_image(hosted.task.image)
        profile = self.profile.model_copy(update={"name": agent})
        setting = Setting(
            hosted.task, self.policy, self.renderer, profile, self.backend, image, seed, self.run_id, group
        )

        async def drive(session: Session) -> Termination:
            hosted.opened.set_result(session)
            return await until_finished(session)

        trajectory = await host_episode(setting, drive, self.gateway, own_sampling=self.own_sampling)
        hosted.storing = True
        await asyncio.to_thread(self.store.add, trajectory, profile.document())
        return trajectory

    def _hosted(self, id_: str) -> Hosted:
        if id_ not in self._episodes:
            raise Refusal(404, f"no episode {id_!r} was registered here", code="not_found")
        return self._episodes[id_]


def _give_up(hosted: Hosted) -> None:
    """A write that has begun is not undone by anybody who stops waiting for it."""
    if not hosted.storing:
        hosted.ends.cancel()


async def until_finished(session: Session) -> Termination:
    """Wait until the agent says that it is done, a budget is spent, or the time is over."""
    over = asyncio.ensure_future(session.over.wait())
    try:
        await asyncio.wait(
            {session.finished, over}, timeout=session.deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        over.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await over
    if session.finished.done():
        return session.finished.result()
    return session.ended or Termination.TIME_LIMIT


def _reason(ends: asyncio.Task[Trajectory]) -> str:
    if ends.cancelled():
        return "cancelled"
    error = ends.exception()
    if error is None:
        return ends.result().error or ends.result().termination.value
    return str(error) if isinstance(error, (AgentGymError, SandboxError)) else repr(error)
