"""One episode that another harness drives: a sandbox, a key, whatever drives it, and then our grade."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agentgym.store.records import Termination, Trajectory
from harness.gateway.gateway import Gateway
from harness.gateway.session import Session
from harness.recorder import Recorder, Setting
from harness.workplace import Workplace

Drive = Callable[[Session], Awaitable[Termination]]
"""Lets an agent act in an open session; returns how it ended, where nothing else has ended the episode before."""


async def host_episode(
    setting: Setting,
    drive: Drive,
    gateway: Gateway,
    *,
    own_sampling: bool = False,
    on_phase: Callable[[str], None] | None = None,
    on_cancel: Callable[[Trajectory], None] | None = None,
) -> Trajectory:
    """Run one episode; as `run_episode`, with `drive` in place of the loop. own_sampling: see `Session`."""
    record = Recorder(setting, on_phase)
    place = Workplace(setting, record)

    async def act() -> Termination:
        await place.start()
        session = Session(place, own_sampling)
        gateway.admit(session)
        try:
            return session.verdict(await drive(session))
        finally:
            await gateway.dismiss(session)

    try:
        return await place.episode(act)
    except asyncio.CancelledError:
        if on_cancel:
            on_cancel(record.trajectory(Termination.CANCELLED, error="cancelled"))
        raise
