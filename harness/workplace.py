"""The place where one episode happens: its sandbox, what comes out of it, and how failures become terminations.

    start -> act -> extract patch -> grade -> Trajectory

`act` is the part in which a policy acts, and says why it ended; our own loop (`harness.episode`) and other harnesses
(`harness.gateway`) differ in nothing else. What goes wrong around the policy is never its zero:

    SandboxError, HarnessError   environment_failure     the sandbox, the grader or the agent's own program failed
    PolicyError                  policy_failure          the policy's server failed

Whatever happens, the sandbox is closed before `episode` returns or raises.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentgym.errors import AgentGymError
from agentgym.sandbox.protocol import Sandbox, SandboxError
from agentgym.store.records import Termination, Trajectory
from agentgym.verify import extract_patch, grade
from agentgym.verify.grade import Grade, Patch
from harness.policies.protocol import PolicyError
from harness.recorder import Recorder, Setting
from harness.tools import ToolContext

_START_ATTEMPTS = 3


class HarnessError(AgentGymError):
    """The program that drives the policy failed, not the policy: an agent crashed, or never asked for anything."""


@dataclass(slots=True)
class Workplace:
    """One episode's sandbox and its end. record: what happens is written there."""

    setting: Setting
    record: Recorder
    sandbox: Sandbox | None = None
    _graded: tuple[Patch, Grade] | None = None
    """The last patch that was graded while the policy acted, and its verdict."""

    async def episode(self, act: Callable[[], Awaitable[Termination]]) -> Trajectory:
        """Let `act` happen, then grade what it left; raises only what is none of the failures above."""
        record = self.record
        try:
            termination = await act()
            record.patch = await self.patch()
        except (SandboxError, HarnessError) as error:
            return record.trajectory(Termination.ENVIRONMENT_FAILURE, error=f"{type(error).__name__}: {error}")
        except PolicyError as error:
            return record.trajectory(Termination.POLICY_FAILURE, error=f"{type(error).__name__}: {error}")
        finally:
            await self.close()
            with contextlib.suppress(PolicyError):  # a server that cannot forget an episode changes nothing about it
                await self.setting.policy.end_episode(record.id)
        record.grade = record.grade or await self.grade(record.patch)
        if record.grade.reward is None:
            error = f"grading failed (the policy's part ended with {termination}): {record.grade.error}"
            return record.trajectory(Termination.ENVIRONMENT_FAILURE, error=error)
        return record.trajectory(termination)

    async def start(self) -> None:
        """Start a fresh sandbox, with patience; raises SandboxError."""
        setting = self.setting
        image = (setting.prefix.image if setting.prefix else None) or setting.image
        with self.record.phase("start"):
            for attempt in range(1, _START_ATTEMPTS + 1):
                try:
                    self.sandbox = await setting.backend.start(image, setting.task.limits)
                    return
                except SandboxError as error:
                    if not error.retry_safe or attempt == _START_ATTEMPTS:
                        raise
                    await asyncio.sleep(0.5 * attempt)

    async def close(self) -> None:
        """Remove the sandbox; what cannot be removed now, the reaper finds by its labels."""
        sandbox, self.sandbox = self.sandbox, None
        if sandbox is not None:
            with contextlib.suppress(SandboxError):
                await sandbox.close()

    async def patch(self) -> Patch:
        """What the workspace differs by from the image, as a diff."""
        setting = self.setting
        return await extract_patch(self.live, setting.task, backend=setting.backend, image=setting.image)

    async def grade(self, patch: Patch) -> Grade:
        """Grade in a fresh sandbox; a verifier that cannot even start is a grade without a reward. The patch that was graded last
        is not graded again."""
        if self._graded is not None and self._graded[0] == patch and self._graded[1].reward is not None:
            return self._graded[1]
        with self.record.phase("grade"):
            try:
                found = await grade(self.setting.task, patch, self.setting.backend, image=self.setting.image)
            except SandboxError as error:
                found = Grade(None, error=f"{type(error).__name__}: {error}")
        self._graded = (patch, found)
        return found

    def tools(self, deadline: float) -> ToolContext:
        """What tools work with; deadline: `time.monotonic()` at which acting ends."""
        shown, workdir = self.setting.profile.observation, self.setting.task.workdir
        return ToolContext(self.live, workdir, shown.max_chars, shown.timeout_s, deadline, shown.finish_marker)

    @property
    def live(self) -> Sandbox:
        assert self.sandbox is not None, "the sandbox is used only between start and close"
        return self.sandbox
