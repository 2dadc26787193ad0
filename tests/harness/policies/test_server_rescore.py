"""A vLLM server scores what it sampled as it did then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.store import Trajectory
from agentgym.store.records import ContextEvent, ModelCall, PolicyKind, Sampling, Termination
from harness.policies.protocol import PolicyError
from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig
from harness.replay import Rescorer, ServerRescorer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


async def test_a_server_and_its_checkpoint_give_the_recorded_logprobs(vllm_url, untied_dir) -> None:
    policy = VllmPolicy(VllmPolicyConfig(url=vllm_url))
    prompt, calls = np.arange(3, 40, dtype=np.int32), []
    for number in range(3):
        sampling = Sampling(seed=number, temperature=1.0 if number < 2 else 0.5)
        answer = await policy.generate(prompt, sampling=sampling, max_tokens=24, stop_token_ids=[], episode_id="e")
        calls.append(
            ModelCall(prompt, answer.token_ids, answer.logprobs, sampling, answer.versions, answer.finish_reason)
        )
        prompt = np.concatenate([prompt, answer.token_ids, np.arange(7, 11, dtype=np.int32)])
    await policy.close()
    made = _trajectory(*calls)
    scorer = ServerRescorer(vllm_url + "/v1")
    report = scorer.score(made)
    assert len(report.recorded) == sum(len(call.generation_token_ids) for call in calls[:2])
    assert report.skipped == len(calls[2].generation_token_ids)  # a server does not score a tempered distribution
    assert report.max_gap <= 1e-3
    assert Rescorer(untied_dir).score(made).max_gap <= 1e-3

    wrong = replace(calls[0], logprobs=calls[0].logprobs - np.float32(0.5))
    assert scorer.score(_trajectory(wrong)).max_gap == pytest.approx(0.5, abs=1e-2)
    with pytest.raises(InputError, match="a server scores no other distribution"):
        scorer.score(_trajectory(calls[2]))
    scorer.close()
    with pytest.raises(PolicyError, match="no vLLM server answers"):
        ServerRescorer("http://127.0.0.1:9")


def _trajectory(*calls: ModelCall) -> Trajectory:
    return Trajectory(
        task_id="t",
        task_digest="d",
        harness_digest="h",
        backend="local",
        image_digest="i",
        policy="p",
        policy_kind=PolicyKind.MODEL,
        calls=(replace(calls[0], context_event=ContextEvent.APPEND), *calls[1:]),
        steps=(),
        termination=Termination.SUBMITTED,
        reward=0.0,
    )
