"""Weights sent to a real vLLM server by vLLM's own sender, in a process of its own; only NCCL has a stand-in (`without_gpu`)."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from servers import WITHOUT_GPU, Vllm, free_port
from torch import Tensor

from agentgym.models import untie
from agentgym.store.records import Sampling
from harness.policies.protocol import Generation, OnTokens, PublishError
from harness.policies.vllm_policy import VllmPolicy
from trainer.errors import TrainConfigError, TransferError
from trainer.online.publisher import ServerPublisher, publisher_for, scorer_of
from trainer.run import TrainingRun

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500), pytest.mark.asyncio(loop_scope="session")]

PROMPT = np.arange(3, 40, dtype=np.int32)


class Elsewhere:
    """A sender that runs where vLLM can be imported. factor: what comes of the weights on the way."""

    def __init__(self, python: str, url: str, directory: Path) -> None:
        self.python, self.url, self.directory = python, url, directory
        self.factor = 1.0

    def send(self, weights: Mapping[str, Tensor]) -> None:
        file = self.directory / "sent.safetensors"
        save_file({name: (tensor * self.factor).contiguous() for name, tensor in weights.items()}, file)
        repository = Path(__file__).resolve().parents[3]
        places = {"PYTHONPATH": f"{WITHOUT_GPU}:{repository}", "OMP_NUM_THREADS": "1"}
        command = [self.python, WITHOUT_GPU / "send.py", self.url, str(free_port()), file]
        done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True, timeout=400)
        if done.returncode:
            raise TransferError(done.stderr[-2000:])


@pytest.fixture(scope="module")
def server(vllm_python: str, tiny_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    place = tmp_path_factory.mktemp("vllm")
    server = Vllm(vllm_python, untie(tiny_dir, place / "untied"), place / "server.log", context=2048, transfer=True)
    with server.running():
        yield server


async def sample(policy: VllmPolicy, tokens: int, on_tokens: OnTokens = lambda tokens: None) -> Generation:
    return await policy.stream(
        PROMPT, sampling=Sampling(seed=1), max_tokens=tokens, stop_token_ids=(), episode_id="a", on_tokens=on_tokens
    )


def gaps(run: TrainingRun, answer: Generation) -> np.ndarray:
    return np.abs(scorer_of(run)(PROMPT, answer.token_ids) - answer.logprobs)


async def test_a_generation_crosses_a_transfer_and_a_failed_one_is_undone(
    configured, policy, vllm_python, tmp_path
) -> None:
    """Given a generation under way, when the learner's weights are sent, then it goes on with them and says where. When others
    arrive than were meant, then the version before is served again, from its directory."""
    run = TrainingRun(configured(), lambda event: None)
    sender = Elsewhere(vllm_python, policy.server.url, tmp_path)
    publisher = ServerPublisher(policy, tmp_path / "published", sender.send)
    await ServerPublisher(policy, publisher.directory).publish(run)
    with torch.no_grad():
        for parameter in run.learner.policy.parameters():
            parameter.mul_(1.05)
    run.learner.version = 1
    started = asyncio.Event()
    running = asyncio.create_task(sample(policy, 300, lambda tokens: started.set()))
    await started.wait()
    assert await publisher.publish(run) < 1e-3
    crossed = await running
    first, second = crossed.versions
    assert (first.version, second.version) == (0, 1)
    assert gaps(run, crossed)[second.start :].max() < 1e-3 < gaps(run, crossed)[: first.end].max()

    run.learner.version, sender.factor = 2, 1.1
    with pytest.raises(PublishError, match="off by"):
        await publisher.publish(run)
    after = await sample(policy, 24)
    assert [span.version for span in after.versions] == [1]
    assert gaps(run, after).max() < 1e-3


async def test_what_cannot_send_is_refused_at_the_start(configured, policy, monkeypatch) -> None:
    assert policy.server.transfer() == ("nccl", 1)
    config = configured(publish="nccl", server=policy.server.url)
    with pytest.raises(TrainConfigError, match="no GPU here"):
        publisher_for(policy, config)
    monkeypatch.setattr(policy.server, "transfer", lambda: (None, 1))
    with pytest.raises(TrainConfigError, match="takes no weights over NCCL"):
        publisher_for(policy, config)
    with pytest.raises(TrainConfigError, match="without a server"):
        configured(publish="nccl")
