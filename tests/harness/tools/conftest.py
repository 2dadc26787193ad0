"""A tool in a real sandbox: one sandbox for the session, a fresh workspace for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend
from harness.tools import TOOLS, Observation, ToolContext

_numbers = itertools.count()


@dataclass
class Workspace:
    """call: run a tool. put, get: files by path relative to the workspace. sh: a command, its output."""

    context: ToolContext

    async def call(self, tool: str, /, **arguments: object) -> Observation:
        return await TOOLS[tool].run(self.context, arguments)

    async def put(self, path: str, data: bytes, mode: int | None = None) -> None:
        await self.context.sandbox.write_file(f"{self.context.workdir}/{path}", data, mode=mode)

    async def get(self, path: str) -> bytes:
        return await self.context.sandbox.read_file(f"{self.context.workdir}/{path}")

    async def sh(self, command: str) -> str:
        return (await self.context.sandbox.exec(command, cwd=self.context.workdir)).text


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandbox(backend: SandboxBackend, image: Image) -> AsyncIterator[Sandbox]:
    sandbox = await backend.start(image)
    yield sandbox
    await sandbox.close()


@pytest_asyncio.fixture(loop_scope="session")
async def workspace(sandbox: Sandbox) -> Workspace:
    workdir = f"/tmp/workspace{next(_numbers)}"
    await sandbox.exec(f"mkdir -p {workdir}; cd {workdir}", stateful=True)
    return Workspace(ToolContext(sandbox, workdir, max_chars=4000, timeout_s=20))
