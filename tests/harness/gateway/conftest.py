"""A gateway on a real port in front of a scripted policy, and an episode open in it; no sandbox unless a test starts one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest

from agentgym.sandbox.protocol import Image
from agentgym.store.records import FinishReason, PolicyKind, Termination, Trajectory, VersionSpan
from agentgym.tasks import Task
from harness.gateway.app import create_app
from harness.gateway.gateway import Gateway
from harness.gateway.server import serving
from harness.gateway.session import Session
from harness.policies.protocol import Generation
from harness.profile import Profile, load_profile
from harness.recorder import Recorder, Setting
from harness.render import GuardedRenderer, assistant_turn
from harness.workplace import Workplace

TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run it",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


@dataclass
class Typist:
    """A policy that says what it is told to, whoever asks; remembers every prompt. hold: answers wait for it. rest: so does the
    second half of one that is streamed.
    """

    renderer: GuardedRenderer
    turns: list[list[int] | BaseException] = field(default_factory=list)
    prompts: list[list[int]] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    rest: asyncio.Event = field(default_factory=asyncio.Event)
    name: str = "typist"
    kind: PolicyKind = PolicyKind.MODEL
    model: str = "typist-1"
    context_length: int = 4096
    version: int = 3

    def __post_init__(self) -> None:
        self.hold.set()
        self.rest.set()

    def say(self, text: str = "", *calls: tuple[str, dict[str, object]]) -> list[int]:
        self.turns.append(assistant_turn(self.renderer, text, list(calls)))
        return self.turns[-1]

    def fail(self, error: BaseException) -> None:
        self.turns.append(error)

    async def generate(self, prompt_token_ids, *, sampling, max_tokens, stop_token_ids, episode_id) -> Generation:
        self.prompts.append(prompt_token_ids.tolist())
        turn = self.turns.pop(0)
        await self.hold.wait()
        if isinstance(turn, BaseException):
            raise turn
        ids = np.asarray(turn[:max_tokens], np.int32)
        cut = FinishReason.STOP if len(turn) <= max_tokens else FinishReason.LENGTH
        logprobs = -np.linspace(0.1, 1, len(ids), dtype=np.float32)
        return Generation(ids, logprobs, (VersionSpan(self.version, 0, len(ids)),) if len(ids) else (), cut)

    async def stream(self, prompt_token_ids, *, on_tokens, **options) -> Generation:
        answer = await self.generate(prompt_token_ids, **options)
        ids = answer.token_ids.tolist()
        for number, token in enumerate(ids):
            if number == len(ids) // 2:
                await self.rest.wait()
            on_tokens([token])
            await asyncio.sleep(0)
        return answer

    async def end_episode(self, episode_id: str) -> None: ...

    async def close(self) -> None: ...


@pytest.fixture
def typist(renderer: GuardedRenderer) -> Typist:
    return Typist(renderer)


@pytest.fixture
def profile() -> Profile:
    return load_profile("gateway")


@pytest.fixture
async def gateway() -> Gateway:
    return Gateway(ping_s=0.2)


@pytest.fixture
async def url(gateway: Gateway) -> AsyncIterator[str]:
    async with serving(create_app(gateway)) as url:
        yield url


@pytest.fixture
async def session(gateway: Gateway, typist: Typist, renderer: GuardedRenderer, profile: Profile, task: Task) -> Session:
    image = Image(task.image, "none", "sha256:none", "none")
    setting = Setting(task, typist, renderer, profile, backend=Nowhere(), image=image, seed=5)
    session = Session(Workplace(setting, Recorder(setting)))
    gateway.admit(session)
    return session


class Nowhere:
    name = "nowhere"


@pytest.fixture
async def client(url: str, session: Session) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {session.key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
def record(gateway: Gateway, session: Session):
    """The trajectory so far, once the episode is over."""

    async def settle(termination: Termination = Termination.SUBMITTED) -> Trajectory:
        await gateway.dismiss(session)
        return session.record.trajectory(termination)

    return settle


@pytest.fixture
def chat(client: httpx.AsyncClient):
    """Ask for a chat completion; the JSON answer."""

    async def ask(messages: Sequence[dict[str, object]], **body: object) -> dict[str, object]:
        response = await client.post("/v1/chat/completions", json={"model": "any", "messages": list(messages), **body})
        assert response.status_code == 200, response.text
        return response.json()

    return ask
