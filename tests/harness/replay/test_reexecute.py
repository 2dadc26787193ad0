"""Replay: the same actions come back the same, a difference is found where it begins, logprobs are what they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.models import pull
from agentgym.store.records import Sampling
from harness.episode import run_episode
from harness.policies.scripted import EMPTY_SCRIPT, Turn, gold_script
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig
from harness.profile import Profile
from harness.replay import Rescorer, reexecute, regrade, rescore

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]


async def test_a_solution_comes_back_the_same_with_the_same_reward(play, bash, task, backend, profile) -> None:
    noisy = bash("date; echo took 0.$RANDOM s; echo 0x7f3a${RANDOM}b2; mktemp; cd /testbed && ls")
    recorded = await play(noisy, Turn("No call in this one."), *gold_script(task, profile))
    report = await reexecute(recorded, task, backend, profile=profile, regrade=True)
    assert report.identical == len(report.steps) == len(recorded.steps)
    assert report.first_divergence is None
    first, malformed, *rest = report.steps
    assert (first.identical, first.same_bytes) == (True, False)
    assert not malformed.executed
    assert all(step.same_tree for step in rest)
    assert report.same_reward is True


async def test_the_first_divergence_is_shown_as_a_diff(play, bash, task, backend, profile) -> None:
    recorded = await play(bash("echo same"), bash("echo then; false"), bash("echo after"), *EMPTY_SCRIPT)
    changed = replace(recorded.steps[1], observation="now\n[exit code 1]")
    altered = replace(recorded, steps=(recorded.steps[0], changed, *recorded.steps[2:]))
    report = await reexecute(altered, task, backend, profile=profile)
    divergence = report.first_divergence
    assert divergence is not None
    assert divergence.index == 1
    assert "-now" in divergence.diff
    assert "+then" in divergence.diff
    assert report.identical == len(recorded.steps) - 1
    assert report.same_reward is None


async def test_another_exit_code_is_a_difference(play, bash, task, backend, profile) -> None:
    recorded = await play(bash("exit 0"), *EMPTY_SCRIPT)
    altered = replace(recorded, steps=(replace(recorded.steps[0], exit_code=3), *recorded.steps[1:]))
    report = await reexecute(altered, task, backend, profile=profile)
    assert report.first_divergence is not None
    assert "exit code: recorded 3, replayed 0" in report.first_divergence.diff


async def test_another_version_of_the_task_is_refused(play, bash, task, backend, profile) -> None:
    recorded = await play(*EMPTY_SCRIPT)
    with pytest.raises(InputError, match="is now sha256:0000"):
        await reexecute(recorded, replace(task, digest="sha256:" + "0" * 64), backend, profile=profile)


@pytest.fixture(scope="session")
def model_dir() -> Path:
    return pull()


async def test_a_model_trajectory_is_rescored_to_what_was_recorded(
    task, image, backend, renderer, profile, model_dir
) -> None:
    short = {"max_turns": 2, "max_tokens_per_turn": 16}
    document = profile.model_dump()
    quick = Profile.model_validate({**document, "limits": {**document["limits"], **short}})
    policy = TorchPolicy(TorchPolicyConfig(model=str(model_dir)))
    try:
        recorded = await run_episode(
            task, policy=policy, renderer=renderer, profile=quick, backend=backend, image=image, seed=3
        )
    finally:
        await policy.close()
    assert len(recorded.calls) > 1
    report = rescore(recorded, model_dir, version=0)
    assert len(report.recorded) == sum(len(call.generation_token_ids) for call in recorded.calls)
    assert report.max_gap < 2e-4
    assert report.mean_gap <= report.max_gap

    hotter = replace(
        recorded, calls=tuple(replace(call, sampling=Sampling(temperature=1.5)) for call in recorded.calls)
    )
    scorer = Rescorer(model_dir)
    assert scorer.score(hotter).max_gap > 0.01
    [worst, *_] = report.table(3)
    call = recorded.calls[worst.call_index]
    assert call.generation_token_ids[worst.position] == worst.token_id
    assert worst.gap == report.max_gap
    assert [row.token_id for row in report.table(-1)] == report.token_ids.tolist()
    assert report.quantile(1.0) == pytest.approx(report.max_gap)
    other = scorer.score(recorded, version=1)
    assert (len(other.recorded), other.skipped, other.max_gap) == (0, len(report.recorded), 0.0)


async def test_a_script_is_not_rescored(play, model_dir) -> None:
    recorded = await play(*EMPTY_SCRIPT)
    assert np.all(recorded.calls[0].logprobs == 0)
    with pytest.raises(InputError, match="played from a script"):
        Rescorer(model_dir).score(recorded)


async def test_the_recorded_patch_alone_gets_the_recorded_reward(play, task, backend, profile) -> None:
    solved = await play(*gold_script(task, profile))
    assert (await regrade(solved, task, backend)).reward == solved.reward == 1.0
    broken = replace(solved, patch="")
    assert (await regrade(broken, task, backend)).reward == 0.0
